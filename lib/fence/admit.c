#include "etcdlock/fence.h"

#include <errno.h>

#include "fence/guard.h"
#include "fence/mark.h"
#include "fence/message.h"

static int refuse(const el_fence_call *call)
{
    return el_fence_fail(
        ESTALE,
        "token %llu of resource \"%.100s\" is refused: %llu was admitted before; its holder has lost "
        "the lock and must not write",
        (unsigned long long)call->token, call->resource->name, (unsigned long long)call->highest);
}

/* Inside the resource, with the mutex. */
static int raise_highest(el_fence_call *call)
{
    etcdlock_fence *fence = call->fence;
    el_fence_resource *resource = call->resource;
    if (!fence->is_in_file) {
        call->highest = resource->highest;
        if (call->token < resource->highest) return ESTALE;
        resource->highest = call->token;
        return 0;
    }
    pthread_mutex_unlock(&fence->mutex);
    int error = el_fence_mark_raise(&fence->file, resource, call->token, &call->highest);
    pthread_mutex_lock(&fence->mutex);
    return error;
}

static int admit(el_fence_call *call, const char *resource, size_t size, bool keep)
{
    int error = el_fence_find(call, resource, size, true);
    if (!error) error = el_fence_enter(call);
    if (!error) {
        error = raise_highest(call);
        call->resource->is_begun = keep && !error;
        if (call->resource->is_begun)
            call->fence->n_inside++;
        else
            el_fence_leave(call);
    }
    return error == ESTALE ? refuse(call) : error;
}

static int check(etcdlock_fence *fence, const char *resource, uint64_t token, int64_t wait_ms, bool keep)
{
    size_t size = el_fence_name_size(resource);
    if (size == 0) return EINVAL;
    if (token == 0) return el_fence_fail(EINVAL, "token 0 is no token: the caller does not hold the lock");
    el_fence_call call;
    int error = el_fence_call_begin(&call, fence, wait_ms);
    if (error) return error;
    call.token = token;
    return el_fence_call_end(&call, admit(&call, resource, size, keep));
}

int etcdlock_fence_check(etcdlock_fence *fence, const char *resource, uint64_t token)
{
    return check(fence, resource, token, fence ? fence->wait_ms : 0, false);
}

int etcdlock_fence_begin(etcdlock_fence *fence, const char *resource, uint64_t token)
{
    return check(fence, resource, token, fence ? fence->wait_ms : 0, true);
}

int etcdlock_fence_begin_for(etcdlock_fence *fence, const char *resource, uint64_t token, int64_t ms)
{
    return check(fence, resource, token, ms, true);
}

int etcdlock_fence_end(etcdlock_fence *fence, const char *resource)
{
    size_t size = el_fence_name_size(resource);
    if (size == 0) return EINVAL;
    el_fence_call call;
    int error = el_fence_call_begin(&call, fence, 0);
    if (error) return error;
    call.resource = el_fence_table_find(&fence->table, resource, size);
    if (!call.resource || !call.resource->is_begun || call.resource->turn.owner != el_fence_self()) {
        error = el_fence_fail(EPERM, "resource \"%.100s\" is not kept by this thread: only who began can end",
                              resource);
        return el_fence_call_end(&call, error);
    }
    error = fence->is_in_file ? el_fence_file_present(&fence->file) : 0;
    call.resource->is_begun = false;
    fence->n_inside--;
    el_fence_leave(&call);
    return el_fence_call_end(&call, error);
}
