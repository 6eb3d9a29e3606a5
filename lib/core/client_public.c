/* The public functions of the client: options in, a client over gRPC out. */
#include <errno.h>
#include <pthread.h>

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/client.h"
#include "core/error.h"
#include "core/options.h"
#include "etcdlock/client.h"
#include "etcdlock/version.h"
#include "transport/grpc.h"

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)
#define VERSION_TEXT                                                                                         \
    TEXT(ETCDLOCK_VERSION_MAJOR) "." TEXT(ETCDLOCK_VERSION_MINOR) "." TEXT(ETCDLOCK_VERSION_PATCH)

const char *etcdlock_version(void)
{
    return VERSION_TEXT;
}

static void free_options(void *owner)
{
    el_options_free(owner);
    el_free(owner);
}

static int open_transport(el_transport **out, const el_options *options)
{
    el_grpc_config config = {
        .targets = (const char *const *)options->targets.targets,
        .n_targets = options->targets.n_targets,
        .tls = options->tls,
        .ca_pem = options->ca_pem,
        .cert_pem = options->cert_pem,
        .key_pem = options->key_pem,
        .ca_file = options->ca_file,
        .cert_file = options->cert_file,
        .key_file = options->key_file,
        .keepalive_time_ms = options->keepalive_time_ms,
        .keepalive_timeout_ms = options->keepalive_timeout_ms,
    };
    return el_grpc_transport_new(out, &config);
}

static int open_client(etcdlock_client **out, const el_options *options)
{
    el_transport *transport;
    int error = open_transport(&transport, options);
    if (error) return error;
    el_client_settings settings = {
        .dial_timeout_ns = options->dial_timeout_ms * EL_MS,
        .command_timeout_ns = options->command_timeout_ms * EL_MS,
        .key_prefix = options->key_prefix,
        .user = options->user,
        .password = options->password,
        .log = options->log,
        .log_arg = options->log_arg,
        .log_level = (etcdlock_log_level)options->log_level,
        .group_max = (unsigned)options->group_max,
        .is_threaded = true,
    };
    return el_client_new(out, transport, &settings);
}

static int open_with_options(etcdlock_client **out, const etcdlock_client_options *code)
{
    el_failure failure = {0};
    el_options *options = el_alloc(sizeof(*options));
    if (!options) return el_publish_new(ENOMEM, "client_open: out of memory");
    if (el_options_resolve(options, code, &failure)) {
        el_free(options);
        return el_publish(&failure);
    }
    int error = open_client(out, options);
    if (error) {
        free_options(options);
        return el_publish_new(
            error, "client_open: %s",
            error == ETCDLOCK_EFORKED
                ? "the parent process had a client before it forked, and gRPC cannot be used on both "
                  "sides of a fork: open clients after forking only, or exec"
            : error == EAGAIN ? "no thread could be started"
            : error == ENOMEM ? "out of memory"
                              : "the endpoints or TLS files cannot be used");
    }
    (*out)->owner = options;
    (*out)->free_owner = free_options;
    return 0;
}

int etcdlock_client_open(etcdlock_client **out, const etcdlock_client_options *code)
{
    int cancel_state;
    if (!out) return el_publish_new(EINVAL, "client_open: out is NULL");
    *out = NULL;
    /* Reading the named files would be a cancellation point. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    int error = open_with_options(out, code);
    pthread_setcancelstate(cancel_state, NULL);
    return error;
}

int etcdlock_client_close(etcdlock_client *client)
{
    if (!client) return 0;
    if (el_client_enter(client))
        return el_publish_new(ETCDLOCK_EFORKED, "client_close: the client belongs to the parent process");
    bool is_callback = el_notifier_is_here(&client->notifier);
    el_client_leave(client);
    if (is_callback)
        return el_publish_new(
            EDEADLK, "client_close: called from one of the client's callbacks, which it would wait for");
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    int error = el_client_close(client);
    pthread_setcancelstate(cancel_state, NULL);
    return error ? el_publish_new(error, "client_close: a lease could not be revoked; it will expire") : 0;
}
