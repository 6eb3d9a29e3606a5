/* How often leases are renewed, and what a good answer is worth that comes after the loss is known. */
#include <poll.h>
#include <stdio.h>

#include "support/gateway.h"
#include "support/loss.h"
#include "support/proxy.h"

enum { SESSIONS = 1000, TTL_S = 15, WINDOW_MS = 20000, SLICE_MS = 100, STALE = 10 };

static const char *const renewed = "etcd_debugging_lease_renewed_total";

/* A thousand sessions that nobody asks anything are renewed at a third of their time to live, not more often,
 * and not all at once (B63). */
START_TEST(a_thousand_idle_sessions)
{
    static etcdlock_session *sessions[SESSIONS];
    party p = party_open(live_name("a"), 60);
    for (int i = 0; i < SESSIONS; i++)
        sessions[i] = party_session(&p, TTL_S);
    double first = gateway_metric(renewed), last = first, most = 0;
    int64_t began_ms = live_now_ms(), looked_ms = began_ms;
    while (looked_ms - began_ms < WINDOW_MS) {
        poll(NULL, 0, SLICE_MS);
        int64_t asked_ms = live_now_ms();
        double now = gateway_metric(renewed);
        /* Where the machine was busy with others the slice is longer, and holds more. */
        double in_slice = (now - last) * SLICE_MS / (double)(live_now_ms() - looked_ms);
        if (in_slice > most) most = in_slice;
        last = now;
        looked_ms = asked_ms;
    }
    double each = (last - first) / SESSIONS, took_s = (double)(live_now_ms() - began_ms) / 1000;
    printf("%.2f renewals per session in %.1f s, at most %.0f in a slice of %d ms\n", each, took_s, most,
           SLICE_MS);
    /* The jitter takes up to an eighth off the interval. */
    ck_assert_double_ge(each, took_s / (TTL_S / 3.0) - 1);
    ck_assert_double_le(each, took_s / (TTL_S / 3.0 * 7 / 8) + 1);
    ck_assert_double_le(most, SESSIONS * 0.6);
    for (int i = 0; i < SESSIONS; i++) {
        ck_assert_int_eq(etcdlock_session_get_state(sessions[i]), ETCDLOCK_SESSION_OK);
        ck_assert_int_eq(etcdlock_session_close(sessions[i]), 0);
    }
    party_close(&p);
}
END_TEST

static party open_by(const proxy *way, const char *name, int64_t ttl_s)
{
    party p;
    etcdlock_client_options options = live_options();
    options.endpoints = proxy_endpoint(way);
    ck_assert_int_eq(etcdlock_client_open(&p.client, &options), 0);
    p.session = party_session(&p, ttl_s);
    p.mutex = party_mutex(&p, name, ETCDLOCK_HANDLE_OWNED);
    return p;
}

/* Good answers that arrive after the deadline bring nothing back (B63). */
START_TEST(good_answers_after_the_deadline)
{
    proxy way;
    proxy_start(&way, live_endpoint(0));
    party p = open_by(&way, live_name("a"), 3);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    proxy_hold(&way, PROXY_TO_CLIENT);
    await_session_loss(p.session, 10000);
    proxy_pass(&way);
    for (int64_t until_ms = live_now_ms() + 3000; live_now_ms() < until_ms; poll(NULL, 0, 5)) {
        ck_assert_int_eq(etcdlock_session_get_state(p.session), ETCDLOCK_SESSION_LOST);
        ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), 0);
    }
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ETCDLOCK_ESESSION);
    party_close_lost(&p);
    proxy_stop(&way);
}
END_TEST

/* Good answers that are still on their way when the lease is revoked delay the news, and undo nothing (B63).
 */
START_TEST(good_answers_from_before_the_revoke)
{
    proxy way;
    etcdlock_session *sessions[STALE];
    etcdlock_mutex *mutexes[STALE];
    bool is_lost[STALE] = {false};
    int lost = 0;
    proxy_start(&way, live_endpoint(0));
    party p = open_by(&way, live_name("a"), 60);
    for (int i = 0; i < STALE; i++) {
        party q = {.client = p.client, .session = party_session(&p, 6)};
        char name[64];
        snprintf(name, sizeof name, "%s%d", live_prefix(), i);
        sessions[i] = q.session;
        mutexes[i] = party_mutex(&q, name, ETCDLOCK_HANDLE_OWNED);
        ck_assert_int_eq(etcdlock_mutex_lock(mutexes[i]), 0);
        poll(NULL, 0, 200); /* one after the other, so that some answer is always on its way */
    }
    proxy_delay(&way, PROXY_TO_CLIENT, 1000);
    poll(NULL, 0, 2000);
    for (int i = 0; i < STALE; i++)
        gateway_revoke(etcdlock_session_lease(sessions[i]));
    int64_t revoked_ms = live_now_ms();
    while (live_now_ms() - revoked_ms < 5000) {
        for (int i = 0; i < STALE; i++) {
            bool is_held = etcdlock_mutex_token(mutexes[i]) != 0;
            ck_assert_msg(!(is_held && is_lost[i]), "held again after the loss");
            if (!is_held && !is_lost[i]) {
                is_lost[i] = true;
                if (++lost == STALE) live_within(revoked_ms, 1500);
            }
        }
        poll(NULL, 0, 2);
    }
    ck_assert_int_eq(lost, STALE);
    proxy_pass(&way);
    for (int i = 0; i < STALE; i++) {
        await_session_loss(sessions[i], 0);
        assert_loss(etcdlock_mutex_unlock(mutexes[i]));
        ck_assert_int_eq(etcdlock_mutex_destroy(mutexes[i]), 0);
        session_close_lost(sessions[i]);
    }
    party_close(&p);
    proxy_stop(&way);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("renewal_rate", &cases, 90);
    tcase_add_test(cases, a_thousand_idle_sessions);
    tcase_add_test(cases, good_answers_after_the_deadline);
    tcase_add_test(cases, good_answers_from_before_the_revoke);
    return live_run(suite);
}
