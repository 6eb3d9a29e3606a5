/* The public functions of the session: the blocking shell around its state machine. */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include <sys/eventfd.h>

#include "core/backoff.h"
#include "core/error.h"
#include "core/options.h"
#include "core/session.h"

/* Somebody who waits for a session to be opened or revoked. Found through the session, since only one can
 * wait. */
typedef struct waiter {
    pthread_cond_t changed;
    bool is_done;
    el_failure failure;
} waiter;

static void wake(waiter *w)
{
    w->is_done = true;
    pthread_cond_signal(&w->changed);
}

static void opened(el_session *session, const el_failure *failure)
{
    waiter *w = session->waiter;
    w->failure = *failure;
    wake(w);
}

static void revoked(el_session *session)
{
    wake(session->waiter);
}

static void await(el_session *session, waiter *w)
{
    session->waiter = w;
    while (!w->is_done)
        pthread_cond_wait(&w->changed, &session->client->lock);
    session->waiter = NULL;
}

static int open_session(el_session **out, el_client *client, const el_session_settings *settings,
                        el_failure *failure)
{
    if (client->state != EL_CLIENT_OPEN)
        return el_fail(failure, ECANCELED, "session_open: the client is closed");
    el_session *session = el_session_new(client, settings);
    if (!session) return el_fail(failure, ENOMEM, "session_open: out of memory");
    waiter w = {.changed = PTHREAD_COND_INITIALIZER};
    el_session_open(session, opened);
    await(session, &w);
    *failure = w.failure;
    if (failure->error) {
        el_session_unref(session);
    } else {
        *out = session;
    }
    return failure->error;
}

int etcdlock_session_open(etcdlock_session **out, etcdlock_client *client,
                          const etcdlock_session_options *options)
{
    el_failure failure = {0};
    el_session_settings settings;
    if (out) *out = NULL;
    if (!out || !client) return el_publish_new(EINVAL, "session_open: %s is NULL", out ? "client" : "out");
    if (el_session_options_resolve(&settings, client->owner, options, &failure)) return el_publish(&failure);
    int64_t margin_ms;
    if (el_margin_ms(settings.margin_ms, settings.ttl_s, &margin_ms)) {
        int64_t asked_ms = settings.margin_ms, ttl_s = settings.ttl_s;
        el_session_settings_free(&settings);
        return el_publish_new(
            EINVAL, "session_open: margin_ms is %lld: it must be less than half of the time to live, %lld s",
            (long long)asked_ms, (long long)ttl_s);
    }
    if (el_client_enter(client)) {
        el_fail(&failure, ETCDLOCK_EFORKED, "session_open: the client belongs to the parent process");
    } else {
        (void)open_session(out, client, &settings, &failure);
        el_client_leave(client);
    }
    el_session_settings_free(&settings);
    return el_publish(&failure);
}

int etcdlock_session_close(etcdlock_session *session)
{
    if (!session) return 0;
    el_client *client = session->client;
    if (el_client_enter(client))
        return el_publish_new(ETCDLOCK_EFORKED, "session_close: the session belongs to the parent process");
    session->on_state = NULL;
    session->n_pending = 0;
    (void)el_session_is_live(session);
    int result = 0;
    if (session->phase == EL_SESSION_LIVE) {
        waiter w = {.changed = PTHREAD_COND_INITIALIZER};
        session->revoked = revoked;
        el_session_end(session, ECANCELED, "it was closed");
        await(session, &w);
        result = session->is_revoked ? 0 : ETCDLOCK_EUNKNOWN;
    } else if (session->over_error == ETCDLOCK_ESESSION) {
        result = ETCDLOCK_ESESSION;
    }
    el_notifier_await(&client->notifier, session);
    el_session_unref(session);
    el_client_leave(client);
    if (result == ETCDLOCK_EUNKNOWN)
        return el_publish_new(
            result, "session_close: the lease could not be revoked; it will expire by its time to live");
    return result ? el_publish_new(result, "session_close: the session had been lost before") : 0;
}

etcdlock_session_state etcdlock_session_get_state(etcdlock_session *session)
{
    if (!session || el_client_enter(session->client)) return ETCDLOCK_SESSION_LOST;
    etcdlock_session_state state = ETCDLOCK_SESSION_LOST;
    if (el_session_is_live(session))
        state = session->is_suspended ? ETCDLOCK_SESSION_SUSPENDED : ETCDLOCK_SESSION_OK;
    el_client_leave(session->client);
    return state;
}

int64_t etcdlock_session_remaining_ms(etcdlock_session *session)
{
    if (!session || el_client_enter(session->client)) return 0;
    int64_t left_ns = el_session_remaining_ns(session);
    el_client_leave(session->client);
    return left_ns / EL_MS;
}

int64_t etcdlock_session_lease(const etcdlock_session *session)
{
    return session ? session->lease : 0;
}

int64_t etcdlock_session_ttl_s(etcdlock_session *session)
{
    if (!session || el_client_enter(session->client)) return 0;
    int64_t ttl_s = session->ttl_ns / EL_S;
    el_client_leave(session->client);
    return ttl_s;
}

int etcdlock_session_lost_fd(etcdlock_session *session)
{
    if (!session || el_client_enter(session->client)) return -1;
    if (session->lost_fd < 0) {
        session->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (session->lost_fd >= 0 && !el_session_is_live(session) && session->over_error == ETCDLOCK_ESESSION)
            (void)eventfd_write(session->lost_fd, 1);
    }
    int fd = session->lost_fd;
    el_client_leave(session->client);
    return fd;
}
