#include "fence/guard.h"

#include <errno.h>
#include <string.h>

#include "fence/catalogue.h"
#include "fence/descendants.h"
#include "fence/gate.h"
#include "fence/mark.h"
#include "fence/message.h"

enum { HEADER_OFFSET = 0 };

int el_fence_call_begin(el_fence_call *call, etcdlock_fence *fence, int64_t wait_ms)
{
    if (!fence) return el_fence_fail(EINVAL, "no fence was given: open one first");
    if (fence->generation != el_fence_generation())
        return el_fence_fail(
            ETCDLOCK_EFORKED,
            "the fence was opened before fork() and belongs to the parent process: open one here");
    memset(call, 0, sizeof(*call));
    call->fence = fence;
    el_fence_caller_hold(&call->caller);
    call->deadline = el_fence_deadline(wait_ms);
    pthread_mutex_lock(&fence->mutex);
    fence->n_inside++;
    return 0;
}

int el_fence_call_end(el_fence_call *call, int error)
{
    call->fence->n_inside--;
    pthread_mutex_unlock(&call->fence->mutex);
    el_fence_caller_release(&call->caller);
    return error;
}

size_t el_fence_name_size(const char *resource)
{
    size_t size = resource ? strnlen(resource, ETCDLOCK_FENCE_RESOURCE_MAX + 1) : 0;
    if (size >= 1 && size <= ETCDLOCK_FENCE_RESOURCE_MAX) return size;
    el_fence_fail(EINVAL, "a resource's name has 1 to %d bytes; this one %s", ETCDLOCK_FENCE_RESOURCE_MAX,
                  !resource ? "is NULL"
                  : size    ? "is longer"
                            : "is empty");
    return 0;
}

/* ---- the resources in the file ------------------------------------------------------------------------- */

static int fail_locks(const el_fence_file *file, int error)
{
    if (error == ETIMEDOUT)
        return el_fence_fail(
            ETIMEDOUT,
            "fence file %.200s: others kept the list of resources for the whole wait; a process "
            "may be frozen while adding one: `fuser` lists those that have the file open",
            file->path);
    return el_fence_fail_file(error == EINVAL ? ENOTSUP : error, file->path, "lock it");
}

static int found(const char *name, size_t size, uint64_t offset, void *arg)
{
    etcdlock_fence *fence = arg;
    pthread_mutex_lock(&fence->mutex);
    bool is_twice = el_fence_table_find(&fence->table, name, size) != NULL;
    bool is_added = !is_twice && el_fence_table_add(&fence->table, name, size, offset);
    pthread_mutex_unlock(&fence->mutex);
    if (is_twice)
        return el_fence_fail(EBADMSG, "fence file %.200s is damaged: resource \"%.100s\" is in it twice",
                             fence->file.path, name);
    return is_added
               ? 0
               : el_fence_fail(ENOMEM, "no memory for the resources of fence file %.200s", fence->file.path);
}

static bool is_known(etcdlock_fence *fence, const char *name, size_t size)
{
    pthread_mutex_lock(&fence->mutex);
    bool known = el_fence_table_find(&fence->table, name, size) != NULL;
    pthread_mutex_unlock(&fence->mutex);
    return known;
}

/* Reads what is new in the list, and adds the name if it is given and still unknown. Without the mutex. */
static int read_list(el_fence_call *call, uint32_t durability, const char *name, size_t size)
{
    etcdlock_fence *fence = call->fence;
    el_fence_file *file = &fence->file;
    int error = el_fence_gate_enter(NULL, file->fd, HEADER_OFFSET, call->deadline, NULL, NULL);
    if (error) return fail_locks(file, error);
    error = el_fence_file_present(file);
    if (!error) error = el_fence_catalogue_read(file, durability, found, fence);
    if (!error && name && !is_known(fence, name, size)) {
        error = el_fence_catalogue_add(file, name, size);
        if (!error) error = el_fence_catalogue_read(file, durability, found, fence);
    }
    el_fence_gate_leave(NULL, file->fd, HEADER_OFFSET);
    return error;
}

static int take_turn_and_read(el_fence_call *call, uint32_t durability, const char *name, size_t size)
{
    etcdlock_fence *fence = call->fence;
    int error = el_fence_turn_take(&fence->reading, &fence->mutex, call->deadline);
    if (error) return fail_locks(&fence->file, error);
    pthread_mutex_unlock(&fence->mutex);
    error = read_list(call, durability, name, size);
    pthread_mutex_lock(&fence->mutex);
    el_fence_turn_pass(&fence->reading);
    return error;
}

int el_fence_refresh(el_fence_call *call, uint32_t durability)
{
    return take_turn_and_read(call, durability, NULL, 0);
}

int el_fence_find(el_fence_call *call, const char *name, size_t size, bool may_add)
{
    etcdlock_fence *fence = call->fence;
    call->resource = el_fence_table_find(&fence->table, name, size);
    if (call->resource) return 0;
    if (fence->is_in_file) {
        int error = take_turn_and_read(call, 0, may_add ? name : NULL, size);
        if (error) return error;
        call->resource = el_fence_table_find(&fence->table, name, size);
    } else if (may_add) {
        call->resource = el_fence_table_add(&fence->table, name, size, 0);
        if (!call->resource) return el_fence_fail(ENOMEM, "no memory for another resource");
    }
    return 0;
}

/* ---- going in and out ---------------------------------------------------------------------------------- */

/* Without the mutex, but with the resource's turn or none. What cannot be read now is found out inside. */
static bool is_stale_in_file(void *arg)
{
    el_fence_call *call = arg;
    uint64_t highest;
    if (!call->token || el_fence_mark_look(&call->fence->file, call->resource, &highest)) return false;
    if (call->token >= highest) return false;
    call->highest = highest;
    return true;
}

/* With the mutex, which it may let go. */
static bool is_stale(el_fence_call *call)
{
    etcdlock_fence *fence = call->fence;
    if (!fence->is_in_file) {
        call->highest = call->resource->highest;
        return call->token && call->token < call->highest;
    }
    pthread_mutex_unlock(&fence->mutex);
    bool stale = is_stale_in_file(call);
    pthread_mutex_lock(&fence->mutex);
    return stale;
}

static int fail_enter(const el_fence_call *call, int error)
{
    const char *name = call->resource->name;
    switch (error) {
    case ESTALE:
        return error;
    case EDEADLK:
        return el_fence_fail(
            error, "this thread is between begin and end of resource \"%.100s\": end it first", name);
    case ETIMEDOUT:
        return el_fence_fail(error,
                             "resource \"%.100s\" was kept by others for the whole wait; one of them may be "
                             "frozen between begin and end: resume or kill it%s%.200s",
                             name, call->fence->is_in_file ? "; `fuser` lists the users of " : "",
                             call->fence->is_in_file ? call->fence->file.path : "");
    default:
        return fail_locks(&call->fence->file, error);
    }
}

static int take_turn(el_fence_call *call)
{
    el_fence_turn *turn = &call->resource->turn;
    bool must_wait = turn->owner && turn->owner != el_fence_self();
    if (must_wait && is_stale(call)) return ESTALE;
    int error = el_fence_turn_take(turn, &call->fence->mutex, call->deadline);
    return error == ETIMEDOUT && is_stale(call) ? ESTALE : error;
}

int el_fence_enter(el_fence_call *call)
{
    int error = take_turn(call);
    if (error) return fail_enter(call, error);
    etcdlock_fence *fence = call->fence;
    if (!fence->is_in_file) return 0;
    pthread_mutex_unlock(&fence->mutex);
    el_fence_resource *resource = call->resource;
    error = el_fence_gate_enter(&resource->gate, fence->file.fd, resource->offset, call->deadline,
                                is_stale_in_file, call);
    int absent = error ? 0 : el_fence_file_present(&fence->file);
    if (absent) el_fence_gate_leave(&resource->gate, fence->file.fd, resource->offset);
    pthread_mutex_lock(&fence->mutex);
    if (error || absent) el_fence_turn_pass(&resource->turn);
    return error ? fail_enter(call, error) : absent;
}

void el_fence_leave(el_fence_call *call)
{
    etcdlock_fence *fence = call->fence;
    el_fence_resource *resource = call->resource;
    if (fence->is_in_file) el_fence_gate_leave(&resource->gate, fence->file.fd, resource->offset);
    el_fence_turn_pass(&resource->turn);
}
