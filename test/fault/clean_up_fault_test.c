/* The clean-up itself fails: etcd goes away in the moment in which a wait, a try or an unlock leaves its
 * entry to be removed, and the process lives on. */
/* cluster: 1 */
#include <errno.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/proxy.h"
#include "support/through.h"

enum { OUTAGE_MS = 10000, COMMAND_MS = 1000, TTL_S = 60 };

static proxy px;

static void begin(void)
{
    proxy_start(&px, live_endpoint(0));
}

static void finish(void)
{
    proxy_stop(&px);
}

static void blackhole(void)
{
    proxy_blackhole(&px, PROXY_BOTH);
}

static void refuse(void)
{
    proxy_refuse_new(&px);
    proxy_reset(&px);
}

static void hold(void)
{
    proxy_hold(&px, PROXY_BOTH);
}

static const struct {
    void (*begin)(void);
    int64_t gone_within_ms; /* after the recovery */
} outages[] = {
    {blackhole, 8000}, /* the connections stay dead: each has to be given up first */
    {refuse, 3000},
    {hold, 3000},
};

enum { OUTAGES = sizeof outages / sizeof outages[0] };

static bool has_passed(void *until_ms)
{
    return live_now_ms() >= *(int64_t *)until_ms;
}

typedef struct names {
    const char *waited, *tried, *unlocked, *fresh;
} names;

/* One entry of each kind is left in etcd: of a timed wait, of a try whose answer was lost, of an unlock. */
static void leave_three(const party *a, const party *seer, const names *n, int outage)
{
    etcdlock_mutex *tried = party_mutex(a, n->tried, 0), *unlocked = party_mutex(a, n->unlocked, 0);
    caller waiter;
    ck_assert_int_eq(etcdlock_mutex_lock(unlocked), 0);
    caller_start(&waiter, a->mutex, COMMAND_MS);
    party_await_queue(seer, n->waited, 2);
    proxy_drop_replies(&px);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_trylock(tried), ETCDLOCK_EUNKNOWN);
    live_within(began_ms, COMMAND_MS);
    outages[outage].begin();
    ck_assert_int_eq(caller_result(&waiter, 2000), ETIMEDOUT);
    ck_assert_int_eq(caller_end(&waiter), 0);

    began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_unlock(unlocked), ETCDLOCK_EUNKNOWN);
    live_within(began_ms, COMMAND_MS);
    ck_assert_uint_eq(etcdlock_mutex_token(unlocked), 0);
    ck_assert_int_eq(etcdlock_mutex_remaining_ms(unlocked), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(unlocked), EPERM);
    ck_assert_int_eq(etcdlock_mutex_lock_for(unlocked, 300), ETIMEDOUT);
    ck_assert_int_eq(etcdlock_mutex_destroy(unlocked), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(tried), 0);
}

/* (B17) After ten seconds without etcd the three entries are gone within seconds, and the process takes other
 * locks through the same session, and the same ones again. */
START_TEST(etcd_away)
{
    names n = {live_name("waited"), live_name("tried"), live_name("unlocked"), live_name("fresh")};
    party a = party_through(proxy_endpoint(&px), n.waited, TTL_S, COMMAND_MS), b = party_open(n.waited, 0);
    etcdlock_mutex *fresh = party_mutex(&a, n.fresh, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(b.mutex), 0);
    int64_t until_ms = live_now_ms() + OUTAGE_MS;
    leave_three(&a, &b, &n, _i);
    ck_assert(live_wait_until(has_passed, &until_ms, OUTAGE_MS));
    ck_assert_uint_eq(etcdctl_count(n.waited), 2);
    ck_assert_uint_eq(etcdctl_count(n.tried), 1);
    ck_assert_uint_eq(etcdctl_count(n.unlocked), 1);
    ck_assert_int_ne(etcdlock_session_get_state(a.session), ETCDLOCK_SESSION_LOST);
    proxy_pass(&px);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_lock_for(fresh, 15000), 0);
    party_await_queue(&b, n.tried, 0);
    party_await_queue(&b, n.unlocked, 0);
    party_await_queue(&b, n.waited, 1);
    live_within(began_ms, outages[_i].gone_within_ms);
    ck_assert_int_eq(etcdlock_mutex_unlock(fresh), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(fresh), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(b.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(a.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(a.mutex), 0);
    party_close(&a);
    party_close(&b);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("clean_up", &cases, 60);
    tcase_add_checked_fixture(cases, begin, finish);
    tcase_add_loop_test(cases, etcd_away, 0, OUTAGES);
    return live_run(suite);
}
