/* Tries that fail leave nothing, refresh nothing and cost one round trip, whoever makes them and whatever
 * becomes of their answers. */
/* cluster: 1 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "support/child.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/proxy.h"
#include "support/through.h"

enum { TRIERS = 20, TRY_MS = 4000, PERIOD_US = 40000, WINS = 50 };

static proxy px;

static void begin(void)
{
    proxy_start(&px, live_endpoint(0));
}

static void finish(void)
{
    proxy_stop(&px);
}

static void pause_us(int64_t us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

typedef struct trier {
    const char *name;
    const char *endpoints;
    bool hears_nothing; /* its answers are swallowed */
} trier;

/* Opens, tries until it is told to stop, and reports how many tries were refused; -1 after one that ended in
 * another way. */
static void try_on(child *parent, void *arg)
{
    const trier *t = arg;
    party p = party_through(t->endpoints, t->name, 60, t->hears_nothing ? 500 : 0);
    int64_t refused = 0;
    child_send(parent, 1);
    (void)child_receive(parent);
    int64_t until_ms = live_now_ms() + TRY_MS;
    while (live_now_ms() < until_ms) {
        int error = etcdlock_mutex_trylock(p.mutex);
        bool is_expected = error == EBUSY || (t->hears_nothing &&
                                              (error == ETCDLOCK_EUNKNOWN || error == ETCDLOCK_EUNREACHABLE));
        if (!is_expected) refused = INT64_MIN / 2;
        refused++;
        pause_us(PERIOD_US);
    }
    child_send(parent, refused < 0 ? -1 : refused);
    (void)child_receive(parent);
    party_close(&p);
}

/* (B43) Twenty processes try a held lock at 25 Hz each, one of them without hearing any answer: etcd's
 * revision does not move, so nothing was written; the lock is free as soon as the holder leaves. */
START_TEST(many_triers)
{
    const char *name = live_name("a");
    child children[TRIERS];
    trier loud = {.name = name, .endpoints = live_endpoint(0)};
    trier deaf = {.name = name, .endpoints = proxy_endpoint(&px), .hears_nothing = true};
    int64_t tries = 0;
    /* The deaf one last: nobody is forked while the proxy works. */
    for (int i = 0; i < TRIERS; i++)
        child_start(&children[i], try_on, i < TRIERS - 1 ? &loud : &deaf);
    for (int i = 0; i < TRIERS; i++)
        (void)child_receive(&children[i]);
    party holder = party_open(name, 60), next = party_open(name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(holder.mutex), 0);
    proxy_drop_replies(&px);
    int64_t revision = etcdctl_revision();
    for (int i = 0; i < TRIERS; i++)
        child_send(&children[i], 1);
    for (int i = 0; i < TRIERS; i++) {
        int64_t refused = child_receive(&children[i]);
        ck_assert_int_gt(refused, 0);
        tries += refused;
    }
    ck_assert_int_eq(etcdctl_revision(), revision);
    ck_assert_uint_eq(etcdctl_count(name), 1);
    ck_assert_int_gt(tries, TRIERS * 10);
    ck_assert_int_eq(etcdlock_mutex_unlock(holder.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(next.mutex), 0);
    proxy_pass(&px);
    for (int i = 0; i < TRIERS; i++) {
        child_send(&children[i], 1);
        child_end(&children[i]);
    }
    ck_assert_int_eq(etcdlock_mutex_ensure(next.mutex, 1), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(next.mutex), 0);
    party_close(&holder);
    party_close(&next);
}
END_TEST

/* (B43) A refused try costs one round trip. */
START_TEST(one_round_trip)
{
    enum { WAY_MS = 100 };
    const char *name = live_name("a");
    party holder = party_open(name, 0), p = party_through(proxy_endpoint(&px), name, 20, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(holder.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), EBUSY);
    proxy_delay(&px, PROXY_BOTH, WAY_MS);
    for (int i = 0; i < 3; i++) {
        int64_t began_ms = live_now_ms();
        ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), EBUSY);
        int64_t took_ms = live_now_ms() - began_ms;
        ck_assert_msg(took_ms >= 2 * WAY_MS && took_ms < 4 * WAY_MS, "%lld ms", (long long)took_ms);
    }
    proxy_pass(&px);
    ck_assert_int_eq(etcdlock_mutex_unlock(holder.mutex), 0);
    party_close(&holder);
    party_close(&p);
}
END_TEST

/* Tries until it was told to stop; between its tries it does nothing, so that two of them collide as often as
 * they can. Says each success. */
static void win(child *parent, void *arg)
{
    const trier *t = arg;
    party p = party_through(t->endpoints, t->name, 30, 0);
    child_send(parent, 1);
    (void)child_receive(parent);
    for (int wins = 0; wins < WINS;) {
        int error = etcdlock_mutex_trylock(p.mutex);
        ck_assert_msg(error == 0 || error == EBUSY, "%d %s", error, etcdlock_error_message());
        if (error) continue;
        wins++;
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    }
    child_send(parent, live_now_ms());
    (void)child_receive(parent);
    party_close(&p);
}

/* (B43) Two who do nothing but try a free lock do not keep each other out: both have locked many times within
 * seconds; in the second run the folder holds a key that is no entry, so that a try has to enter and look. */
START_TEST(two_triers_alone)
{
    const char *name = live_name("a");
    char stray[300];
    trier t = {.name = name, .endpoints = live_endpoint(0)};
    child children[2];
    snprintf(stray, sizeof stray, "%s/no/entry", name);
    for (int i = 0; i < 2; i++)
        child_start(&children[i], win, &t);
    if (_i) etcdctl("put", stray, "x", NULL);
    for (int i = 0; i < 2; i++)
        (void)child_receive(&children[i]);
    int64_t began_ms = live_now_ms();
    for (int i = 0; i < 2; i++)
        child_send(&children[i], 1);
    for (int i = 0; i < 2; i++)
        (void)child_receive(&children[i]);
    live_within(began_ms, 15000);
    for (int i = 0; i < 2; i++) {
        child_send(&children[i], 1);
        child_end(&children[i]);
    }
    ck_assert_uint_eq(etcdctl_count(name), (size_t)_i);
    if (_i) etcdctl("del", stray, NULL);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("try", &cases, 60);
    tcase_add_checked_fixture(cases, begin, finish);
    tcase_add_test(cases, many_triers);
    tcase_add_test(cases, one_round_trip);
    tcase_add_loop_test(cases, two_triers_alone, 0, 2);
    return live_run(suite);
}
