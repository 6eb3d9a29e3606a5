/* Connections and streams that end in good order, with a status that is no error: renewals, waits and calls
 * go on at once, elsewhere or over a new connection. */
/* cluster: 3 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/proxy.h"
#include "support/through.h"

enum { SESSIONS = 3, TTL_S = 3 };

static proxy px;

static void begin(void)
{
    proxy_start(&px, live_endpoint(0));
}

static void finish(void)
{
    proxy_stop(&px);
}

/* After a case that failed, too. */
static void mend(void)
{
    char line[60];
    for (int member = 1; member <= 3; member++) {
        snprintf(line, sizeof line, "restart %d >/dev/null 2>&1 || true", member);
        live_cluster(line);
    }
}

/* A client with several sessions, each of which tells of its changes of state. */
typedef struct crowd {
    etcdlock_client *client;
    etcdlock_session *sessions[SESSIONS];
    atomic_int suspensions, losses;
    int64_t least_ms; /* of the time left that was ever seen, of all but the revoked one */
} crowd;

static void note_state(etcdlock_session *session, etcdlock_session_state state, void *arg)
{
    crowd *c = arg;
    (void)session;
    if (state == ETCDLOCK_SESSION_SUSPENDED) c->suspensions++;
    if (state == ETCDLOCK_SESSION_LOST) c->losses++;
}

static void crowd_open(crowd *c, const char *endpoints)
{
    etcdlock_client_options options = live_options();
    etcdlock_session_options session_options = ETCDLOCK_SESSION_OPTIONS_INIT;
    options.endpoints = endpoints;
    session_options.ttl_s = TTL_S;
    session_options.on_state = note_state;
    session_options.on_state_arg = c;
    ck_assert_int_eq(etcdlock_client_open(&c->client, &options), 0);
    for (int i = 0; i < SESSIONS; i++)
        ck_assert_int_eq(etcdlock_session_open(&c->sessions[i], c->client, &session_options), 0);
    c->least_ms = etcdlock_session_remaining_ms(c->sessions[0]);
}

static void crowd_close(crowd *c)
{
    for (int i = 0; i < SESSIONS; i++) {
        if (c->sessions[i]) ck_assert_int_eq(etcdlock_session_close(c->sessions[i]), 0);
    }
    ck_assert_int_eq(etcdlock_client_close(c->client), 0);
}

/* For so long the sessions from this one on are looked at all the time. */
static void crowd_observe(crowd *c, int first, int64_t ms)
{
    int64_t until_ms = live_now_ms() + ms;
    while (live_now_ms() < until_ms) {
        for (int i = first; i < SESSIONS; i++) {
            int64_t left_ms = etcdlock_session_remaining_ms(c->sessions[i]);
            if (left_ms < c->least_ms) c->least_ms = left_ms;
        }
        poll(NULL, 0, 10);
    }
}

/* A renewal that was never missed: it is sent after a third, and at half of the time to live overdue. */
static void crowd_expect_undisturbed(crowd *c)
{
    ck_assert_int_eq(c->suspensions, 0);
    ck_assert_msg(c->least_ms >= TTL_S * 1000 / 2 - 700, "once only %lld ms were left",
                  (long long)c->least_ms);
}

/* (B25) The only endpoint ends every connection in good order, four times a second: each renewal comes in
 * time all the same, and a lock changes hands. */
START_TEST(connections_closed)
{
    const char *name = live_name("a");
    crowd c = {0};
    party a = party_through(proxy_endpoint(&px), name, TTL_S, 0), b = party_open(name, 0);
    caller waiter;
    crowd_open(&c, proxy_endpoint(&px));
    ck_assert_int_eq(etcdlock_mutex_lock(b.mutex), 0);
    caller_start(&waiter, a.mutex, -1);
    party_await_queue(&b, name, 2);
    for (int i = 0; i < 28; i++) {
        proxy_close(&px);
        crowd_observe(&c, 0, 250);
    }
    crowd_expect_undisturbed(&c);
    ck_assert_int_eq(c.losses, 0);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_unlock(b.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, 5000), 0);
    live_within(began_ms, 1500);
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_eq(etcdlock_session_get_state(a.session), ETCDLOCK_SESSION_OK);
    crowd_close(&c);
    party_close(&a);
    party_close(&b);
}
END_TEST

/* (B25) One endpoint of two says FIN on every connection, old and new, and reads on: the other one is used,
 * and when it alone is there and does so for less than a renewal's time, nothing is missed either. */
START_TEST(half_closed)
{
    char endpoints[160];
    crowd c = {0}, alone = {0};
    snprintf(endpoints, sizeof endpoints, "%s,%s", proxy_endpoint(&px), live_endpoint(1));
    crowd_open(&c, endpoints);
    crowd_open(&alone, proxy_endpoint(&px));
    for (int i = 0; i < 3; i++) {
        proxy_half_close(&px);
        crowd_observe(&alone, 0, 300);
        crowd_observe(&c, 0, 10);
        proxy_pass(&px);
        crowd_observe(&alone, 0, 1700);
        crowd_observe(&c, 0, 10);
    }
    crowd_expect_undisturbed(&alone);
    crowd_close(&alone);
    proxy_half_close(&px);
    crowd_observe(&c, 0, 5000);
    crowd_expect_undisturbed(&c);
    proxy_pass(&px);
    crowd_close(&c);
}
END_TEST

/* (B25) Each member in turn is ended gracefully, which tells its clients to go away, and comes back: no
 * renewal is missed. */
START_TEST(member_terminated)
{
    crowd c = {0};
    char command[20], endpoints[256];
    crowd_open(&c, live_options().endpoints);
    for (int member = 1; member <= 3; member++) {
        snprintf(endpoints, sizeof endpoints, "%s,%s", live_endpoint(member % 3),
                 live_endpoint((member + 1) % 3));
        etcdctl_use(endpoints);
        snprintf(command, sizeof command, "pid %d", member);
        ck_assert_int_eq(kill(live_cluster_number(command), SIGTERM), 0);
        crowd_observe(&c, 0, 3000);
        snprintf(command, sizeof command, "restart %d", member);
        live_cluster(command);
        crowd_observe(&c, 0, 1000);
    }
    ck_assert_int_eq(c.losses, 0);
    crowd_expect_undisturbed(&c);
    etcdctl_use(NULL);
    crowd_close(&c);
}
END_TEST

/* (B25) One of three sessions of a client loses its lease: it alone ends, and the others are renewed as
 * before. */
START_TEST(one_of_three_revoked)
{
    crowd c = {0};
    crowd_open(&c, live_options().endpoints);
    ck_assert(etcdctl_revoke(etcdlock_session_lease(c.sessions[0])));
    ck_assert(live_readable(etcdlock_session_lost_fd(c.sessions[0]), 2000));
    crowd_observe(&c, 1, 3 * TTL_S * 1000);
    crowd_expect_undisturbed(&c);
    ck_assert_int_eq(c.losses, 1);
    ck_assert_int_eq(etcdlock_session_close(c.sessions[0]), ETCDLOCK_ESESSION);
    c.sessions[0] = NULL;
    crowd_close(&c);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("polite_end", &cases, 60);
    tcase_add_checked_fixture(cases, begin, finish);
    tcase_add_unchecked_fixture(cases, NULL, mend);
    tcase_add_test(cases, connections_closed);
    tcase_add_test(cases, half_closed);
    tcase_add_test(cases, member_terminated);
    tcase_add_test(cases, one_of_three_revoked);
    return live_run(suite);
}
