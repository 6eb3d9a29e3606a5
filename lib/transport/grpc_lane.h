/* A lane: one completion queue with the channels, the calls in flight and the results that belong to it. */
#ifndef EL_GRPC_LANE_H
#define EL_GRPC_LANE_H

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdbool.h>

#include "transport/grpc_channel.h"
#include "transport/transport.h"

/* What `next` hands out; the first member of whatever it completes. */
struct el_completion {
    void (*deliver)(el_completion *completion); /* under the client's lock */
    el_completion *next;                        /* in the lane's list of results that gRPC knows nothing of */
    bool listed;
};

/* What the queue gives back when a batch of operations is over. */
typedef struct el_grpc_tag {
    /* Without the client's lock. Returns a completion to hand out, or NULL. */
    el_completion *(*arrived)(void *owner, bool ok);
    void *owner;
} el_grpc_tag;

/* A gRPC call that can still be cancelled. */
typedef struct el_grpc_running {
    struct el_grpc_running *previous;
    struct el_grpc_running *next;
    grpc_call *call; /* NULL: over */
} el_grpc_running;

typedef struct el_grpc_lane {
    grpc_completion_queue *queue;
    grpc_channel *alarm;       /* a channel that leads nowhere; see el_grpc_lane_wake */
    el_grpc_channel *channels; /* one per endpoint */
    unsigned n_channels;

    pthread_mutex_t mutex; /* guards what follows; the client's lock may be held, and so may a stream's */
    el_grpc_running *running;
    size_t owed; /* calls and streams whose last callback or last tag is still to come */
    el_completion *first_result;
    el_completion *last_result;
    bool alarm_pending;
    bool stands_aside;     /* while nothing is owed; see el_grpc_lane_init */
    bool is_aside;         /* the thread in `next` waits for `roused`, not in the queue */
    bool is_woken;         /* the thread that is aside is to return */
    pthread_cond_t roused; /* signalled when it is woken or something is owed */
    bool shut;             /* nothing new is started */
    bool queue_shut;       /* no operation may be begun on the queue: gRPC would abort */

    /* Calls and streams there was no memory for, chained through their `impl`: they must end, too. */
    el_completion starved;
    el_call *starved_calls;
    el_watch_stream *starved_streams;
    size_t n_starved; /* of both, not counting those being delivered */

    bool drained; /* of the thread in `next` only */
} el_grpc_lane;

/* 0 or ENOMEM; undo with el_grpc_lane_destroy in both cases. gRPC must be initialised.
 *
 * stands_aside: while the lane has nothing under way, its thread waits outside of gRPC. For of all threads
 * that wait in gRPC one does the polling for the whole process, and whenever that one has found its own,
 * another is woken to go on: an idle lane would be woken by every answer on a busy one, and then has to hand
 * the next answer over. At least one lane must not stand aside, so that gRPC hears of connections that end.
 */
int el_grpc_lane_init(el_grpc_lane *lane, unsigned n_endpoints, bool stands_aside);

/* Requires that nothing is owed any more. */
void el_grpc_lane_destroy(el_grpc_lane *lane);

/* The table's `next`, `wake` and `shutdown`, for one lane. */
el_completion *el_grpc_lane_next(el_grpc_lane *lane, int64_t deadline_ns, bool *ended);
void el_grpc_lane_wake(el_grpc_lane *lane);
void el_grpc_lane_shutdown(el_grpc_lane *lane);
bool el_grpc_lane_is_shut(el_grpc_lane *lane);

/* Hands out a completion that no tag will bring, and wakes `next` for it. */
void el_grpc_lane_push(el_grpc_lane *lane, el_completion *completion);

/* A call or stream begins: from now on the lane does not end before el_grpc_lane_settle. */
void el_grpc_lane_owe(el_grpc_lane *lane);
void el_grpc_lane_settle(el_grpc_lane *lane);

/* From `start` to `finish` the call is within reach of `cancel` and `shutdown`; `finish` gives up the
 * reference. */
void el_grpc_lane_start(el_grpc_lane *lane, el_grpc_running *running, grpc_call *call);
void el_grpc_lane_cancel(el_grpc_lane *lane, el_grpc_running *running);
void el_grpc_lane_finish(el_grpc_lane *lane, el_grpc_running *running);

/* Ends what could not even be allocated, with EL_RESOURCE_EXHAUSTED, without any memory but the struct's own.
 */
void el_grpc_lane_starve_call(el_grpc_lane *lane, el_call *call);
void el_grpc_lane_starve_stream(el_grpc_lane *lane, el_watch_stream *stream);
bool el_grpc_lane_is_starved_call(el_grpc_lane *lane, const el_call *call);
bool el_grpc_lane_is_starved_stream(el_grpc_lane *lane, const el_watch_stream *stream);

/* CLOCK_BOOTTIME, and a time of it as gRPC wants it. */
int64_t el_grpc_now_ns(void);
gpr_timespec el_grpc_time(int64_t at_ns, int64_t now_ns);

#endif
