/* Renewals that are not answered, or late: from when a lease is counted, and who learns first that it is
 * over. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/holder.h"
#include "support/loss.h"
#include "support/proxy.h"

enum { TTL_S = 4, HOLDERS = 8, PATIENCE_MS = 40000 };

/* Holders by way of the proxy, their renewals spread over a period, and for each one who waits directly. */
typedef struct stage {
    proxy way;
    char history_path[40];
    oracle history;
    char names[HOLDERS][64];
    party parties[HOLDERS], others[HOLDERS];
    holder holders[HOLDERS], heirs[HOLDERS];
} stage;

static stage s;

static party open_by_proxy(const char *name, int64_t ttl_s, int64_t timeout_ms)
{
    party p;
    etcdlock_client_options options = live_options();
    options.endpoints = proxy_endpoint(&s.way);
    options.dial_timeout_ms = options.command_timeout_ms = timeout_ms;
    ck_assert_int_eq(etcdlock_client_open(&p.client, &options), 0);
    p.session = party_session(&p, ttl_s);
    p.mutex = party_mutex(&p, name, 0);
    return p;
}

static void start(void)
{
    s = (stage){.history_path = "/tmp/unanswered-XXXXXX"};
    proxy_start(&s.way, live_endpoint(0));
    close(mkstemp(s.history_path));
    oracle_open(&s.history, s.history_path);
    for (int i = 0; i < HOLDERS; i++) {
        snprintf(s.names[i], sizeof s.names[i], "%s%d", live_prefix(), i);
        s.parties[i] = open_by_proxy(s.names[i], TTL_S, 0);
        s.others[i] = party_open(s.names[i], 30);
        holder_start(&s.holders[i], s.parties[i].mutex, s.names[i], &s.history);
        ck_assert(holder_is_in(&s.holders[i], PATIENCE_MS));
        holder_start(&s.heirs[i], s.others[i].mutex, s.names[i], &s.history);
        party_await_queue(&s.others[i], s.names[i], 2);
        poll(NULL, 0, TTL_S * 1000 / 3 / HOLDERS);
    }
}

/* Every holder is told, without any answer from etcd, before the next one is in. */
static void await_losses(void)
{
    int64_t least_ms = INT64_MAX, most_ms = INT64_MIN;
    for (int i = 0; i < HOLDERS; i++) {
        ck_assert(holder_is_lost(&s.holders[i], PATIENCE_MS));
        ck_assert_int_eq(s.holders[i].loss, ETCDLOCK_ESESSION);
        ck_assert(holder_is_in(&s.heirs[i], PATIENCE_MS));
        int64_t margin_ms = s.heirs[i].entered_ms - s.holders[i].lost_ms;
        ck_assert_msg(margin_ms > 0, "holder %d was told %lld ms after the next one was in", i,
                      (long long)-margin_ms);
        if (margin_ms < least_ms) least_ms = margin_ms;
        if (margin_ms > most_ms) most_ms = margin_ms;
    }
    printf("told %lld to %lld ms before the next one was in\n", (long long)least_ms, (long long)most_ms);
}

static void end(void)
{
    oracle_verdict verdict;
    proxy_pass(&s.way);
    for (int i = 0; i < HOLDERS; i++) {
        ck_assert_int_eq(holder_end(&s.heirs[i]), 0);
        ck_assert_int_eq(holder_end(&s.holders[i]), ETCDLOCK_ESESSION);
        party_close_lost(&s.parties[i]);
        party_close(&s.others[i]);
    }
    proxy_stop(&s.way);
    bool good = oracle_judge(s.history_path, &verdict);
    oracle_close(&s.history);
    unlink(s.history_path);
    ck_assert_msg(good, "%s", verdict.breach);
    ck_assert_uint_eq(verdict.losses, HOLDERS);
}

/* Behind a silent network, in one direction or both, a holder flips to lost by its own clock alone, before
 * the next one is let in (B11). */
START_TEST(network_falls_silent)
{
    start();
    proxy_blackhole(&s.way, _i);
    await_losses();
    end();
}
END_TEST

/* So it does where answers have been late all the time: it counts from when it asked (B12). */
START_TEST(answers_are_late)
{
    start();
    proxy_delay(&s.way, PROXY_TO_CLIENT, 1000);
    poll(NULL, 0, TTL_S * 1000 + 2000);
    for (int i = 0; i < HOLDERS; i++)
        ck_assert_int_eq(s.holders[i].loss, 0);
    proxy_blackhole(&s.way, PROXY_BOTH);
    await_losses();
    end();
}
END_TEST

/* And where they come too late to be waited for (B12). */
START_TEST(answers_are_too_late)
{
    start();
    proxy_delay(&s.way, PROXY_TO_CLIENT, 2000);
    poll(NULL, 0, TTL_S * 1000);
    proxy_blackhole(&s.way, PROXY_BOTH);
    await_losses();
    end();
}
END_TEST

/* A lease whose grant is answered after its own time to live is not used (B12). */
START_TEST(grant_is_answered_too_late)
{
    etcdlock_session_options options = ETCDLOCK_SESSION_OPTIONS_INIT;
    s = (stage){0};
    proxy_start(&s.way, live_endpoint(0));
    party p = open_by_proxy(live_name("a"), 60, 20000);
    etcdlock_session *session = p.session;
    options.ttl_s = TTL_S;
    proxy_delay(&s.way, PROXY_TO_CLIENT, 6000);
    int error = etcdlock_session_open(&session, p.client, &options);
    ck_assert_msg(error == ETCDLOCK_EUNREACHABLE || error == ETCDLOCK_EUNKNOWN, "%d", error);
    ck_assert_ptr_null(session);
    proxy_pass(&s.way);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    proxy_stop(&s.way);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("unanswered_renewal", &cases, 90);
    tcase_add_loop_test(cases, network_falls_silent, PROXY_TO_SERVER, PROXY_BOTH + 1);
    tcase_add_test(cases, answers_are_late);
    tcase_add_test(cases, answers_are_too_late);
    tcase_add_test(cases, grant_is_answered_too_late);
    return live_run(suite);
}
