/* Answers that are lost, and requests that arrive late: etcd did what was asked, or does it long after, and
 * the caller saw an error. */
/* cluster: 1 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/proxy.h"
#include "support/through.h"

static proxy px, second; /* two ways to the one etcd */

static void begin(void)
{
    proxy_start(&px, live_endpoint(0));
    proxy_start(&second, live_endpoint(0));
}

static void finish(void)
{
    proxy_stop(&px);
    proxy_stop(&second);
}

/* The way that a party uses, of the two, as one more lock and unlock shows. */
static proxy *way_of(const party *p)
{
    uint64_t before = proxy_bytes(&px, PROXY_TO_SERVER);
    ck_assert_int_eq(etcdlock_mutex_lock(p->mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p->mutex), 0);
    return proxy_bytes(&px, PROXY_TO_SERVER) > before ? &px : &second;
}

/* After a case that failed, too. */
static void mend(void)
{
    live_cluster("restart 1 >/dev/null 2>&1 || true");
}

static party open_by_both_ways(const char *name)
{
    char endpoints[160];
    snprintf(endpoints, sizeof endpoints, "%s,%s", proxy_endpoint(&px), proxy_endpoint(&second));
    return party_through(endpoints, name, 30, 0);
}

/* ---- the ways to lose an answer */

static void drop_begin(void)
{
    proxy_drop_replies(&px);
}

static void blackhole_begin(void)
{
    proxy_blackhole(&px, PROXY_TO_CLIENT);
}

static void hold_begin(void)
{
    proxy_hold(&px, PROXY_TO_CLIENT);
}

static void pass_end(void)
{
    proxy_pass(&px);
}

static void reset_end(void)
{
    proxy_reset(&px);
    proxy_pass(&px);
}

static void killed_end(void)
{
    live_cluster("kill 1");
    proxy_pass(&px);
    live_cluster("restart 1");
}

static const struct {
    void (*begin)(void);
    void (*end)(void);
    int64_t outage_ms;
} losses[] = {
    {drop_begin, pass_end, 2000},      /* and reset afterwards */
    {blackhole_begin, pass_end, 2000}, /* and silent for ever */
    {hold_begin, pass_end, 2000},      /* it comes late */
    {hold_begin, reset_end, 0},        /* reset right after the commit */
    {drop_begin, killed_end, 0},       /* etcd dies right after the commit, and comes back */
};

enum { LOSSES = sizeof losses / sizeof losses[0] };

/* Loses the answer to what the caller has begun, once that has made the queue n long, and looks that it stays
 * so long. */
static void lose_answer(int way, const party *p, const char *name, size_t n)
{
    int64_t until_ms = live_now_ms() + losses[way].outage_ms;
    party_await_queue(p, name, n);
    while (live_now_ms() < until_ms) {
        ck_assert_uint_eq(etcdctl_count(name), n);
        poll(NULL, 0, 100);
    }
    losses[way].end();
}

/* (B01) The answer to the entering of a free lock is lost: the caller finds its own entry, holds by it, and
 * stands nowhere in its own way; the next one gets in when it leaves. */
START_TEST(enter_answer_lost)
{
    const char *name = live_name("a");
    party a = party_through(proxy_endpoint(&px), name, 10, 0), b = party_open(name, 0);
    etcdctl_key key;
    caller first, next;
    losses[_i].begin();
    caller_start(&first, a.mutex, -1);
    lose_answer(_i, &b, name, 1);
    ck_assert_int_eq(caller_result(&first, 10000), 0);
    ck_assert_uint_eq(etcdctl_keys(name, &key, 1), 1);
    ck_assert_uint_eq(first.token, (uint64_t)key.create_revision);
    ck_assert_int_eq(key.lease, etcdlock_session_lease(a.session));
    caller_start(&next, b.mutex, -1);
    party_await_queue(&b, name, 2);
    ck_assert(!caller_is_done(&next, 200));
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(caller_end(&first), 0);
    ck_assert_int_eq(caller_result(&next, 5000), 0);
    live_within(began_ms, 1000);
    ck_assert_uint_eq(etcdctl_count(name), 1);
    ck_assert_int_eq(caller_end(&next), 0);
    party_close(&a);
    party_close(&b);
}
END_TEST

/* (B01) The same behind a holder: the caller keeps its one place, and its turn comes before that of a later
 * one. */
START_TEST(queued_enter_answer_lost)
{
    const char *name = live_name("a");
    party a = party_through(proxy_endpoint(&px), name, 10, 0), b = party_open(name, 0),
          c = party_open(name, 0);
    etcdctl_key keys[2];
    caller first, next;
    ck_assert_int_eq(etcdlock_mutex_lock(b.mutex), 0);
    losses[_i].begin();
    caller_start(&first, a.mutex, -1);
    lose_answer(_i, &b, name, 2);
    ck_assert_uint_eq(etcdctl_keys(name, keys, 2), 2);
    caller_start(&next, c.mutex, -1);
    party_await_queue(&b, name, 3);
    ck_assert(!caller_is_done(&first, 0));
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_unlock(b.mutex), 0);
    ck_assert_int_eq(caller_result(&first, 10000), 0);
    live_within(began_ms, 6000); /* its connection may be found dead only now */
    ck_assert_uint_eq(first.token, (uint64_t)keys[1].create_revision);
    ck_assert(!caller_is_done(&next, 200));
    ck_assert_int_eq(caller_end(&first), 0);
    ck_assert_int_eq(caller_result(&next, 5000), 0);
    ck_assert_int_eq(caller_end(&next), 0);
    party_close(&a);
    party_close(&b);
    party_close(&c);
}
END_TEST

/* (B01) The entering write itself arrives only after its caller has held by another way and left: the entry
 * that it may bring is removed, whether the lock is free by then or held by the next one. */
START_TEST(enter_comes_late)
{
    const char *name = live_name("a");
    bool is_held = _i;
    party a = open_by_both_ways(name), b = party_open(name, 0);
    for (int round = 0; round < 3; round++) {
        proxy *way = way_of(&a);
        proxy_hold(way, PROXY_TO_SERVER);
        ck_assert_int_eq(etcdlock_mutex_lock(a.mutex), 0);
        uint64_t token = etcdlock_mutex_token(a.mutex);
        ck_assert_int_eq(etcdlock_mutex_unlock(a.mutex), 0);
        ck_assert_uint_eq(etcdctl_count(name), 0);
        if (is_held) ck_assert_int_eq(etcdlock_mutex_lock(b.mutex), 0);
        proxy_pass(way);
        party_await_queue(&b, name, is_held);
        int64_t began_ms = live_now_ms();
        if (is_held) ck_assert_int_eq(etcdlock_mutex_unlock(b.mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_lock(b.mutex), 0);
        live_within(began_ms, 1000);
        ck_assert_uint_gt(etcdlock_mutex_token(b.mutex), token);
        party_await_queue(&b, name, 1);
        ck_assert_int_eq(etcdlock_mutex_unlock(b.mutex), 0);
        party_await_queue(&b, name, 0);
    }
    party_close(&a);
    party_close(&b);
}
END_TEST

/* Nobody but the owner of this token is before `next`, until the owner leaves. */
static void expect_alone_until_unlocked(etcdlock_mutex *owner, const char *name, caller *next)
{
    etcdctl_key keys[2];
    ck_assert(!caller_is_done(next, 500));
    ck_assert_uint_eq(etcdctl_keys(name, keys, 2), 2);
    ck_assert_int_eq(keys[0].create_revision, (int64_t)etcdlock_mutex_token(owner));
    ck_assert_int_eq(etcdlock_mutex_ensure(owner, 1), 0);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_unlock(owner), 0);
    ck_assert_int_eq(caller_result(next, 5000), 0);
    live_within(began_ms, 1000);
    ck_assert_uint_gt(next->token, (uint64_t)keys[0].create_revision);
    ck_assert_int_eq(caller_end(next), 0);
}

/* (B02) The answer to an unlock is lost, and the session locks again through another handle: unlocking the
 * first handle once more deletes nothing. */
START_TEST(unlock_answer_lost)
{
    const char *name = live_name("a");
    party a = party_through(proxy_endpoint(&px), name, 20, 1000), c = party_open(name, 0);
    etcdlock_mutex *again = party_mutex(&a, name, 0);
    caller next;
    ck_assert_int_eq(etcdlock_mutex_lock(a.mutex), 0);
    uint64_t token = etcdlock_mutex_token(a.mutex);
    proxy_drop_replies(&px);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_unlock(a.mutex), ETCDLOCK_EUNKNOWN);
    live_within(began_ms, 1000);
    ck_assert_uint_eq(etcdlock_mutex_token(a.mutex), 0);
    proxy_pass(&px);
    ck_assert_int_eq(etcdlock_mutex_lock(again), 0);
    ck_assert_uint_gt(etcdlock_mutex_token(again), token);
    caller_start(&next, c.mutex, -1);
    party_await_queue(&c, name, 2);
    ck_assert_int_eq(etcdlock_mutex_unlock(a.mutex), EPERM);
    expect_alone_until_unlocked(again, name, &next);
    ck_assert_int_eq(etcdlock_mutex_destroy(again), 0);
    party_close(&a);
    party_close(&c);
}
END_TEST

/* (B02) The delete of an unlock itself arrives only when the same session holds again, under the same key
 * name: it deletes nothing. */
START_TEST(delete_comes_late)
{
    const char *name = live_name("a");
    party a = open_by_both_ways(name), c = party_open(name, 0);
    caller next;
    proxy *way = way_of(&a);
    ck_assert_int_eq(etcdlock_mutex_lock(a.mutex), 0);
    uint64_t token = etcdlock_mutex_token(a.mutex);
    proxy_hold(way, PROXY_TO_SERVER);
    ck_assert_int_eq(etcdlock_mutex_unlock(a.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(a.mutex), 0);
    ck_assert_uint_gt(etcdlock_mutex_token(a.mutex), token);
    caller_start(&next, c.mutex, -1);
    party_await_queue(&c, name, 2);
    uint64_t arrived = proxy_bytes(way, PROXY_TO_SERVER);
    proxy_pass(way);
    expect_alone_until_unlocked(a.mutex, name, &next);
    ck_assert_uint_gt(proxy_bytes(way, PROXY_TO_SERVER), arrived + 100);
    party_close(&a);
    party_close(&c);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("answer_lost", &cases, 60);
    tcase_add_checked_fixture(cases, begin, finish);
    tcase_add_unchecked_fixture(cases, NULL, mend);
    tcase_add_loop_test(cases, enter_answer_lost, 0, LOSSES);
    tcase_add_loop_test(cases, queued_enter_answer_lost, 0, LOSSES);
    tcase_add_loop_test(cases, enter_comes_late, 0, 2);
    tcase_add_test(cases, unlock_answer_lost);
    tcase_add_test(cases, delete_comes_late);
    return live_run(suite);
}
