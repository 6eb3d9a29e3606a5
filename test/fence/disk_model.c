#include "fence/disk_model.h"

#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fence/disk.h"
#include "fence/store.h"

enum {
    IMAGE_MAX = 512 * 1024,
    PENDING_MAX = 4096,
    SECTOR = 512,
};

/* A part of a write that lies in one sector. */
typedef struct piece {
    uint32_t at;
    uint32_t size;
    unsigned char bytes[SECTOR];
} piece;

static struct {
    const char *name;
    unsigned char image[IMAGE_MAX];
    size_t size;
    piece pending[PENDING_MAX];
    unsigned n_pending;
    long life;             /* bytes until death; negative: for ever */
    unsigned failing_sync; /* so many syncs from now; 0: none */
    unsigned n_syncs;
    uint64_t seed;
} disk;

static const el_fence_disk_calls system_calls = {pwrite, fdatasync};

unsigned disk_model_draw(unsigned below)
{
    disk.seed = disk.seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(disk.seed >> 33) % below;
}

static void reach(const piece *p, uint32_t size)
{
    ck_assert_uint_le(p->at + size, IMAGE_MAX);
    memcpy(disk.image + p->at, p->bytes, size);
    if (disk.size < p->at + size) disk.size = p->at + size;
}

static void remember(const unsigned char *bytes, size_t size, size_t at)
{
    while (size > 0) {
        ck_assert_uint_lt(disk.n_pending, PENDING_MAX);
        piece *p = &disk.pending[disk.n_pending++];
        size_t part = SECTOR - at % SECTOR;
        if (part > size) part = size;
        p->at = (uint32_t)at;
        p->size = (uint32_t)part;
        memcpy(p->bytes, bytes, part);
        bytes += part;
        at += part;
        size -= part;
    }
}

static ssize_t write_at(int fd, const void *bytes, size_t size, off_t offset)
{
    if (disk.life >= 0) {
        if ((long)size > disk.life) size = (size_t)disk.life;
        disk.life -= (long)size;
        if (size == 0) {
            errno = EIO;
            return -1;
        }
    }
    remember(bytes, size, (size_t)offset);
    return pwrite(fd, bytes, size, offset);
}

/* Some of the pieces, any of them, reach the disk. */
static void some_reach(bool may_tear)
{
    unsigned torn = may_tear && disk.n_pending ? disk_model_draw(disk.n_pending) : PENDING_MAX;
    unsigned likely = disk_model_draw(5);
    for (unsigned i = 0; i < disk.n_pending; i++) {
        if (i == torn)
            reach(&disk.pending[i], disk_model_draw(disk.pending[i].size + 1));
        else if (disk_model_draw(4) < likely)
            reach(&disk.pending[i], disk.pending[i].size);
    }
    disk.n_pending = 0;
}

static int sync_all(int fd)
{
    (void)fd;
    disk.n_syncs++;
    bool fails = disk.failing_sync && --disk.failing_sync == 0;
    if (disk.life == 0 || fails) {
        if (disk.life != 0) some_reach(false);
        errno = EIO;
        return -1;
    }
    for (unsigned i = 0; i < disk.n_pending; i++)
        reach(&disk.pending[i], disk.pending[i].size);
    disk.n_pending = 0;
    return 0;
}

void disk_model_start(const char *name, uint64_t seed)
{
    disk.name = name;
    disk.seed = seed * 2654435761u + 1;
    disk.life = -1;
    disk.failing_sync = 0;
    disk.n_pending = disk.n_syncs = 0;
    size_t size;
    unsigned char *bytes = store_read(name, &size);
    ck_assert_uint_le(size, IMAGE_MAX);
    memcpy(disk.image, bytes, size);
    disk.size = size;
    free(bytes);
    el_fence_disk = (el_fence_disk_calls){write_at, sync_all};
}

void disk_model_stop(void)
{
    el_fence_disk = system_calls;
}

void disk_model_die_after(long bytes)
{
    disk.life = bytes;
}

void disk_model_fail_sync(unsigned nth)
{
    disk.failing_sync = nth;
}

void disk_model_cut_power(void)
{
    some_reach(true);
    store_write(disk.name, disk.image, disk.size);
}

unsigned disk_model_syncs(void)
{
    return disk.n_syncs;
}
