#include "fence/mark.h"

#include <errno.h>
#include <string.h>

#include "fence/message.h"
#include "fence/pair.h"

static el_fence_pair pair_of(const el_fence_file *file, const el_fence_resource *resource)
{
    return (el_fence_pair){.fd = file->fd, .to_disk = file->to_disk, .offset = resource->offset};
}

static size_t room_of(const el_fence_resource *resource)
{
    return el_fence_cell_room(EL_FENCE_RESOURCE, resource->name_size);
}

static int fail_damaged(const el_fence_file *file, const el_fence_resource *resource)
{
    return el_fence_fail(
        EBADMSG,
        "fence file %.200s is damaged: both copies of resource \"%.100s\" at byte %llu; nothing is "
        "admitted, since its highest token may be lost: see \"A damaged fence file\" in "
        "doc/fencing.md",
        file->path, resource->name, (unsigned long long)resource->offset);
}

/* What the copies say, if it can be what this handle has seen before, or came after that. */
static int judge(const el_fence_file *file, const el_fence_resource *resource, const el_fence_pair *pair,
                 uint64_t known_writes)
{
    if (pair->newest < 0) return fail_damaged(file, resource);
    const el_fence_cell *cell = &pair->copy[pair->newest];
    if (cell->kind != EL_FENCE_RESOURCE || cell->name_size != resource->name_size ||
        memcmp(cell->name, resource->name, cell->name_size) != 0)
        return fail_damaged(file, resource);
    if (cell->writes < known_writes)
        return el_fence_fail(
            EBADMSG,
            "fence file %.200s has gone back to an earlier state of resource \"%.100s\", as an old "
            "copy put over it would; nothing is admitted: see \"A damaged fence file\" in "
            "doc/fencing.md",
            file->path, resource->name);
    return 0;
}

static int read_locked(const el_fence_file *file, el_fence_resource *resource, el_fence_pair *pair)
{
    *pair = pair_of(file, resource);
    int error = el_fence_pair_read(pair, room_of(resource));
    if (error) return el_fence_fail_file(error, file->path, "read it");
    error = judge(file, resource, pair, resource->writes);
    if (!error) resource->writes = pair->copy[pair->newest].writes;
    return error;
}

static int write_token(const el_fence_file *file, el_fence_resource *resource, el_fence_pair *pair,
                       uint64_t token)
{
    el_fence_cell cell = pair->copy[pair->newest];
    cell.token = token;
    int error = el_fence_pair_write(pair, &cell);
    if (error) return el_fence_fail_file(error, file->path, "write it");
    resource->writes = cell.writes;
    return 0;
}

int el_fence_mark_raise(const el_fence_file *file, el_fence_resource *resource, uint64_t token,
                        uint64_t *highest)
{
    el_fence_pair pair;
    int error = read_locked(file, resource, &pair);
    if (error) return error;
    *highest = pair.copy[pair.newest].token;
    if (token < *highest) return ESTALE;
    if (token > *highest) return write_token(file, resource, &pair, token);
    /* Whoever wrote it last may have died halfway: what is admitted now must be in both copies. */
    error = el_fence_pair_settle(&pair);
    return error ? el_fence_fail_file(error, file->path, "write it") : 0;
}

int el_fence_mark_clear(const el_fence_file *file, el_fence_resource *resource)
{
    el_fence_pair pair;
    int error = read_locked(file, resource, &pair);
    return error ? error : write_token(file, resource, &pair, 0);
}

int el_fence_mark_look(const el_fence_file *file, const el_fence_resource *resource, uint64_t *highest)
{
    /* Taken first: another thread may go on writing while we read. */
    uint64_t known_writes = resource->writes;
    el_fence_pair pair = pair_of(file, resource);
    int error = el_fence_pair_glance(&pair, room_of(resource), known_writes);
    if (error) return el_fence_fail_file(error, file->path, "read it");
    error = judge(file, resource, &pair, known_writes);
    if (!error) *highest = pair.copy[pair.newest].token;
    return error;
}
