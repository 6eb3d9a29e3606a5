/* One gRPC channel: the connection of one lane to one endpoint, with its methods registered. */
#ifndef EL_GRPC_CHANNEL_H
#define EL_GRPC_CHANNEL_H

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

enum {
    EL_GRPC_WATCH = EL_STATUS + 1, /* the method after those of el_verb */
    EL_GRPC_METHODS,
};

/* Where a channel leads, and how. */
typedef struct el_grpc_endpoint {
    char *uri;       /* what gRPC's resolver is given */
    char *authority; /* what the server is told, and what its certificate must name */
    bool is_name;    /* has to be resolved, and may come to mean another address */
} el_grpc_endpoint;

typedef struct el_grpc_channel {
    grpc_channel *channel; /* NULL: not used yet */
    void *methods[EL_GRPC_METHODS];
    bool is_name;
    atomic_bool failing; /* the last call ended for want of a connection */
    atomic_bool silent;  /* the last call was sent and not answered in good time */
    _Atomic int64_t opened_ns;
    bool tls;
    unsigned credentials; /* the generation of those it was opened with */
} el_grpc_channel;

/* From "host:port", "[v6]:port" or "unix:path". 0 or ENOMEM; free with el_grpc_endpoint_clear in both cases.
 */
int el_grpc_endpoint_set(el_grpc_endpoint *endpoint, const char *target);
void el_grpc_endpoint_clear(el_grpc_endpoint *endpoint);

/* Never fails: a hopeless endpoint shows when a call is made. */
void el_grpc_channel_open(el_grpc_channel *channel, const el_grpc_endpoint *endpoint,
                          grpc_channel_credentials *credentials, int64_t keepalive_time_ms,
                          int64_t keepalive_timeout_ms, int64_t now_ns);
void el_grpc_channel_close(el_grpc_channel *channel); /* also of one never opened */

/* A new call, nothing sent yet. `method`: an el_verb or EL_GRPC_WATCH. */
grpc_call *el_grpc_channel_call(el_grpc_channel *channel, int method, grpc_completion_queue *queue,
                                gpr_timespec deadline);

/* A call of the channel, or a watch stream, begun then, has been waited for in vain. */
void el_grpc_channel_unanswered(el_grpc_channel *channel, int64_t begun_ns, int64_t now_ns);

/* Whether the channel fails or is silent and has had its time: then it should be closed and opened anew.
 * Calls still in flight on it are not disturbed by more than they are already. */
bool el_grpc_channel_is_stuck(el_grpc_channel *channel, int64_t now_ns);

/* Whether a connection is there, so that a call started now goes out at once. */
bool el_grpc_channel_is_ready(el_grpc_channel *channel);

#endif
