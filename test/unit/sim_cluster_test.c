/* The simulated etcd as a cluster: members, leases, faults and watches, seen by a client that is stepped. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/runner.h"
#include "support/sim.h"
#include "support/sim_memory.h"

#define KEY(text) ((el_span){text, sizeof(text) - 1})
#define NONE      ((el_span){"", 0})

static el_op put_op(el_span key, const char *value, int64_t lease)
{
    return (el_op){.kind = EL_OP_PUT, .put = {.key = key, .value = sim_text(value), .lease = lease}};
}

static el_op delete_op(el_span key, el_span range_end)
{
    return (el_op){.kind = EL_OP_DELETE, .del = {.key = key, .range_end = range_end}};
}

static el_op nested_op(const el_txn_request *txn)
{
    return (el_op){.kind = EL_OP_TXN, .txn = txn};
}

typedef struct seen {
    bool done;
    el_code code;
    bool not_sent;
    int64_t revision, ttl_s, count;
    bool succeeded;
} seen;

typedef struct asked {
    el_call call;
    seen seen;
} asked;

static el_span token, last_token; /* to send with calls; the newest that was given */

static void note(el_call *call, const el_status *status, const el_answer *answer)
{
    asked *a = (asked *)call;
    a->seen = (seen){.done = true, .code = status->code, .not_sent = status->not_sent};
    if (!answer) return;
    a->seen.revision = answer->revision;
    if (answer->verb == EL_AUTHENTICATE) last_token = sim_span_dup(answer->token);
    if (answer->verb == EL_RANGE) a->seen.count = answer->range.count;
    if (answer->verb == EL_TXN) a->seen.succeeded = answer->txn.succeeded;
    if (answer->verb == EL_LEASE_GRANT || answer->verb == EL_LEASE_KEEPALIVE ||
        answer->verb == EL_LEASE_TIME_TO_LIVE)
        a->seen.ttl_s = answer->lease.ttl_s;
}

static void drain(el_transport *t)
{
    for (int lane = 0; lane < EL_LANES; lane++) {
        bool ended;
        el_completion *completion;
        while ((completion = t->next(t, (el_lane)lane, 0, &ended)))
            t->deliver(t, completion);
    }
}

static void run_until(sim *s, el_transport *t, int64_t at_ns)
{
    sim_wake_at(t, EL_LANE_IO, at_ns);
    while (sim_now(s) < at_ns && sim_step(s))
        drain(t);
}

static void start(el_transport *t, asked *a, unsigned endpoint, const el_request *request)
{
    *a = (asked){.call = {.lane = EL_LANE_IO, .endpoint = endpoint, .token = token, .done = note}};
    a->call.deadline_ns = t->now_ns(t) + 20 * SIM_S;
    t->call(t, &a->call, request);
}

static seen ask(sim *s, el_transport *t, unsigned endpoint, const el_request *request)
{
    asked a;
    start(t, &a, endpoint, request);
    drain(t);
    while (!a.seen.done && sim_step(s))
        drain(t);
    ck_assert(a.seen.done);
    return a.seen;
}

static el_request lease_request(el_verb verb, int64_t id, int64_t ttl_s)
{
    return (el_request){.verb = verb, .lease = {.id = id, .ttl_s = ttl_s}};
}

static el_request put_request(const el_op *op)
{
    return (el_request){.verb = EL_TXN, .txn = {.success = op, .n_success = 1}};
}

static el_request read_request(bool serializable)
{
    return (el_request){.verb = EL_RANGE, .range = {.key = KEY("k"), .serializable = serializable}};
}

static void end(sim *s, el_transport *t)
{
    t->shutdown(t);
    drain(t);
    for (int lane = 0; lane < EL_LANES; lane++) {
        bool ended;
        ck_assert_ptr_null(t->next(t, (el_lane)lane, 0, &ended));
        ck_assert(ended);
    }
    t->free(t);
    sim_free(s);
}

/* Leases: the least TTL, ids in use, expiry with its keys, and life after death. */
START_TEST(lease_lives_by_the_virtual_clock)
{
    sim *s = sim_new(NULL);
    el_transport *t = sim_client_new(s);
    el_request grant = lease_request(EL_LEASE_GRANT, -5, 1), renew = lease_request(EL_LEASE_KEEPALIVE, -5, 0);
    el_request look = lease_request(EL_LEASE_TIME_TO_LIVE, -5, 0);
    el_request revoke = lease_request(EL_LEASE_REVOKE, -5, 0);
    ck_assert_int_eq(ask(s, t, 0, &grant).ttl_s, 2);
    ck_assert_int_eq(ask(s, t, 0, &grant).code, EL_FAILED_PRECONDITION);
    sim_put_key(s, "k", "v", -5);
    run_until(s, t, sim_now(s) + 1900 * SIM_MS);
    ck_assert_int_eq(ask(s, t, 0, &renew).ttl_s, 2);
    run_until(s, t, sim_now(s) + 1900 * SIM_MS);
    ck_assert(sim_lease_alive(s, -5));
    int64_t before = sim_revision(s);
    run_until(s, t, sim_now(s) + SIM_S);
    ck_assert(!sim_lease_alive(s, -5));
    ck_assert_uint_eq(sim_keys(s, "k", NULL, 0), 0);
    ck_assert_int_eq(sim_revision(s), before + 1);
    seen dead = ask(s, t, 0, &renew);
    ck_assert(dead.code == EL_OK && dead.ttl_s == 0);
    ck_assert_int_eq(ask(s, t, 0, &look).ttl_s, -1);
    ck_assert_int_eq(ask(s, t, 0, &revoke).code, EL_NOT_FOUND);
    end(s, t);
}
END_TEST

/* A single member that stands still kills an overdue lease on waking; one that restarts renews it. */
START_TEST(pause_kills_and_restart_renews_leases)
{
    sim *s = sim_new(NULL);
    el_transport *t = sim_client_new(s);
    sim_grant_lease(s, 1, 6);
    sim_grant_lease(s, 2, 30);
    sim_pause(s, 0);
    run_until(s, t, sim_now(s) + 12 * SIM_S);
    ck_assert(sim_lease_alive(s, 1));
    sim_resume(s, 0);
    run_until(s, t, sim_now(s) + SIM_MS);
    ck_assert(!sim_lease_alive(s, 1));
    sim_kill(s, 0);
    sim_restart(s, 0);
    run_until(s, t, sim_now(s) + 3 * SIM_S);
    ck_assert_int_gt(sim_lease_left_ns(s, 2), 27 * SIM_S);
    end(s, t);
}
END_TEST

/* A request to a paused member is carried out when that goes on, though nobody waits for it any more. */
START_TEST(paused_member_serves_ghosts)
{
    sim *s = sim_new(NULL);
    el_transport *t = sim_client_new(s);
    el_op op = put_op(KEY("k"), "v", 0);
    el_request request = put_request(&op);
    sim_pause(s, 0);
    ck_assert_int_eq(ask(s, t, 0, &request).code, EL_DEADLINE_EXCEEDED);
    ck_assert_uint_eq(sim_requests_left(s), 1);
    sim_resume(s, 0);
    run_until(s, t, sim_now(s) + SIM_S);
    ck_assert_uint_eq(sim_keys(s, "k", NULL, 0), 1);
    ck_assert_uint_eq(sim_requests_left(s), 0);
    end(s, t);
}
END_TEST

/* An isolated follower: linearizable calls end after 7 s, serializable ones are stale, then "no leader". */
START_TEST(isolated_member_is_stale_then_leaderless)
{
    sim *s = sim_new(&(sim_options){.seed = 3, .members = 3});
    el_transport *t = sim_client_new(s);
    unsigned leader = (unsigned)sim_leader(s), follower = (leader + 1) % 3;
    el_request stale = read_request(true), linear = read_request(false);
    sim_isolate(s, follower, true);
    sim_put_key(s, "k", "v", 0);
    ck_assert_int_eq(ask(s, t, follower, &stale).count, 0);
    ck_assert_int_eq(ask(s, t, leader, &linear).count, 1);
    int64_t start_ns = sim_now(s);
    ck_assert_int_eq(ask(s, t, follower, &linear).code, EL_UNAVAILABLE);
    ck_assert_int_ge(sim_now(s) - start_ns, 7 * SIM_S);
    ck_assert_int_eq(ask(s, t, follower, &stale).code, EL_UNAVAILABLE);
    sim_heal(s);
    ck_assert_int_eq(ask(s, t, follower, &linear).count, 1);
    end(s, t);
}
END_TEST

/* A dead member refuses connections; another leader is elected within about 2 s. */
START_TEST(dead_leader_is_replaced)
{
    sim *s = sim_new(&(sim_options){.seed = 4, .members = 3});
    el_transport *t = sim_client_new(s);
    unsigned old = (unsigned)sim_leader(s);
    el_request linear = read_request(false);
    sim_kill(s, old);
    seen refused = ask(s, t, old, &linear);
    ck_assert(refused.code == EL_UNAVAILABLE && refused.not_sent);
    ck_assert_int_eq(ask(s, t, (old + 1) % 3, &linear).code, EL_OK);
    ck_assert_int_ne(sim_leader(s), (int)old);
    ck_assert_int_ge(sim_leader(s), 0);
    end(s, t);
}
END_TEST

/* The countdown spoils one call, which has or has not been served as asked for. */
START_TEST(nth_call_fails)
{
    sim *s = sim_new(NULL);
    el_transport *t = sim_client_new(s);
    el_op op = put_op(KEY("k"), "v", 0);
    el_request request = put_request(&op);
    sim_fail_call_after(t, 1, EL_UNAVAILABLE, true);
    ck_assert_int_eq(ask(s, t, 0, &request).code, EL_OK);
    ck_assert_int_eq(ask(s, t, 0, &request).code, EL_UNAVAILABLE);
    ck_assert_int_eq(sim_revision(s), 3);
    sim_fail_call_after(t, 0, EL_INTERNAL, false);
    ck_assert_int_eq(ask(s, t, 0, &request).code, EL_INTERNAL);
    ck_assert_int_eq(sim_revision(s), 3);
    ck_assert_int_eq(ask(s, t, 0, &request).code, EL_OK);
    ck_assert_int_eq(sim_calls_made(t), 4);
    end(s, t);
}
END_TEST

/* The space alarm lets through what does not grow, and, as in etcd, puts that are nested. */
START_TEST(no_space_refuses_puts_and_grants)
{
    sim *s = sim_new(NULL);
    el_transport *t = sim_client_new(s);
    el_op op = put_op(KEY("k"), "v", 0), gone = delete_op(KEY("k"), NONE);
    el_request request = put_request(&op), del = put_request(&gone);
    el_request grant = lease_request(EL_LEASE_GRANT, 9, 10);
    el_op nested = nested_op(&request.txn);
    el_request outer = put_request(&nested);
    sim_set_nospace(s, true);
    ck_assert_int_eq(ask(s, t, 0, &request).code, EL_RESOURCE_EXHAUSTED);
    ck_assert_int_eq(ask(s, t, 0, &grant).code, EL_RESOURCE_EXHAUSTED);
    ck_assert_int_eq(ask(s, t, 0, &outer).code, EL_OK);
    ck_assert_int_eq(ask(s, t, 0, &del).code, EL_OK);
    end(s, t);
}
END_TEST

/* Tokens: needed for keys, not for leases, and good for as long as the server thinks. */
START_TEST(auth_wants_a_token)
{
    sim *s = sim_new(NULL);
    el_transport *t = sim_client_new(s);
    el_request read = read_request(true), grant = lease_request(EL_LEASE_GRANT, 1, 10);
    el_request login = {.verb = EL_AUTHENTICATE, .authenticate = {.user = KEY("u"), .password = KEY("p")}};
    ck_assert_int_eq(ask(s, t, 0, &login).code, EL_FAILED_PRECONDITION);
    sim_set_auth(s, "u", "p");
    ck_assert_int_eq(ask(s, t, 0, &read).code, EL_INVALID_ARGUMENT);
    ck_assert_int_eq(ask(s, t, 0, &grant).code, EL_OK);
    ck_assert_int_eq(ask(s, t, 0, &login).code, EL_OK);
    token = last_token;
    ck_assert_int_eq(ask(s, t, 0, &read).code, EL_OK);
    sim_expire_tokens(s);
    ck_assert_int_eq(ask(s, t, 0, &read).code, EL_UNAUTHENTICATED);
    grant.lease.id = 2;
    ck_assert_int_eq(ask(s, t, 0, &grant).code, EL_UNAUTHENTICATED);
    end(s, t);
    token = NONE;
    sim_span_free(last_token);
}
END_TEST

/* A learner answers nothing but serializable reads and its status, and has no vote. */
START_TEST(learner_refuses)
{
    sim *s = sim_new(&(sim_options){.seed = 6, .members = 3});
    el_transport *t = sim_client_new(s);
    unsigned leader = (unsigned)sim_leader(s), learner = (leader + 1) % 3;
    el_request stale = read_request(true), linear = read_request(false);
    sim_set_learner(s, learner, true);
    ck_assert_int_eq(ask(s, t, learner, &stale).code, EL_OK);
    ck_assert_int_eq(ask(s, t, learner, &linear).code, EL_UNAVAILABLE);
    sim_kill(s, leader);
    run_until(s, t, sim_now(s) + 5 * SIM_S);
    ck_assert_int_eq(sim_leader(s), -1);
    end(s, t);
}
END_TEST

/* What was sent before a freeze is answered after it; a lost link loses, a reset breaks at once. */
START_TEST(links_and_freezes)
{
    sim *s = sim_new(NULL);
    el_transport *t = sim_client_new(s);
    el_op op = put_op(KEY("k"), "v", 0);
    el_request request = put_request(&op);
    asked a;
    start(t, &a, 0, &request);
    sim_freeze(t, sim_now(s) + 5 * SIM_S);
    run_until(s, t, sim_now(s) + 4 * SIM_S);
    ck_assert(sim_frozen(t) && !a.seen.done);
    run_until(s, t, sim_now(s) + 1001 * SIM_MS);
    ck_assert(a.seen.done && a.seen.code == EL_OK);
    sim_set_link(t, 0, &(sim_link){.no_answers = true});
    ck_assert_int_eq(ask(s, t, 0, &request).code, EL_DEADLINE_EXCEEDED);
    ck_assert_int_eq(sim_revision(s), 3);
    sim_set_link(t, 0, &(sim_link){.no_requests = true});
    start(t, &a, 0, &request);
    sim_reset(t, 0);
    drain(t);
    ck_assert(a.seen.done && a.seen.code == EL_UNAVAILABLE && !a.seen.not_sent);
    run_until(s, t, sim_now(s) + SIM_S);
    ck_assert_int_eq(sim_revision(s), 3);
    end(s, t);
}
END_TEST

/* ---- watches ------------------------------------------------------------------------------------------ */

typedef struct watched {
    el_watch_stream stream;
    char log[512]; /* one letter and number per thing seen */
    el_code closed;
} watched;

static void note_message(el_watch_stream *stream, const el_watch_message *message)
{
    watched *w = (watched *)stream;
    size_t n = strlen(w->log);
    if (message->created)
        n += (size_t)snprintf(w->log + n, sizeof w->log - n, "c%d@%d ", (int)message->watch_id,
                              (int)message->revision);
    if (message->canceled)
        n += (size_t)snprintf(w->log + n, sizeof w->log - n, "x%d/%d ", (int)message->watch_id,
                              (int)message->compact_revision);
    for (size_t i = 0; i < message->n_events; i++)
        n += (size_t)snprintf(w->log + n, sizeof w->log - n, "%c%d ", message->events[i].deleted ? 'd' : 'p',
                              (int)message->events[i].kv.mod_revision);
}

static void note_closed(el_watch_stream *stream, const el_status *status)
{
    ((watched *)stream)->closed = status->code;
}

static void open_watch(el_transport *t, watched *w, unsigned endpoint)
{
    *w = (watched){.stream = {.endpoint = endpoint, .message = note_message, .closed = note_closed}};
    w->closed = EL_OK;
    t->watch_open(t, &w->stream);
}

/* A watch from now on is told of writes at once, one from the past at the next tick, one compacted never. */
START_TEST(watches_from_now_and_from_the_past)
{
    sim *s = sim_new(NULL);
    el_transport *t = sim_client_new(s);
    watched w;
    open_watch(t, &w, 0);
    sim_put_key(s, "k", "1", 0);
    run_until(s, t, sim_now(s) + 10 * SIM_MS);
    t->watch_create(t, &w.stream, 1, KEY("k"), 0, false);
    run_until(s, t, sim_now(s) + 2 * SIM_MS);
    sim_put_key(s, "k", "2", 0);
    sim_delete_key(s, "k");
    run_until(s, t, sim_now(s) + 2 * SIM_MS);
    ck_assert_str_eq(w.log, "c1@2 p3 d4 ");
    w.log[0] = '\0';
    t->watch_create(t, &w.stream, 2, KEY("k"), 3, false);
    run_until(s, t, sim_now(s) + SIM_MS);
    ck_assert_str_eq(w.log, "c2@4 ");
    run_until(s, t, sim_now(s) + 101 * SIM_MS);
    ck_assert_str_eq(w.log, "c2@4 p3 d4 ");
    w.log[0] = '\0';
    sim_compact(s, 4);
    t->watch_create(t, &w.stream, 3, KEY("k"), 3, false);
    t->watch_cancel(t, &w.stream, 1);
    run_until(s, t, sim_now(s) + 102 * SIM_MS);
    ck_assert_str_eq(w.log, "c3@4 x1/0 x3/4 ");
    ck_assert_uint_eq(sim_watches_open(s), 1);
    end(s, t);
}
END_TEST

/* A member without a leader ends its streams after some 4 s, a dead one at once. */
START_TEST(streams_end_with_their_member)
{
    sim *s = sim_new(&(sim_options){.seed = 5, .members = 3});
    el_transport *t = sim_client_new(s);
    unsigned leader = (unsigned)sim_leader(s), follower = (leader + 1) % 3;
    watched lonely, orphan;
    open_watch(t, &lonely, follower);
    open_watch(t, &orphan, leader);
    t->watch_create(t, &lonely.stream, 1, KEY("k"), 0, false);
    t->watch_create(t, &orphan.stream, 1, KEY("k"), 0, false);
    run_until(s, t, sim_now(s) + 10 * SIM_MS);
    ck_assert_uint_eq(sim_watches_open(s), 2);
    sim_isolate(s, follower, true);
    run_until(s, t, sim_now(s) + 3900 * SIM_MS);
    ck_assert_int_eq(lonely.closed, EL_OK);
    run_until(s, t, sim_now(s) + 1200 * SIM_MS);
    ck_assert_int_eq(lonely.closed, EL_UNAVAILABLE);
    sim_kill(s, leader);
    run_until(s, t, sim_now(s) + SIM_MS);
    ck_assert_int_eq(orphan.closed, EL_UNAVAILABLE);
    ck_assert_uint_eq(sim_watches_open(s), 0);
    end(s, t);
}
END_TEST

/* In real time `next` waits: for an answer, for a wake, for its deadline, or for the end. */
START_TEST(realtime_next_blocks)
{
    sim *s = sim_new(&(sim_options){.seed = 8, .realtime = true, .speed = 1});
    el_transport *t = sim_client_new(s);
    el_op op = put_op(KEY("k"), "v", 0);
    el_request request = put_request(&op);
    bool ended;
    asked a;
    start(t, &a, 0, &request);
    el_completion *completion = t->next(t, EL_LANE_IO, INT64_MAX, &ended);
    ck_assert_ptr_nonnull(completion);
    t->deliver(t, completion);
    ck_assert(a.seen.done && a.seen.code == EL_OK);
    t->wake(t, EL_LANE_IO);
    ck_assert_ptr_null(t->next(t, EL_LANE_IO, INT64_MAX, &ended));
    int64_t until_ns = t->now_ns(t) + SIM_S / 10;
    ck_assert_ptr_null(t->next(t, EL_LANE_IO, until_ns, &ended));
    ck_assert_int_ge(t->now_ns(t), until_ns);
    sim_pause(s, 0);
    start(t, &a, 0, &request);
    t->cancel(t, &a.call);
    t->deliver(t, t->next(t, EL_LANE_IO, INT64_MAX, &ended));
    ck_assert(a.seen.done && a.seen.code == EL_CANCELLED && !ended);
    end(s, t);
}
END_TEST

static Suite *suite(void)
{
    Suite *all = suite_create("sim_cluster");
    TCase *cases = tcase_create("sim_cluster");
    tcase_add_test(cases, lease_lives_by_the_virtual_clock);
    tcase_add_test(cases, pause_kills_and_restart_renews_leases);
    tcase_add_test(cases, paused_member_serves_ghosts);
    tcase_add_test(cases, isolated_member_is_stale_then_leaderless);
    tcase_add_test(cases, dead_leader_is_replaced);
    tcase_add_test(cases, nth_call_fails);
    tcase_add_test(cases, no_space_refuses_puts_and_grants);
    tcase_add_test(cases, auth_wants_a_token);
    tcase_add_test(cases, learner_refuses);
    tcase_add_test(cases, links_and_freezes);
    tcase_add_test(cases, watches_from_now_and_from_the_past);
    tcase_add_test(cases, streams_end_with_their_member);
    tcase_add_test(cases, realtime_next_blocks);
    suite_add_tcase(all, cases);
    return all;
}

int main(void)
{
    return runner_run(suite());
}
