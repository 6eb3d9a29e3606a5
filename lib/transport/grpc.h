/* The transport over gRPC's C core, with protobuf-c for the messages.
 *
 * Each lane has its own completion queue and its own channel to each endpoint, opened at the first call. gRPC
 * repeats nothing by itself: a call without a connection waits for the attempt in progress, at most for about
 * 3 s or its deadline, and otherwise fails at once with EL_UNAVAILABLE. `not_sent` is proved for calls begun
 * without a connection; with one it is always in doubt. gRPC's own memory does not come from el_alloc, and
 * gRPC aborts when that runs out. gRPC keeps threads of its own, which do not survive a fork. */
#ifndef EL_GRPC_H
#define EL_GRPC_H

#include "transport/transport.h"

/* Where and how to reach the members. All strings are copied. */
typedef struct el_grpc_config {
    const char *const *targets; /* "host:port", "[v6]:port" or "unix:path" each, already without a scheme */
    unsigned n_targets;         /* at least 1 */
    bool tls;
    const char *ca_pem;    /* contents; NULL: the system's roots */
    const char *cert_pem;  /* client certificate; NULL: none */
    const char *key_pem;   /* its key; both or neither */
    const char *ca_file;   /* where each of them came from: read again before a connection is made, so */
    const char *cert_file; /* that certificates can be replaced; NULL: they stay as they are */
    const char *key_file;
    int64_t keepalive_time_ms;    /* HTTP/2 ping on an idle connection; etcd refuses less than 5 s */
    int64_t keepalive_timeout_ms; /* a ping unanswered for so long ends the connection */
} el_grpc_config;

/* Makes the transport; connects to nobody yet. PEM that cannot be read shows only when a call fails.
 * 0, EINVAL (no target, or certificate without key) or ENOMEM. */
int el_grpc_transport_new(el_transport **out, const el_grpc_config *config);

#endif
