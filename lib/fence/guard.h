/* What a handle is, and the way into a resource that all calls go. */
#ifndef EL_FENCE_GUARD_H
#define EL_FENCE_GUARD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "etcdlock/fence.h"
#include "fence/caller.h"
#include "fence/file.h"
#include "fence/table.h"
#include "fence/turn.h"

struct etcdlock_fence {
    unsigned generation; /* of the process that it belongs to */
    bool is_in_file;
    int64_t wait_ms;
    el_fence_file file;
    pthread_mutex_t mutex; /* over all below; never held while the disk is waited for */
    el_fence_table table;
    el_fence_turn reading; /* who reads the file's list of resources or adds to it */
    unsigned n_inside;     /* calls that have not returned, and resources that are kept */
};

/* A call on one resource. */
typedef struct el_fence_call {
    etcdlock_fence *fence;
    el_fence_resource *resource;
    uint64_t token;
    uint64_t highest; /* once it is known that the token is lower */
    int64_t deadline;
    el_fence_caller caller;
} el_fence_call;

/* Begins a call: 0, with the mutex locked and the caller held; EINVAL or ETCDLOCK_EFORKED with its message.
 */
int el_fence_call_begin(el_fence_call *call, etcdlock_fence *fence, int64_t wait_ms);
/* Ends it; returns `error`. */
int el_fence_call_end(el_fence_call *call, int error);

/* The length of a resource's name, or 0 and a message if it is refused. */
size_t el_fence_name_size(const char *resource);

/* Finds the resource; NULL in call->resource if nobody has ever named it. With `may_add` it is added instead.
 * The mutex is let go meanwhile where there is a file. 0 or an error with its message. */
int el_fence_find(el_fence_call *call, const char *name, size_t size, bool may_add);

/* Learns of the resources that others have added to the file. 0 or an error with its message. */
int el_fence_refresh(el_fence_call *call, uint32_t durability);

/* Enters the resource: nobody else is in it until leave. A call whose token turns out to be lower than the
 * highest does not wait. 0; ESTALE, with no message and call->highest; or an error with its message. */
int el_fence_enter(el_fence_call *call);
void el_fence_leave(el_fence_call *call);

#endif
