#include "core/keepalive.h"

#include <errno.h>

#include "core/backoff.h"
#include "core/log.h"
#include "core/queue.h"
#include "core/session.h"

static const int64_t hedge_min_ns = 100 * EL_MS;
static const int64_t hedge_max_ns = 3 * EL_S;

/* An attempt is given up after so many hedges have been sent after it. */
enum { HEDGES_PER_ATTEMPT = 3 };

/* A ninth of the time to live: with renewals at a third of it, an endpoint that hangs leaves five further
 * tries before the deadline. */
static int64_t hedge_ns(const el_session *session)
{
    int64_t ns = session->ttl_ns / 9;
    if (ns < hedge_min_ns) return hedge_min_ns;
    return ns > hedge_max_ns ? hedge_max_ns : ns;
}

static void set_check(el_session *session)
{
    el_client_timer_set(session->client, EL_LANE_KEEPALIVE, &session->keepalive.check,
                        el_session_next_check_ns(session));
}

static void plan_next(el_session *session)
{
    /* The jitter spreads the sessions of a fleet that started together. */
    int64_t third_ns = session->ttl_ns / 3;
    int64_t jitter_ns = (int64_t)(el_random(session->client) % (uint64_t)(third_ns / 8 + 1));
    el_client_timer_set(session->client, EL_LANE_KEEPALIVE, &session->keepalive.renew,
                        session->renewed_ns + third_ns - jitter_ns);
}

static void answered(el_session *session, const el_renewal *renewal, const el_answer *answer)
{
    el_keepalive *keepalive = &session->keepalive;
    el_client *client = session->client;
    if (answer->lease.ttl_s <= 0) {
        /* etcd has no error for this: a lease that is gone is answered with no time to live. */
        el_session_end(session, ETCDLOCK_ESESSION,
                       "etcd says that the lease is gone: it expired or was revoked");
        return;
    }
    const el_queue *queue = el_queue_any(session);
    if (queue) el_doubt_revision(client, answer->revision, queue->folder);
    if (renewal->sent_ns <= session->renewed_ns) return;
    if (keepalive->attempts > 1 && renewal->call.endpoint != keepalive->endpoint) {
        unsigned silent = keepalive->endpoint % client->transport->n_endpoints;
        el_client_leave_endpoint(client, silent,
                                 "it left a lease renewal unanswered that another endpoint answered");
        el_hub_leave_endpoint(client, silent);
    }
    keepalive->endpoint = renewal->call.endpoint;
    keepalive->attempts = 0;
    el_session_renewed(session, renewal->sent_ns, answer->lease.ttl_s);
    if (session->phase != EL_SESSION_LIVE) return;
    set_check(session);
    if (keepalive->is_wanted_afresh) {
        keepalive->is_wanted_afresh = false;
        el_keepalive_now(session);
    } else {
        plan_next(session);
    }
}

static void done(el_call *call, const el_status *status, const el_answer *answer)
{
    el_renewal *renewal = EL_CONTAINER(call, el_renewal, call);
    el_session *session = renewal->session;
    renewal->is_under_way = false;
    if (session->phase == EL_SESSION_LIVE) {
        el_session_check(session);
        if (session->phase != EL_SESSION_LIVE) {
            /* The deadline passed before this answer was read: what is lost stays lost. */
        } else if (status->code == EL_OK) {
            answered(session, renewal, answer);
        } else {
            el_log(session->client, ETCDLOCK_LOG_INFO, "renewal of lease %llx at endpoint %u: %s (code %d)",
                   (unsigned long long)session->lease, call->endpoint + 1, status->message,
                   (int)status->code);
            int64_t pause_ns = el_backoff_ns(session->keepalive.attempts, 10 * EL_MS, hedge_ns(session),
                                             el_random(session->client));
            int64_t due_ns = el_now(session->client) + pause_ns;
            el_timer *renew = &session->keepalive.renew;
            /* Only ever sooner than the hedge that is planned already. */
            if (session->keepalive.attempts > 0 && (!el_timer_is_set(renew) || due_ns < renew->due_ns))
                el_client_timer_set(session->client, EL_LANE_KEEPALIVE, renew, due_ns);
        }
    }
    el_session_unref(session);
}

static el_renewal *free_slot(el_keepalive *keepalive)
{
    for (int i = 0; i < EL_RENEWALS; i++) {
        if (!keepalive->renewals[i].is_under_way) return &keepalive->renewals[i];
    }
    return NULL;
}

static void send_one(el_session *session)
{
    el_client *client = session->client;
    el_keepalive *keepalive = &session->keepalive;
    el_renewal *renewal = free_slot(keepalive);
    if (!renewal) return;
    renewal->session = session;
    renewal->sent_ns = el_now(client);
    renewal->is_under_way = true;
    renewal->call.lane = EL_LANE_KEEPALIVE;
    renewal->call.endpoint = (keepalive->endpoint + keepalive->attempts) % client->transport->n_endpoints;
    renewal->call.deadline_ns = renewal->sent_ns + HEDGES_PER_ATTEMPT * hedge_ns(session);
    renewal->call.token.data = client->auth.token;
    renewal->call.token.size = client->auth.token_size;
    renewal->call.done = done;
    keepalive->attempts++;
    el_session_ref(session);
    el_request request = {.verb = EL_LEASE_KEEPALIVE, .lease = {.id = session->lease}};
    client->transport->call(client->transport, &renewal->call, &request);
}

static void renew_due(el_timer *timer)
{
    el_keepalive *keepalive = EL_CONTAINER(timer, el_keepalive, renew);
    el_session *session = EL_CONTAINER(keepalive, el_session, keepalive);
    el_session_check(session);
    if (session->phase != EL_SESSION_LIVE) return;
    if (session->is_poisoned && session->n_owned == 0) {
        el_session_end(session, ETCDLOCK_ESESSION,
                       "an entry could not be removed and nothing else is held: the lease is "
                       "given up so that the entry goes with it");
        return;
    }
    el_client_timer_set(session->client, EL_LANE_KEEPALIVE, timer,
                        el_now(session->client) + hedge_ns(session));
    send_one(session);
}

static void check_due(el_timer *timer)
{
    el_keepalive *keepalive = EL_CONTAINER(timer, el_keepalive, check);
    el_session *session = EL_CONTAINER(keepalive, el_session, keepalive);
    el_session_check(session);
    if (session->phase == EL_SESSION_LIVE) set_check(session);
}

void el_keepalive_start(el_session *session)
{
    el_keepalive *keepalive = &session->keepalive;
    keepalive->renew.fire = renew_due;
    keepalive->check.fire = check_due;
    keepalive->endpoint = session->client->endpoint;
    keepalive->attempts = 0;
    keepalive->is_wanted_afresh = false;
    set_check(session);
    plan_next(session);
}

void el_keepalive_stop(el_session *session)
{
    el_client *client = session->client;
    el_keepalive *keepalive = &session->keepalive;
    el_client_timer_clear(client, EL_LANE_KEEPALIVE, &keepalive->renew);
    el_client_timer_clear(client, EL_LANE_KEEPALIVE, &keepalive->check);
    for (int i = 0; i < EL_RENEWALS; i++) {
        if (keepalive->renewals[i].is_under_way)
            client->transport->cancel(client->transport, &keepalive->renewals[i].call);
    }
}

void el_keepalive_now(el_session *session)
{
    if (session->phase != EL_SESSION_LIVE || session->keepalive.attempts > 0) return;
    el_client_timer_set(session->client, EL_LANE_KEEPALIVE, &session->keepalive.renew,
                        el_now(session->client));
}

void el_keepalive_afresh(el_session *session)
{
    if (session->keepalive.attempts > 0) session->keepalive.is_wanted_afresh = true;
    el_keepalive_now(session);
}
