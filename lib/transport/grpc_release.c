#include "transport/grpc_release.h"

#include <grpc/support/time.h>
#include <pthread.h>
#include <stdbool.h>

#include "core/process.h"

enum { PATIENCE_MS = EL_GRPC_CONNECT_TIMEOUT_MS + 1000 };

static bool is_connecting(grpc_channel *channel)
{
    return grpc_channel_check_connectivity_state(channel, 0) == GRPC_CHANNEL_CONNECTING;
}

/* The queue is what drives the connection on meanwhile. */
static void *let_finish(void *argument)
{
    grpc_channel *channel = argument;
    grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
    gpr_timespec limit =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(PATIENCE_MS, GPR_TIMESPAN));
    gpr_timespec never = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    grpc_channel_watch_connectivity_state(channel, GRPC_CHANNEL_CONNECTING, limit, queue, NULL);
    (void)grpc_completion_queue_next(queue, never, NULL);
    grpc_channel_destroy(channel);
    grpc_completion_queue_shutdown(queue);
    while (grpc_completion_queue_next(queue, never, NULL).type != GRPC_QUEUE_SHUTDOWN)
        continue;
    grpc_completion_queue_destroy(queue);
    grpc_shutdown();
    return NULL;
}

void el_grpc_destroy_channel(grpc_channel *channel)
{
    pthread_t thread;
    if (is_connecting(channel)) {
        grpc_init();
        if (!el_process_start_thread(&thread, let_finish, channel)) {
            pthread_detach(thread);
            return;
        }
        grpc_shutdown();
    }
    grpc_channel_destroy(channel);
}
