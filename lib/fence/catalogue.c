#include "fence/catalogue.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "fence/disk.h"
#include "fence/message.h"
#include "fence/pair.h"

static int fail_damaged(const el_fence_file *file, const char *what, uint64_t offset)
{
    return el_fence_fail(
        EBADMSG,
        "fence file %.200s is damaged: %s at byte %llu; nothing is admitted, since the highest "
        "tokens may be lost: see \"A damaged fence file\" in doc/fencing.md",
        file->path, what, (unsigned long long)offset);
}

static int fail_read(const el_fence_file *file, int error)
{
    return el_fence_fail_file(error, file->path, "read it");
}

/* ---- the header ---------------------------------------------------------------------------------------- */

static int fail_header(const el_fence_file *file)
{
    unsigned char bytes[EL_FENCE_CELL_MAX];
    size_t got;
    int error = el_fence_disk_read(file->fd, bytes, sizeof(bytes), 0, &got);
    if (error) return fail_read(file, error);
    if (got == 0)
        return el_fence_fail(
            EBADMSG,
            "fence file %.200s is empty: a new one never is, so it was cut short or is not a fence "
            "file; nothing is admitted; remove it only if no token has to be remembered",
            file->path);
    if (el_fence_cell_is_header_like(bytes, got)) return fail_damaged(file, "its header", 0);
    return el_fence_fail(
        EBADMSG, "%.200s is not a fence file, or its beginning is damaged; it was left alone", file->path);
}

static int read_header(const el_fence_file *file, el_fence_pair *pair)
{
    *pair = (el_fence_pair){.fd = file->fd, .to_disk = file->to_disk};
    int error = el_fence_pair_read(pair, el_fence_cell_room(EL_FENCE_HEADER, 0));
    if (error) return fail_read(file, error);
    if (pair->newest < 0 || pair->copy[pair->newest].kind != EL_FENCE_HEADER) return fail_header(file);
    const el_fence_cell *header = &pair->copy[pair->newest];
    if (header->version != EL_FENCE_VERSION)
        return el_fence_fail(
            ENOTSUP, "fence file %.200s has version %u, this library knows version %u: use a newer one",
            file->path, (unsigned)header->version, (unsigned)EL_FENCE_VERSION);
    if (header->writes < file->header_writes || header->end < file->end)
        return el_fence_fail(
            EBADMSG,
            "fence file %.200s has gone back to an earlier state, as an old copy put over it would; "
            "nothing is admitted: see \"A damaged fence file\" in doc/fencing.md",
            file->path);
    return 0;
}

static int settle_durability(el_fence_file *file, const el_fence_cell *header, uint32_t wanted)
{
    if (header->durability != ETCDLOCK_FENCE_PROCESS && header->durability != ETCDLOCK_FENCE_DISK)
        return fail_damaged(file, "an unknown durability", 0);
    file->to_disk = header->durability == ETCDLOCK_FENCE_DISK;
    if (!wanted || wanted == header->durability) return 0;
    return el_fence_fail(
        EINVAL,
        "fence file %.200s was made with durability %s, and asked for with %s: all its users must "
        "say the same, or 0 for what it has",
        file->path, file->to_disk ? "DISK" : "PROCESS", file->to_disk ? "PROCESS" : "DISK");
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static uint64_t next_pair(uint64_t offset)
{
    return (offset / EL_FENCE_PAIR + 1) * EL_FENCE_PAIR;
}

/* The bytes left in the first page of a pair from the offset on, which lies in that page or at its end. */
static size_t left_in_page(uint64_t offset)
{
    return EL_FENCE_PAGE - (size_t)(offset % EL_FENCE_PAIR);
}

/* The place after a cell: the end of a page holds no cell that can be told apart. */
static uint64_t after(uint64_t offset, size_t room)
{
    uint64_t next = offset + room;
    return next % EL_FENCE_PAIR + EL_FENCE_CELL_HEAD > EL_FENCE_PAGE ? next_pair(offset) : next;
}

/* Moves file->end behind the cell there. */
static int take_cell(el_fence_file *file, const unsigned char *pages, el_fence_found *found, void *arg)
{
    el_fence_pair pair = {.fd = file->fd, .offset = file->end};
    size_t at = (size_t)(file->end % EL_FENCE_PAIR);
    el_fence_pair_judge(&pair, pages + at, pages + EL_FENCE_PAGE + at, left_in_page(file->end));
    if (pair.newest < 0) {
        size_t left = left_in_page(file->end);
        int error = el_fence_pair_glance(&pair, left < EL_FENCE_CELL_MAX ? left : EL_FENCE_CELL_MAX, 0);
        if (error) return fail_read(file, error);
    }
    if (pair.newest < 0) return fail_damaged(file, "both copies of a resource", file->end);
    const el_fence_cell *cell = &pair.copy[pair.newest];
    if (cell->kind == EL_FENCE_SKIP) {
        file->end = next_pair(file->end);
        return 0;
    }
    if (cell->kind != EL_FENCE_RESOURCE) return fail_damaged(file, "no resource", file->end);
    int error = found(cell->name, cell->name_size, file->end, arg);
    if (error) return error;
    file->end = after(file->end, el_fence_cell_room(EL_FENCE_RESOURCE, cell->name_size));
    file->resources++;
    return 0;
}

static int take_cells(el_fence_file *file, uint64_t end, el_fence_found *found, void *arg)
{
    unsigned char pages[EL_FENCE_PAIR];
    uint64_t have = 0;
    while (file->end < end) {
        uint64_t want = file->end / EL_FENCE_PAIR * EL_FENCE_PAIR;
        if (want != have) {
            size_t got;
            int error = el_fence_disk_read(file->fd, pages, sizeof(pages), want, &got);
            if (error) return fail_read(file, error);
            if (got < sizeof(pages)) return fail_damaged(file, "it is cut short", want + got);
            have = want;
        }
        int error = take_cell(file, pages, found, arg);
        if (error) return error;
    }
    return 0;
}

int el_fence_catalogue_read(el_fence_file *file, uint32_t wanted, el_fence_found *found, void *arg)
{
    el_fence_pair pair;
    int error = read_header(file, &pair);
    if (error) return error;
    const el_fence_cell *header = &pair.copy[pair.newest];
    if (file->end == 0) {
        error = settle_durability(file, header, wanted);
        if (error) return error;
        file->end = EL_FENCE_PAIR;
        pair.to_disk = file->to_disk;
    }
    /* Whoever wrote it last may have died halfway: what is read here must be known to all who come. */
    error = el_fence_pair_settle(&pair);
    if (error) return el_fence_fail_file(error, file->path, "write its header");
    error = take_cells(file, header->end, found, arg);
    if (error) return error;
    if (file->end != header->end || file->resources != header->resources)
        return fail_damaged(file, "its list of resources", file->end);
    file->header_writes = header->writes;
    return 0;
}

/* ---- adding -------------------------------------------------------------------------------------------- */

/* The first cell of a pair: both pages are filled at once, so that no later write of theirs finds the disk
 * full. */
static int make_room(const el_fence_file *file, uint64_t offset)
{
    static const unsigned char zeros[EL_FENCE_PAIR];
    if (offset % EL_FENCE_PAIR != 0) return 0;
    return el_fence_disk_write(file->fd, zeros, sizeof(zeros), offset);
}

/* Writes the cell where nothing counts yet; *end is the place after it. */
static int place(const el_fence_file *file, el_fence_cell *cell, uint64_t *end)
{
    uint64_t offset = file->end;
    size_t room = el_fence_cell_room(cell->kind, cell->name_size);
    if (room > left_in_page(offset)) {
        el_fence_cell skip = {.kind = EL_FENCE_SKIP};
        int error = el_fence_pair_create(file->fd, offset, &skip);
        if (error) return error;
        offset = next_pair(offset);
    }
    *end = after(offset, room);
    int error = make_room(file, offset);
    if (!error) error = el_fence_pair_create(file->fd, offset, cell);
    /* The header must not be on the disk before what it speaks of. */
    if (!error && file->to_disk) error = el_fence_disk_sync(file->fd);
    return error;
}

int el_fence_catalogue_add(const el_fence_file *file, const char *name, size_t size)
{
    el_fence_pair pair;
    int error = read_header(file, &pair);
    if (error) return error;
    el_fence_cell cell = {.kind = EL_FENCE_RESOURCE, .name_size = size};
    memcpy(cell.name, name, size);
    el_fence_cell header = pair.copy[pair.newest];
    error = place(file, &cell, &header.end);
    header.resources++;
    if (!error) error = el_fence_pair_write(&pair, &header);
    return error ? el_fence_fail_file(error, file->path, "add a resource to it") : 0;
}
