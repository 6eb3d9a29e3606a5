#include "core/rpc.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/auth.h"
#include "core/backoff.h"
#include "core/client.h"

static const int64_t pause_base_ns = 20 * EL_MS;
static const int64_t pause_limit_ns = 1 * EL_S;

/* After so many refused tokens in a row fetching yet another one is pointless. */
enum { REFUSED_TOKENS_MAX = 5 };

/* What a server says is cut to this. */
enum { REASON_SIZE = 260 };

static const char *const verb_names[] = {
    [EL_TXN] = "transaction",
    [EL_RANGE] = "range",
    [EL_LEASE_GRANT] = "lease grant",
    [EL_LEASE_REVOKE] = "lease revoke",
    [EL_LEASE_KEEPALIVE] = "lease renewal",
    [EL_LEASE_TIME_TO_LIVE] = "lease query",
    [EL_AUTHENTICATE] = "authentication",
    [EL_STATUS] = "status",
};

static void attempt(el_rpc *rpc);

static void finish(el_rpc *rpc, el_rpc_end *end)
{
    rpc->is_under_way = false;
    /* What its answer shows may have ended sessions, and those have stopped it. */
    el_client_timer_clear(rpc->client, EL_LANE_IO, &rpc->pause);
    el_free(rpc->reason);
    rpc->reason = NULL;
    el_list_remove(&rpc->link);
    rpc->done(rpc, end);
}

/* That time was up says less than why the attempts before it failed. */
static void remember_reason(el_rpc *rpc, const el_status *status)
{
    char text[REASON_SIZE];
    if (status->code == EL_DEADLINE_EXCEEDED && rpc->reason) return;
    snprintf(text, sizeof(text), "%s (gRPC code %d)",
             status->message[0] ? status->message : "no reason given", (int)status->code);
    el_free(rpc->reason);
    rpc->reason = el_strdup(text);
    rpc->reason_endpoint = rpc->call.endpoint;
}

static void explain(const el_rpc *rpc, el_failure *failure, int error)
{
    bool is_away = error == ETCDLOCK_EUNREACHABLE;
    el_fail(failure, error, "%s: attempt %u, endpoint %u of %u: %s%s", verb_names[rpc->request.verb],
            rpc->attempts, rpc->reason_endpoint + 1, rpc->client->transport->n_endpoints,
            rpc->reason ? rpc->reason : "out of memory for the reason",
            is_away ? "; is etcd there? See the option endpoints, or ETCDCTL_ENDPOINTS" : "");
}

static void finish_with(el_rpc *rpc, int error, const char *detail)
{
    el_rpc_end end = {.outcome = rpc->maybe_applied ? EL_OUTCOME_MAYBE : EL_OUTCOME_NOT_APPLIED};
    if (error != ECANCELED && rpc->maybe_applied) error = ETCDLOCK_EUNKNOWN;
    if (error == ECANCELED || !rpc->reason)
        el_fail(&end.failure, error, "%s: %s", verb_names[rpc->request.verb], detail);
    else
        explain(rpc, &end.failure, error);
    finish(rpc, &end);
}

static bool must_end(const el_rpc *rpc)
{
    return rpc->is_stopped || rpc->client->state == EL_CLIENT_CLOSED;
}

static void pause_over(el_timer *timer)
{
    el_rpc *rpc = EL_CONTAINER(timer, el_rpc, pause);
    el_list_remove(&rpc->waiter.link);
    if (must_end(rpc)) {
        finish_with(rpc, ECANCELED, "cancelled");
        return;
    }
    if (el_now(rpc->client) >= rpc->deadline_ns) {
        finish_with(rpc, ETCDLOCK_EUNREACHABLE, "no time left, and etcd has not given an auth token");
        return;
    }
    attempt(rpc);
}

/* The first round over the endpoints goes without a pause, unless the same one would be asked again at once.
 */
static void pause_then_retry(el_rpc *rpc, bool other_member)
{
    el_client *client = rpc->client;
    int64_t now_ns = el_now(client);
    int64_t pause_ns = 0;
    unsigned round = rpc->attempts / client->transport->n_endpoints;
    if (!other_member || round > 0)
        pause_ns = el_backoff_ns(round, pause_base_ns, pause_limit_ns, el_random(client));
    int64_t due_ns = now_ns + pause_ns;
    if (due_ns > rpc->deadline_ns) due_ns = rpc->deadline_ns;
    el_client_timer_set(client, EL_LANE_IO, &rpc->pause, due_ns);
}

static bool may_retry(const el_rpc *rpc, const el_verdict *verdict)
{
    if (!verdict->retry || verdict->outcome == EL_OUTCOME_REFUSED || rpc->is_single || must_end(rpc))
        return false;
    if (verdict->new_token && (!rpc->client->user || rpc->refused_tokens > REFUSED_TOKENS_MAX)) return false;
    return el_now(rpc->client) < rpc->deadline_ns;
}

static void end_without_answer(el_rpc *rpc, const el_verdict *verdict, const el_status *status)
{
    el_rpc_end end = {.outcome = verdict->outcome, .lease_exists = el_outcome_lease_exists(status)};
    int error = verdict->error;
    if (must_end(rpc))
        error = ECANCELED;
    else if (error == ECANCELED)
        error = ETCDLOCK_EUNREACHABLE;
    if (error == ETCDLOCK_EUNREACHABLE && rpc->maybe_applied) error = ETCDLOCK_EUNKNOWN;
    explain(rpc, &end.failure, error);
    finish(rpc, &end);
}

static bool is_linearizable(const el_request *request)
{
    if (request->verb == EL_LEASE_GRANT) return true;
    if (request->verb == EL_RANGE) return !request->range.serializable;
    if (request->verb != EL_TXN) return false;
    /* A transaction is answered by the member alone only if all it does is serializable reads. */
    for (size_t i = 0; i < request->txn.n_success; i++) {
        const el_op *op = &request->txn.success[i];
        if (op->kind != EL_OP_RANGE || !op->range.serializable) return true;
    }
    return request->txn.n_failure > 0;
}

static int64_t attempt_limit_ns(const el_rpc *rpc)
{
    /* A cluster that is merely slow must not be cut short for ever: each round over the endpoints that is
     * spent in waiting waits twice as long, up to eight times. */
    unsigned round = rpc->vain_waits / rpc->client->transport->n_endpoints;
    return rpc->client->dial_timeout_ns << (round < 3 ? round : 3);
}

/* Whoever answers at once that there is no leader takes no time from the others: they, and not a member that
 * has stopped, are to be asked when the election is over. */
static void count_wait(el_rpc *rpc)
{
    if (el_now(rpc->client) - rpc->sent_ns >= attempt_limit_ns(rpc) / 2) rpc->vain_waits++;
}

static void attempt_done(el_call *call, const el_status *status, const el_answer *answer)
{
    el_rpc *rpc = EL_CONTAINER(call, el_rpc, call);
    rpc->is_calling = false;
    el_verdict verdict = el_outcome_of(status);
    if (verdict.outcome == EL_OUTCOME_DONE) {
        el_rpc_end end = {.outcome = EL_OUTCOME_DONE, .answer = answer};
        if (is_linearizable(&rpc->request))
            el_client_take_revision(rpc->client, rpc->known_restores, rpc->known_revision, answer->revision);
        finish(rpc, &end);
        return;
    }
    remember_reason(rpc, status);
    count_wait(rpc);
    if (verdict.outcome == EL_OUTCOME_MAYBE && rpc->is_write) rpc->maybe_applied = true;
    if (verdict.leave_member && !must_end(rpc))
        el_client_leave_endpoint(rpc->client, call->endpoint, status->message);
    if (verdict.new_token) {
        rpc->refused_tokens++;
        el_auth_refused(rpc->client, rpc->token_generation);
    }
    if (may_retry(rpc, &verdict)) {
        bool other_member = verdict.new_token || (verdict.leave_member && rpc->pinned == EL_ANY_ENDPOINT);
        pause_then_retry(rpc, other_member);
    } else {
        end_without_answer(rpc, &verdict, status);
    }
}

static void token_ready(el_auth_waiter *waiter, const el_failure *failure)
{
    el_rpc *rpc = EL_CONTAINER(waiter, el_rpc, waiter);
    el_client_timer_clear(rpc->client, EL_LANE_IO, &rpc->pause);
    if (failure->error == EACCES || failure->error == ECANCELED || rpc->is_single) {
        el_rpc_end end = {.failure = *failure, .outcome = EL_OUTCOME_NOT_APPLIED};
        if (failure->error == 0) {
            attempt(rpc);
            return;
        }
        if (failure->error == EACCES) end.outcome = EL_OUTCOME_REFUSED;
        finish(rpc, &end);
    } else if (failure->error) {
        pause_then_retry(rpc, false);
    } else {
        attempt(rpc);
    }
}

static void attempt(el_rpc *rpc)
{
    el_client *client = rpc->client;
    rpc->waiter.ready = token_ready;
    if (client->state == EL_CLIENT_CLOSED) { /* nobody waits at the transport any more */
        el_client_timer_set(client, EL_LANE_IO, &rpc->pause, el_now(client));
        return;
    }
    if (rpc->request.verb != EL_AUTHENTICATE && !el_auth_is_ready(client, &rpc->waiter)) {
        /* Fetching it has a deadline of its own, which may be a later one. */
        if (rpc->deadline_ns < INT64_MAX)
            el_client_timer_set(client, EL_LANE_IO, &rpc->pause, rpc->deadline_ns);
        return;
    }
    int64_t now_ns = el_now(client);
    int64_t limit_ns = now_ns + attempt_limit_ns(rpc);
    rpc->call.lane = EL_LANE_IO;
    rpc->call.endpoint = rpc->pinned == EL_ANY_ENDPOINT ? client->endpoint : (unsigned)rpc->pinned;
    rpc->call.deadline_ns = limit_ns < rpc->deadline_ns ? limit_ns : rpc->deadline_ns;
    /* etcd refuses an old token even where a new one is asked for. */
    bool has_token = rpc->request.verb != EL_AUTHENTICATE;
    rpc->call.token.data = has_token ? client->auth.token : NULL;
    rpc->call.token.size = has_token ? client->auth.token_size : 0;
    rpc->call.done = attempt_done;
    assert(rpc->call.deadline_ns < INT64_MAX);
    rpc->token_generation = client->auth.generation;
    rpc->attempts++;
    rpc->sent_ns = now_ns;
    rpc->known_revision = client->revision;
    rpc->known_restores = client->restores;
    rpc->is_calling = true;
    client->transport->call(client->transport, &rpc->call, &rpc->request);
}

void el_rpc_start(el_client *client, el_rpc *rpc)
{
    rpc->client = client;
    rpc->attempts = rpc->vain_waits = rpc->refused_tokens = 0;
    rpc->maybe_applied = rpc->is_stopped = false;
    rpc->reason = NULL;
    rpc->is_under_way = true;
    el_list_append(&client->rpcs, &rpc->link);
    rpc->pause.fire = pause_over;
    attempt(rpc);
}

void el_rpc_stop(el_rpc *rpc)
{
    if (!rpc->is_under_way || rpc->is_stopped) return;
    rpc->is_stopped = true;
    if (rpc->is_calling) {
        rpc->client->transport->cancel(rpc->client->transport, &rpc->call);
        return;
    }
    el_list_remove(&rpc->waiter.link);
    el_client_timer_set(rpc->client, EL_LANE_IO, &rpc->pause, el_now(rpc->client));
}

void el_rpc_stop_all(el_client *client)
{
    for (el_list *link = client->rpcs.next; link != &client->rpcs; link = link->next)
        el_rpc_stop(EL_CONTAINER(link, el_rpc, link));
}
