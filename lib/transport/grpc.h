/* The transport over gRPC's C core, with protobuf-c for the messages. */
#ifndef EL_GRPC_H
#define EL_GRPC_H

#include "transport/transport.h"

/* Where and how to reach the members. All strings are copied. */
typedef struct el_grpc_config {
    const char *const *targets; /* "host:port", "[v6]:port" or "unix:path" each, already without a scheme */
    unsigned n_targets;
    bool tls;
    const char *ca_pem;   /* contents, not paths; NULL: the system's roots */
    const char *cert_pem; /* client certificate; NULL: none */
    const char *key_pem;
    int64_t keepalive_time_ms;    /* HTTP/2 ping on an idle connection; etcd refuses less than 5 s */
    int64_t keepalive_timeout_ms; /* a ping unanswered for so long ends the connection */
} el_grpc_config;

/* Makes the transport; connects to nobody yet. 0, EINVAL or ENOMEM. */
int el_grpc_transport_new(el_transport **out, const el_grpc_config *config);

#endif
