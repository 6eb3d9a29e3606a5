#include "fence/pair.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "fence/disk.h"

enum {
    GLANCES = 50,
    GLANCE_NAP_NS = 100 * 1000,
};

void el_fence_pair_judge(el_fence_pair *pair, const unsigned char *first, const unsigned char *second,
                         size_t size)
{
    el_fence_cell *copy = pair->copy;
    pair->is_whole[0] = el_fence_cell_decode(&copy[0], pair->offset, first, size);
    pair->is_whole[1] = el_fence_cell_decode(&copy[1], pair->offset, second, size);
    pair->is_at_rest = false;
    if (!pair->is_whole[0] || !pair->is_whole[1]) {
        pair->newest = pair->is_whole[0] ? 0 : pair->is_whole[1] ? 1 : -1;
    } else if (copy[0].writes == copy[1].writes) {
        unsigned char bytes[2][EL_FENCE_CELL_MAX];
        size_t used = el_fence_cell_encode(&copy[0], pair->offset, bytes[0]);
        pair->is_at_rest = used == el_fence_cell_encode(&copy[1], pair->offset, bytes[1]) &&
                           memcmp(bytes[0], bytes[1], used) == 0;
        pair->newest = pair->is_at_rest ? 0 : -1;
    } else {
        pair->newest = copy[0].writes > copy[1].writes ? 0 : 1;
    }
}

int el_fence_pair_read(el_fence_pair *pair, size_t room)
{
    unsigned char bytes[2][EL_FENCE_CELL_MAX];
    memset(bytes, 0, sizeof(bytes));
    for (int i = 0; i < 2; i++) {
        size_t got;
        uint64_t at = pair->offset + (uint64_t)i * EL_FENCE_PAGE;
        int error = el_fence_disk_read(pair->fd, bytes[i], room, at, &got);
        if (error) return error;
    }
    el_fence_pair_judge(pair, bytes[0], bytes[1], room);
    return 0;
}

/* Reading one copy after the other beside a writer may show the older state of the first. */
static bool is_behind(const el_fence_pair *pair, uint64_t known_writes)
{
    return pair->newest < 0 || pair->copy[pair->newest].writes < known_writes;
}

int el_fence_pair_glance(el_fence_pair *pair, size_t room, uint64_t known_writes)
{
    int error = el_fence_pair_read(pair, room);
    for (int i = 0; !error && is_behind(pair, known_writes) && i < GLANCES; i++) {
        nanosleep(&(struct timespec){0, GLANCE_NAP_NS}, NULL);
        error = el_fence_pair_read(pair, room);
    }
    return error;
}

static int write_copy(el_fence_pair *pair, int which, const el_fence_cell *cell)
{
    unsigned char bytes[EL_FENCE_CELL_MAX];
    size_t size = el_fence_cell_encode(cell, pair->offset, bytes);
    return el_fence_disk_write(pair->fd, bytes, size, pair->offset + (uint64_t)which * EL_FENCE_PAGE);
}

static int sync_pair(const el_fence_pair *pair)
{
    return pair->to_disk ? el_fence_disk_sync(pair->fd) : 0;
}

int el_fence_pair_settle(el_fence_pair *pair)
{
    if (pair->is_at_rest) return 0;
    assert(pair->newest >= 0);
    int other = 1 - pair->newest;
    /* The newest copy is written once more: if its writer's sync failed, the system may take the page for
     * clean though it never reached the disk, and would sync nothing. */
    int error = pair->to_disk ? write_copy(pair, pair->newest, &pair->copy[pair->newest]) : 0;
    if (!error) error = sync_pair(pair);
    if (!error) error = write_copy(pair, other, &pair->copy[pair->newest]);
    if (!error) error = sync_pair(pair);
    if (error) return error;
    pair->copy[other] = pair->copy[pair->newest];
    pair->is_whole[other] = true;
    pair->is_at_rest = true;
    return 0;
}

int el_fence_pair_write(el_fence_pair *pair, el_fence_cell *cell)
{
    int error = el_fence_pair_settle(pair);
    if (error) return error;
    cell->writes = pair->copy[0].writes + 1;
    int first = cell->writes % 2 ? 0 : 1;
    error = write_copy(pair, first, cell);
    if (!error) error = sync_pair(pair);
    if (!error) error = write_copy(pair, 1 - first, cell);
    return error;
}

int el_fence_pair_create(int fd, uint64_t offset, el_fence_cell *cell)
{
    el_fence_pair pair = {.fd = fd, .offset = offset};
    cell->writes = 1;
    int error = write_copy(&pair, 0, cell);
    return error ? error : write_copy(&pair, 1, cell);
}
