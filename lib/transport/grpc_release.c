#include "transport/grpc_release.h"

#include <grpc/support/time.h>
#include <pthread.h>
#include <stdbool.h>

enum { FINISH_MS = 250 };

static const int64_t attempt_ns = (EL_GRPC_CONNECT_TIMEOUT_MS + 1000) * INT64_C(1000000);

static struct {
    pthread_mutex_t lock;
    int64_t busy_until_ns; /* an attempt may be under way until then */
    unsigned owed;         /* calls of grpc_shutdown */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_connecting(grpc_channel *channel)
{
    return grpc_channel_check_connectivity_state(channel, 0) == GRPC_CHANNEL_CONNECTING;
}

/* The queue is what drives the connection on meanwhile. */
static void let_finish(grpc_channel *channel)
{
    grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
    gpr_timespec limit =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(FINISH_MS, GPR_TIMESPAN));
    grpc_channel_watch_connectivity_state(channel, GRPC_CHANNEL_CONNECTING, limit, queue, NULL);
    (void)grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_completion_queue_shutdown(queue);
    while (grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
           GRPC_QUEUE_SHUTDOWN)
        continue;
    grpc_completion_queue_destroy(queue);
}

void el_grpc_destroy_channel(grpc_channel *channel, int64_t now_ns)
{
    if (is_connecting(channel)) let_finish(channel);
    if (is_connecting(channel)) {
        pthread_mutex_lock(&state.lock);
        state.busy_until_ns = now_ns + attempt_ns;
        pthread_mutex_unlock(&state.lock);
    }
    grpc_channel_destroy(channel);
}

/* Shuts down as often as is owed, if nothing is connecting any more. */
static void settle(unsigned more, int64_t now_ns)
{
    pthread_mutex_lock(&state.lock);
    state.owed += more;
    unsigned due = now_ns < state.busy_until_ns ? 0 : state.owed;
    state.owed -= due;
    pthread_mutex_unlock(&state.lock);
    while (due-- > 0)
        grpc_shutdown();
}

void el_grpc_acquire(int64_t now_ns)
{
    grpc_init();
    settle(0, now_ns);
}

void el_grpc_release(int64_t now_ns)
{
    settle(1, now_ns);
}
