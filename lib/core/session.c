#include "core/session.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <sys/eventfd.h>

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/contender.h"
#include "core/log.h"

/* A random 63-bit id meets a lease that exists about never; twice is a server that answers nonsense. */
enum { GRANTS_MAX = 3 };

static void run_notice(el_notice *notice);

/* ---- its life ------------------------------------------------------------------------------------------ */

el_session *el_session_new(el_client *client, const el_session_settings *settings)
{
    el_session *session = el_alloc(sizeof(*session));
    if (!session) return NULL;
    session->label = el_strdup(settings->label ? settings->label : "");
    if (!session->label) {
        el_free(session);
        return NULL;
    }
    session->client = client;
    client->references++;
    session->references = 1;
    session->asked_ttl_s = settings->ttl_s;
    session->asked_margin_ms = settings->margin_ms;
    session->on_state = settings->on_state;
    session->on_state_arg = settings->on_state_arg;
    session->notice.run = run_notice;
    session->notice.subject = session;
    session->lost_fd = -1;
    el_list_init(&session->contenders);
    el_list_init(&session->renewal_waiters);
    el_list_append(&client->sessions, &session->link);
    return session;
}

void el_session_ref(el_session *session)
{
    session->references++;
}

void el_session_unref(el_session *session)
{
    if (--session->references > 0) return;
    el_client *client = session->client;
    el_list_remove(&session->link);
    el_notifier_withdraw(&client->notifier, &session->notice);
    if (session->lost_fd >= 0) close(session->lost_fd);
    el_map_clear(&session->queues);
    el_free(session->label);
    el_free(session);
    client->references--;
}

/* ---- telling the user ------------------------------------------------------------------------------------
 */

static void run_notice(el_notice *notice)
{
    el_session *session = EL_CONTAINER(notice, el_session, notice);
    el_client *client = session->client;
    for (;;) {
        pthread_mutex_lock(&client->lock);
        if (session->n_pending == 0) break;
        etcdlock_session_state state = session->pending[0];
        session->n_pending--;
        for (unsigned i = 0; i < session->n_pending; i++)
            session->pending[i] = session->pending[i + 1];
        etcdlock_session_function *on_state = session->on_state;
        pthread_mutex_unlock(&client->lock);
        if (on_state) on_state(session, state, session->on_state_arg);
    }
    el_session_unref(session);
    pthread_mutex_unlock(&client->lock);
}

static void tell_state(el_session *session, etcdlock_session_state state)
{
    el_log(session->client, state == ETCDLOCK_SESSION_OK ? ETCDLOCK_LOG_INFO : ETCDLOCK_LOG_WARNING,
           "session with lease %llx: %s", (unsigned long long)session->lease,
           state == ETCDLOCK_SESSION_OK          ? "renewed again"
           : state == ETCDLOCK_SESSION_SUSPENDED ? "suspended, a renewal is overdue"
                                                 : "over");
    if (state == ETCDLOCK_SESSION_LOST && session->lost_fd >= 0) (void)eventfd_write(session->lost_fd, 1);
    if (!session->on_state) return;
    /* A callback so slow that all places are taken misses changes back and forth, never the last one. */
    if (session->n_pending == EL_PENDING_STATES) session->n_pending--;
    session->pending[session->n_pending++] = state;
    if (session->notice.is_queued) return;
    el_session_ref(session);
    if (el_notifier_post(&session->client->notifier, &session->notice)) el_session_unref(session);
}

static void tell_renewal_waiters(el_session *session)
{
    el_list waiters;
    el_list_init(&waiters);
    el_list_splice(&waiters, &session->renewal_waiters);
    for (el_list *link = el_list_take(&waiters); link; link = el_list_take(&waiters)) {
        el_renewal_waiter *waiter = EL_CONTAINER(link, el_renewal_waiter, link);
        waiter->moved(waiter);
    }
}

/* ---- the deadline
 * ------------------------------------------------------------------------------------------ */

bool el_session_is_live(el_session *session)
{
    if (session->phase == EL_SESSION_LIVE) el_session_check(session);
    return session->phase == EL_SESSION_LIVE;
}

int64_t el_session_remaining_ns(const el_session *session)
{
    if (session->phase != EL_SESSION_LIVE) return 0;
    int64_t left_ns = session->deadline_ns - el_now(session->client);
    return left_ns > 0 ? left_ns : 0;
}

static int64_t suspend_ns(const el_session *session)
{
    return session->renewed_ns + session->ttl_ns / 2;
}

int64_t el_session_next_check_ns(const el_session *session)
{
    if (session->is_suspended || suspend_ns(session) > session->deadline_ns) return session->deadline_ns;
    return suspend_ns(session);
}

void el_session_check(el_session *session)
{
    if (session->phase != EL_SESSION_LIVE) return;
    int64_t now_ns = el_now(session->client);
    if (now_ns >= session->deadline_ns) {
        el_session_end(session, ETCDLOCK_ESESSION, "no renewal was answered in time");
    } else if (!session->is_suspended && now_ns >= suspend_ns(session)) {
        session->is_suspended = true;
        tell_state(session, ETCDLOCK_SESSION_SUSPENDED);
    }
}

/* The granted time to live counts, not the one asked for: etcd raises small ones. */
static void take_ttl(el_session *session, int64_t sent_ns, int64_t ttl_s)
{
    int64_t margin_ms = 0;
    if (ttl_s > INT64_MAX / EL_S / 4) ttl_s = INT64_MAX / EL_S / 4;
    if (el_margin_ms(session->asked_margin_ms, ttl_s, &margin_ms)) margin_ms = ttl_s * 1000 / 2 - 1;
    session->ttl_ns = ttl_s * EL_S;
    session->margin_ns = margin_ms * EL_MS;
    session->renewed_ns = sent_ns;
    session->deadline_ns = sent_ns + session->ttl_ns - session->margin_ns;
}

void el_session_renewed(el_session *session, int64_t sent_ns, int64_t ttl_s)
{
    take_ttl(session, sent_ns, ttl_s);
    el_session_check(session);
    if (session->phase != EL_SESSION_LIVE) return;
    if (session->is_suspended && el_now(session->client) < suspend_ns(session)) {
        session->is_suspended = false;
        tell_state(session, ETCDLOCK_SESSION_OK);
    }
    tell_renewal_waiters(session);
}

/* ---- the end
 * ------------------------------------------------------------------------------------------------- */

static void revoke_done(el_rpc *rpc, const el_rpc_end *end)
{
    el_session *session = EL_CONTAINER(rpc, el_session, rpc);
    session->is_revoking = false;
    session->is_revoked = end->outcome == EL_OUTCOME_DONE || end->failure.error == ETCDLOCK_ESESSION;
    if (!session->is_revoked)
        el_log(session->client, ETCDLOCK_LOG_WARNING, "lease %llx could not be revoked and will expire: %s",
               (unsigned long long)session->lease, end->failure.text);
    void (*revoked)(el_session *) = session->revoked;
    session->revoked = NULL;
    if (revoked) revoked(session);
    pthread_cond_broadcast(&session->client->quiet);
    el_session_unref(session);
}

static void revoke_lease(el_session *session)
{
    el_client *client = session->client;
    int64_t limit_ns = client->command_timeout_ns;
    if (session->ttl_ns > 0 && session->ttl_ns < limit_ns) limit_ns = session->ttl_ns;
    session->is_revoking = true;
    session->rpc = (el_rpc){
        .request = {.verb = EL_LEASE_REVOKE, .lease = {.id = session->lease}},
        .is_write = true,
        .pinned = EL_ANY_ENDPOINT,
        .deadline_ns = el_now(client) + limit_ns,
        .done = revoke_done,
    };
    el_session_ref(session);
    el_rpc_start(client, &session->rpc);
}

void el_session_end(el_session *session, int error, const char *reason)
{
    if (session->phase == EL_SESSION_OVER) return;
    bool was_live = session->phase == EL_SESSION_LIVE;
    session->phase = EL_SESSION_OVER;
    session->over_error = error;
    el_session_ref(session);
    if (was_live) {
        el_log(session->client, error == ETCDLOCK_ESESSION ? ETCDLOCK_LOG_ERROR : ETCDLOCK_LOG_INFO,
               "session with lease %llx ends: %s", (unsigned long long)session->lease, reason);
        el_keepalive_stop(session);
        el_contenders_session_over(session, error, reason);
        if (error == ETCDLOCK_ESESSION) tell_state(session, ETCDLOCK_SESSION_LOST);
        tell_renewal_waiters(session);
        revoke_lease(session);
    } else {
        el_rpc_stop(&session->rpc); /* the grant; its end takes care of the rest */
    }
    el_session_unref(session);
}

/* ---- the beginning
 * ------------------------------------------------------------------------------------------- */

static void grant(el_session *session);

static void opened(el_session *session, const el_failure *failure)
{
    void (*callback)(el_session *, const el_failure *) = session->opened;
    session->opened = NULL;
    if (failure->error) {
        session->phase = EL_SESSION_OVER;
        if (!session->over_error) session->over_error = failure->error;
        if (session->rpc.maybe_applied && session->client->state == EL_CLIENT_OPEN) revoke_lease(session);
    } else {
        session->phase = EL_SESSION_LIVE;
        el_keepalive_start(session);
        el_log(session->client, ETCDLOCK_LOG_INFO, "session opened with lease %llx, time to live %lld s",
               (unsigned long long)session->lease, (long long)(session->ttl_ns / EL_S));
    }
    if (callback) callback(session, failure);
}

/* An answer that took longer than the lease lives is worth nothing. */
static void begin_life(el_session *session, int64_t sent_ns, int64_t ttl_s)
{
    el_failure failure = {0};
    take_ttl(session, sent_ns, ttl_s);
    if (ttl_s <= 0 || el_now(session->client) >= session->deadline_ns) {
        session->rpc.maybe_applied = true;
        el_fail(&failure, ETCDLOCK_EUNREACHABLE,
                "the lease was granted, but the answer took longer than its time to live of %lld s",
                (long long)ttl_s);
    } else if (session->phase == EL_SESSION_OVER) {
        session->rpc.maybe_applied = true;
        el_fail(&failure, session->over_error, "the session was closed while it was being opened");
    }
    opened(session, &failure);
}

static void found_done(el_rpc *rpc, const el_rpc_end *end)
{
    el_session *session = EL_CONTAINER(rpc, el_session, rpc);
    if (end->answer) {
        begin_life(session, rpc->sent_ns, end->answer->lease.ttl_s);
    } else {
        rpc->maybe_applied = true;
        opened(session, &end->failure);
    }
    el_session_unref(session);
}

/* The lease that an unanswered attempt of ours left behind: its time to live counts from a renewal of now. */
static void take_up_found(el_session *session)
{
    int64_t deadline_ns = session->rpc.deadline_ns;
    session->rpc = (el_rpc){
        .request = {.verb = EL_LEASE_KEEPALIVE, .lease = {.id = session->lease}},
        .pinned = EL_ANY_ENDPOINT,
        .deadline_ns = deadline_ns,
        .done = found_done,
    };
    el_session_ref(session);
    el_rpc_start(session->client, &session->rpc);
}

static void grant_done(el_rpc *rpc, const el_rpc_end *end)
{
    el_session *session = EL_CONTAINER(rpc, el_session, rpc);
    if (end->answer) {
        begin_life(session, rpc->sent_ns, end->answer->lease.ttl_s);
    } else if (end->lease_exists && session->phase == EL_SESSION_OPENING && rpc->maybe_applied) {
        take_up_found(session);
    } else if (end->lease_exists && session->phase == EL_SESSION_OPENING && session->grants < GRANTS_MAX) {
        grant(session); /* the id is somebody else's */
    } else {
        opened(session, &end->failure);
    }
    el_session_unref(session);
}

static void grant(el_session *session)
{
    el_client *client = session->client;
    int64_t id = (int64_t)(el_random(client) >> 1);
    session->lease = id ? id : 1;
    session->grants++;
    session->rpc = (el_rpc){
        .request = {.verb = EL_LEASE_GRANT, .lease = {.id = session->lease, .ttl_s = session->asked_ttl_s}},
        .is_write = true,
        .pinned = EL_ANY_ENDPOINT,
        .deadline_ns = el_now(client) + client->command_timeout_ns,
        .done = grant_done,
    };
    el_session_ref(session);
    el_rpc_start(client, &session->rpc);
}

void el_session_open(el_session *session,
                     void (*opened_callback)(el_session *session, const el_failure *failure))
{
    session->opened = opened_callback;
    session->phase = EL_SESSION_OPENING;
    grant(session);
}
