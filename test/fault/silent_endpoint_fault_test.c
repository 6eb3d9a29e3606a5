/* One endpoint of three takes what it is given and never answers: it must not capture the client. */
/* cluster: 3 netns */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/proxy.h"
#include "support/through.h"

enum { LIMIT_MS = 5000, TTL_S = 6 };

static proxy px;

/* After a case that failed, too. */
static void mend(void)
{
    live_cluster("resume 1 >/dev/null 2>&1 || true");
    live_cluster("heal 1 >/dev/null 2>&1 || true");
}

/* etcdctl asks the two that stay well. */
static void begin(void)
{
    static char others[256];
    snprintf(others, sizeof others, "%s,%s", live_endpoint(1), live_endpoint(2));
    etcdctl_use(others);
    proxy_start(&px, live_endpoint(0));
}

static void finish(void)
{
    proxy_stop(&px);
    etcdctl_use(NULL);
}

static void stop_process(void)
{
    live_cluster("pause 1");
}

static void ignore_connects(void)
{
    proxy_ignore_new(&px);
    proxy_blackhole(&px, PROXY_BOTH);
}

static void never_speak(void)
{
    proxy_blackhole(&px, PROXY_BOTH);
}

static void isolate(void)
{
    live_cluster("isolate 1");
}

static const struct {
    void (*begin)(void);
    const char *end; /* a command of the cluster, or NULL */
} faults[] = {
    {stop_process, "resume 1"},
    {ignore_connects, NULL},
    {never_speak, NULL},
    {isolate, "heal 1"},
};

enum { FAULTS = sizeof faults / sizeof faults[0], PARTIES = 3 };

static bool is_no_lease_left(void *arg)
{
    (void)arg;
    return etcdctl_count_leases() == 0;
}

/* A grant that the silent member had in hand it carries out now, though its session has been closed long
 * since: nobody renews that lease. */
static void end_fault(int i)
{
    if (faults[i].end) live_cluster(faults[i].end);
    proxy_pass(&px);
    live_await_health();
    ck_assert(live_wait_until(is_no_lease_left, NULL, (TTL_S + 4) * 1000));
}

/* The bad one is the first of its endpoints. */
static const char *endpoints(void)
{
    static char all[256];
    snprintf(all, sizeof all, "%s,%s,%s", proxy_endpoint(&px), live_endpoint(1), live_endpoint(2));
    return all;
}

/* (B33) A client that is made while the endpoint is silent, whichever it happens to ask first: its session is
 * there in five seconds, and so is each lock. */
START_TEST(fresh_client)
{
    const char *name = live_name("a");
    faults[_i].begin();
    for (int round = 0; round < PARTIES; round++) {
        int64_t began_ms = live_now_ms();
        party p = party_through(endpoints(), name, TTL_S, 0);
        live_within(began_ms, LIMIT_MS);
        for (int i = 0; i < 2; i++) {
            began_ms = live_now_ms();
            ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
            live_within(began_ms, LIMIT_MS);
            ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
        }
        party_close(&p);
    }
    end_fault(_i);
}
END_TEST

/* (B33) Clients that have their connections when the endpoint falls silent, one of them a holder, one
 * waiting: each lock call takes five seconds at most, nothing is lost, and afterwards the silent one is asked
 * no more. */
START_TEST(existing_connections)
{
    const char *name = live_name("a"), *fresh = live_name("b");
    party parties[PARTIES], other = party_through(endpoints(), name, TTL_S, 0);
    caller waiter;
    for (int i = 0; i < PARTIES; i++) {
        parties[i] = party_through(endpoints(), fresh, TTL_S, 0);
        ck_assert_int_eq(etcdlock_mutex_lock(parties[i].mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_unlock(parties[i].mutex), 0);
    }
    etcdlock_mutex *held = party_mutex(&parties[0], name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(held), 0);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&other, name, 2);
    faults[_i].begin();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < PARTIES; i++) {
            int64_t began_ms = live_now_ms();
            ck_assert_int_eq(etcdlock_mutex_lock(parties[i].mutex), 0);
            live_within(began_ms, round ? 1000 : LIMIT_MS);
            ck_assert_int_eq(etcdlock_mutex_unlock(parties[i].mutex), 0);
        }
    }
    ck_assert_int_eq(etcdlock_mutex_ensure(held, 2000), 0);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_unlock(held), 0);
    ck_assert_int_eq(caller_result(&waiter, 10000), 0);
    live_within(began_ms, LIMIT_MS);
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(held), 0);
    for (int i = 0; i < PARTIES; i++)
        party_close(&parties[i]);
    party_close(&other);
    end_fault(_i);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("silent_endpoint", &cases, 60);
    tcase_add_checked_fixture(cases, begin, finish);
    tcase_add_unchecked_fixture(cases, NULL, mend);
    tcase_add_loop_test(cases, fresh_client, 0, FAULTS);
    tcase_add_loop_test(cases, existing_connections, 0, FAULTS);
    return live_run(suite);
}
