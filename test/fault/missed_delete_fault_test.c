/* A departure that falls into the gap between reading the queue and watching it: nobody may miss it. */
#include <poll.h>
#include <stdio.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/gateway.h"
#include "support/live.h"
#include "support/proxy.h"

/* Sent to and fro so slowly, the steps of a waiter (enter, watch, read, confirm) lie far apart. */
enum { DELAY_MS = 300, STEP_MS = 50, STEPS = 30, CYCLES = 5000 };

/* How long a waiter may stand still beyond the time that its messages take. */
enum { STALL_MS = 1000 };

static party open_through(const proxy *p, const char *name)
{
    party made;
    etcdlock_client_options options = live_options();
    options.endpoints = proxy_endpoint(p);
    options.dial_timeout_ms = 3000;
    ck_assert_int_eq(etcdlock_client_open(&made.client, &options), 0);
    made.session = party_session(&made, 30);
    made.mutex = party_mutex(&made, name, 0);
    return made;
}

static void await_count(const char *name, size_t n)
{
    int64_t until_ms = live_now_ms() + 10000;
    while (gateway_count(name) != n)
        ck_assert_msg(live_now_ms() < until_ms, "never %zu in the queue", n);
}

/* A waiter whose holder leaves at a moment of its own. */
typedef struct encounter {
    party p;
    caller waiter;
    const char *name;
    char key[256]; /* of the holder */
    int64_t deleted_ms;
} encounter;

/* With no watch kept from another one. */
static void arrange(encounter *e, const proxy *etcd, int step)
{
    char name[32];
    snprintf(name, sizeof name, "lock-%d-", step);
    e->name = live_name(name);
    snprintf(e->key, sizeof e->key, "%s/694d0123", e->name);
    e->p = open_through(etcd, e->name);
    gateway_put(e->key, "foreign", 0);
}

static void sleep_until(int64_t until_ms)
{
    int64_t left_ms = until_ms - live_now_ms();
    if (left_ms > 0) poll(NULL, 0, (int)left_ms);
}

/* The answers are late, or the requests: the holders leave at one moment after the other of their waiter's
 * coming, before, between and after all of its steps (B09). */
START_TEST(slow_network)
{
    static encounter all[STEPS];
    int way = _i == 0 ? PROXY_TO_CLIENT : PROXY_TO_SERVER;
    int64_t slowest_ms = 0;
    proxy etcd;
    proxy_start(&etcd, live_endpoint(0));
    for (int step = 0; step < STEPS; step++)
        arrange(&all[step], &etcd, step);
    proxy_delay(&etcd, way, DELAY_MS);
    for (int step = 0; step < STEPS; step++)
        caller_start(&all[step].waiter, all[step].p.mutex, -1);
    for (int step = 0; step < STEPS; step++)
        await_count(all[step].name, 2);
    int64_t began_ms = live_now_ms();
    for (int step = 0; step < STEPS; step++) {
        sleep_until(began_ms + (int64_t)step * STEP_MS);
        ck_assert(!caller_is_done(&all[step].waiter, 0));
        all[step].deleted_ms = live_now_ms();
        gateway_delete(all[step].key);
    }
    for (int step = 0; step < STEPS; step++) {
        ck_assert_int_eq(caller_result(&all[step].waiter, 15000), 0);
        int64_t took_ms = all[step].waiter.returned_ms - all[step].deleted_ms;
        if (took_ms > slowest_ms) slowest_ms = took_ms;
    }
    printf("slow network, %s: the slowest entry %lld ms after the departure\n",
           _i == 0 ? "answers" : "requests", (long long)slowest_ms);
    /* Four messages one after the other at most: the rest of the entering, watch, read, confirmation. */
    live_within(live_now_ms() - slowest_ms, 4 * DELAY_MS + STALL_MS);
    proxy_delay(&etcd, way, 0);
    for (int step = 0; step < STEPS; step++) {
        ck_assert_int_eq(caller_end(&all[step].waiter), 0);
        party_close(&all[step].p);
    }
    proxy_stop(&etcd);
}
END_TEST

typedef struct cycler {
    pthread_t thread;
    etcdlock_mutex *mutex;
    int64_t slowest_ms;
} cycler;

static void *cycle(void *arg)
{
    cycler *c = arg;
    for (int i = 0; i < CYCLES; i++) {
        int64_t began_ms = live_now_ms();
        ck_assert_int_eq(etcdlock_mutex_lock(c->mutex), 0);
        int64_t took_ms = live_now_ms() - began_ms;
        if (took_ms > c->slowest_ms) c->slowest_ms = took_ms;
        ck_assert_int_eq(etcdlock_mutex_unlock(c->mutex), 0);
    }
    return NULL;
}

/* Two clients that hand a lock to and fro 10,000 times, as fast as they can: no hand-over stalls (B09). */
START_TEST(fast_hand_overs)
{
    const char *name = live_name("a");
    party parties[2] = {party_open(name, 0), party_open(name, 0)};
    cycler cyclers[2] = {{.mutex = parties[0].mutex}, {.mutex = parties[1].mutex}};
    int64_t began_ms = live_now_ms();
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&cyclers[i].thread, NULL, cycle, &cyclers[i]), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(cyclers[i].thread, NULL), 0);
    printf("%d hand-overs in %lld ms, the slowest lock %lld and %lld ms\n", 2 * CYCLES,
           (long long)(live_now_ms() - began_ms), (long long)cyclers[0].slowest_ms,
           (long long)cyclers[1].slowest_ms);
    for (int i = 0; i < 2; i++) {
        live_within(live_now_ms() - cyclers[i].slowest_ms, STALL_MS);
        party_close(&parties[i]);
    }
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("missed_delete", &cases, 180);
    tcase_add_loop_test(cases, slow_network, 0, 2);
    tcase_add_test(cases, fast_hand_overs);
    return live_run(suite);
}
