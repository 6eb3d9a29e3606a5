#include "etcdlock/fence.h"

#include <errno.h>

#include "fence/guard.h"
#include "fence/mark.h"
#include "fence/message.h"

/* With the mutex, which it lets go where there is a file. */
static int look_at(el_fence_call *call, const el_fence_resource *resource, uint64_t *token)
{
    etcdlock_fence *fence = call->fence;
    if (!fence->is_in_file) {
        *token = resource->highest;
        return 0;
    }
    pthread_mutex_unlock(&fence->mutex);
    int error = el_fence_file_present(&fence->file);
    if (!error) error = el_fence_mark_look(&fence->file, resource, token);
    pthread_mutex_lock(&fence->mutex);
    return error;
}

int etcdlock_fence_highest(etcdlock_fence *fence, const char *resource, uint64_t *token)
{
    if (!token) return el_fence_fail(EINVAL, "no place for the token was given");
    *token = 0;
    size_t size = el_fence_name_size(resource);
    if (size == 0) return EINVAL;
    el_fence_call call;
    int error = el_fence_call_begin(&call, fence, fence ? fence->wait_ms : 0);
    if (error) return error;
    error = el_fence_find(&call, resource, size, false);
    if (!error && call.resource) error = look_at(&call, call.resource, token);
    return el_fence_call_end(&call, error);
}

/* The list only ever grows at its end, so the walk may let go of the mutex between two of them. */
static int walk(el_fence_call *call, etcdlock_fence_visit *visit, void *arg)
{
    etcdlock_fence *fence = call->fence;
    for (el_fence_resource *at = fence->table.first_seen; at; at = at->next_seen) {
        uint64_t token = 0;
        int error = look_at(call, at, &token);
        if (error) return error;
        if (token == 0) continue;
        pthread_mutex_unlock(&fence->mutex);
        error = visit(at->name, token, arg);
        pthread_mutex_lock(&fence->mutex);
        if (error) return error;
    }
    return 0;
}

int etcdlock_fence_walk(etcdlock_fence *fence, etcdlock_fence_visit *visit, void *arg)
{
    if (!visit) return el_fence_fail(EINVAL, "no function to call for each resource was given");
    el_fence_call call;
    int error = el_fence_call_begin(&call, fence, fence ? fence->wait_ms : 0);
    if (error) return error;
    if (call.fence->is_in_file) error = el_fence_refresh(&call, 0);
    if (!error) error = walk(&call, visit, arg);
    return el_fence_call_end(&call, error);
}

static int clear(el_fence_call *call)
{
    etcdlock_fence *fence = call->fence;
    if (!fence->is_in_file) {
        call->resource->highest = 0;
        return 0;
    }
    pthread_mutex_unlock(&fence->mutex);
    int error = el_fence_mark_clear(&fence->file, call->resource);
    pthread_mutex_lock(&fence->mutex);
    return error;
}

int etcdlock_fence_reset(etcdlock_fence *fence, const char *resource)
{
    size_t size = el_fence_name_size(resource);
    if (size == 0) return EINVAL;
    el_fence_call call;
    int error = el_fence_call_begin(&call, fence, fence ? fence->wait_ms : 0);
    if (error) return error;
    error = el_fence_find(&call, resource, size, false);
    if (!error && !call.resource)
        error =
            el_fence_fail(ENOENT, "resource \"%.100s\" was never seen: there is nothing to reset", resource);
    if (!error) error = el_fence_enter(&call);
    if (!error) {
        error = clear(&call);
        el_fence_leave(&call);
    }
    return el_fence_call_end(&call, error);
}
