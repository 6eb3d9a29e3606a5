#include "transport/grpc.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

#include "core/alloc.h"
#include "core/process.h"
#include "etcdlock/error.h"
#include "transport/grpc_call.h"
#include "transport/grpc_credentials.h"
#include "transport/grpc_lane.h"
#include "transport/grpc_watch.h"

typedef struct grpc_transport {
    el_transport table; /* first: the caller's handle */
    el_grpc_lane lanes[EL_LANES];
    el_grpc_endpoint *endpoints;
    el_grpc_credentials credentials;
    int64_t keepalive_time_ms;
    int64_t keepalive_timeout_ms;
} grpc_transport;

static grpc_transport *self_of(el_transport *t)
{
    return (grpc_transport *)(void *)t;
}

static int64_t now_ns(el_transport *t)
{
    (void)t;
    return el_grpc_now_ns();
}

static uint64_t random_bits(el_transport *t)
{
    (void)t;
    uint64_t bits;
    while (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits) {
        /* Interrupted: again. A kernel without it cannot run this library: names would no longer be unique.
         */
        if (errno != EINTR) abort();
    }
    return bits;
}

/* Connections that stand are left alone when the files change. */
static bool is_outdated(grpc_transport *self, el_grpc_channel *channel)
{
    if (!self->credentials.follows_files || el_grpc_channel_is_ready(channel)) return false;
    el_grpc_credentials_refresh(&self->credentials);
    return channel->credentials != self->credentials.generation;
}

/* A channel costs work and a socket, so a lane opens those it uses. After the shutdown none is opened any
 * more: nothing will be started on it. */
static el_grpc_channel *channel_of(grpc_transport *self, el_lane lane, unsigned endpoint)
{
    assert(endpoint < self->table.n_endpoints);
    el_grpc_channel *channel = &self->lanes[lane].channels[endpoint];
    int64_t now = el_grpc_now_ns();
    if (channel->channel && !el_grpc_channel_is_stuck(channel, now) && !is_outdated(self, channel))
        return channel;
    if (el_grpc_lane_is_shut(&self->lanes[lane])) return channel;
    el_grpc_credentials_refresh(&self->credentials);
    el_grpc_channel_close(channel);
    el_grpc_channel_open(channel, &self->endpoints[endpoint], self->credentials.current,
                         self->keepalive_time_ms, self->keepalive_timeout_ms, now);
    channel->tls = self->credentials.tls;
    channel->credentials = self->credentials.generation;
    return channel;
}

/* From here on errno is put back: gRPC changes it, the threads of the program come here, and the public
 * functions leave it alone. */
static void call(el_transport *t, el_call *c, const el_request *request)
{
    int saved_errno = errno;
    grpc_transport *self = self_of(t);
    el_grpc_call_start(&self->lanes[c->lane], channel_of(self, c->lane, c->endpoint), c, request);
    errno = saved_errno;
}

static void cancel(el_transport *t, el_call *c)
{
    int saved_errno = errno;
    el_grpc_call_cancel(&self_of(t)->lanes[c->lane], c);
    errno = saved_errno;
}

static void watch_open(el_transport *t, el_watch_stream *stream)
{
    int saved_errno = errno;
    grpc_transport *self = self_of(t);
    el_grpc_watch_open(&self->lanes[stream->lane], channel_of(self, stream->lane, stream->endpoint), stream);
    errno = saved_errno;
}

static void watch_create(el_transport *t, el_watch_stream *stream, int64_t watch_id, el_span key,
                         int64_t start_revision, bool deletes_only)
{
    int saved_errno = errno;
    el_grpc_watch_create(&self_of(t)->lanes[stream->lane], stream, watch_id, key, start_revision,
                         deletes_only);
    errno = saved_errno;
}

static void watch_cancel(el_transport *t, el_watch_stream *stream, int64_t watch_id)
{
    int saved_errno = errno;
    el_grpc_watch_cancel(&self_of(t)->lanes[stream->lane], stream, watch_id);
    errno = saved_errno;
}

static void watch_close(el_transport *t, el_watch_stream *stream)
{
    int saved_errno = errno;
    el_grpc_watch_close(&self_of(t)->lanes[stream->lane], stream);
    errno = saved_errno;
}

static el_completion *next(el_transport *t, el_lane lane, int64_t deadline_ns, bool *ended)
{
    return el_grpc_lane_next(&self_of(t)->lanes[lane], deadline_ns, ended);
}

static void deliver(el_transport *t, el_completion *completion)
{
    (void)t;
    completion->deliver(completion);
}

static void wake(el_transport *t, el_lane lane)
{
    int saved_errno = errno;
    el_grpc_lane_wake(&self_of(t)->lanes[lane]);
    errno = saved_errno;
}

static void shut_down(el_transport *t)
{
    int saved_errno = errno;
    for (int i = 0; i < EL_LANES; i++)
        el_grpc_lane_shutdown(&self_of(t)->lanes[i]);
    errno = saved_errno;
}

static void free_transport(el_transport *t)
{
    int saved_errno = errno;
    grpc_transport *self = self_of(t);
    for (int i = 0; i < EL_LANES; i++)
        el_grpc_lane_destroy(&self->lanes[i]);
    if (self->endpoints) {
        for (unsigned i = 0; i < t->n_endpoints; i++)
            el_grpc_endpoint_clear(&self->endpoints[i]);
    }
    el_free(self->endpoints);
    el_grpc_credentials_clear(&self->credentials);
    el_free(self);
    grpc_shutdown();
    errno = saved_errno;
}

static int fill(grpc_transport *self, const el_grpc_config *config)
{
    for (int i = 0; i < EL_LANES; i++) {
        int error = el_grpc_lane_init(&self->lanes[i], config->n_targets, i == EL_LANE_KEEPALIVE);
        if (error) return error;
    }
    self->endpoints = el_alloc(config->n_targets * sizeof *self->endpoints);
    if (!self->endpoints) return ENOMEM;
    for (unsigned i = 0; i < config->n_targets; i++) {
        int error = el_grpc_endpoint_set(&self->endpoints[i], config->targets[i]);
        if (error) return error;
    }
    return el_grpc_credentials_init(&self->credentials, config);
}

static const el_transport TABLE = {
    .now_ns = now_ns,
    .random = random_bits,
    .call = call,
    .cancel = cancel,
    .watch_open = watch_open,
    .watch_create = watch_create,
    .watch_cancel = watch_cancel,
    .watch_close = watch_close,
    .next = next,
    .deliver = deliver,
    .wake = wake,
    .shutdown = shut_down,
    .free = free_transport,
};

/* gRPC's threads and descriptors do not survive a fork: used again in the child it hangs or aborts (measured
 * with 1.51, its own fork support needs every thread to be out of it at the fork). */
static bool is_parents_grpc(void)
{
    static atomic_uint first_user; /* the generation of the process that first used it; 0: nobody */
    unsigned nobody = 0, generation = el_process_generation();
    return !atomic_compare_exchange_strong(&first_user, &nobody, generation) && nobody != generation;
}

int el_grpc_transport_new(el_transport **out, const el_grpc_config *config)
{
    if (config->n_targets == 0 || !config->cert_pem != !config->key_pem) return EINVAL;
    if (is_parents_grpc()) return ETCDLOCK_EFORKED;
    grpc_transport *self = el_alloc(sizeof *self);
    if (!self) return ENOMEM;
    self->table = TABLE;
    self->table.n_endpoints = config->n_targets;
    self->keepalive_time_ms = config->keepalive_time_ms;
    self->keepalive_timeout_ms = config->keepalive_timeout_ms;
    grpc_init();
    int error = fill(self, config);
    if (error) {
        free_transport(&self->table);
        return error;
    }
    *out = &self->table;
    return 0;
}
