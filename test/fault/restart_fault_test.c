/* An etcd that restarts while it counts down the lease of a dead holder: the lease gets its whole time again.
 */
#include <signal.h>
#include <stdio.h>

#include "support/caller.h"
#include "support/child.h"
#include "support/etcdctl.h"
#include "support/loss.h"

enum { TTL_S = 6, DEAD_FOR_MS = 4000 };

static void hold_until_killed(child *parent, void *arg)
{
    party p = party_open(arg, TTL_S);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    child_send(parent, etcdlock_session_lease(p.session));
    (void)child_receive(parent);
}

/* A waiter behind a killed holder just waits on, however long the restart makes it, and is let in when the
 * lease is gone, not when its time to live has passed (B52). */
START_TEST(lease_lives_longer)
{
    const char *name = live_name("a");
    child holder;
    child_start(&holder, hold_until_killed, (void *)(uintptr_t)name);
    int64_t lease = child_receive(&holder);
    party p = party_open(name, 30);
    caller waiter;
    caller_start(&waiter, p.mutex, 60000);
    party_await_queue(&p, name, 2);
    int64_t killed_ms = live_now_ms();
    ck_assert_int_eq(kill(holder.pid, SIGKILL), 0);
    (void)child_status(&holder);
    ck_assert(!caller_is_done(&waiter, DEAD_FOR_MS));
    live_cluster("kill 1");
    live_cluster("restart 1");
    int64_t restarted_ms = live_now_ms();
    ck_assert(etcdctl_has_lease(lease));
    ck_assert_int_eq(caller_result(&waiter, 50000), 0);
    ck_assert(!etcdctl_has_lease(lease));
    printf("granted %lld ms after the death, %lld ms after the restart\n",
           (long long)(waiter.returned_ms - killed_ms), (long long)(waiter.returned_ms - restarted_ms));
    ck_assert_int_ge(waiter.returned_ms - restarted_ms, (TTL_S - 2) * 1000);
    ck_assert_int_eq(etcdlock_session_get_state(p.session), ETCDLOCK_SESSION_OK);
    ck_assert_int_eq(caller_end(&waiter), 0);
    party_close(&p);
}
END_TEST

/* A holder and a waiter that are well notice a restart in nothing (B52). */
START_TEST(living_ones_go_on)
{
    const char *name = live_name("a");
    party p = party_open(name, TTL_S), other = party_open(name, TTL_S);
    caller waiter;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&p, name, 2);
    for (int round = 0; round < 3; round++) {
        live_cluster("kill 1");
        live_cluster("restart 1");
        ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), token);
        ck_assert(!caller_is_done(&waiter, 0));
    }
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 3000), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, 10000), 0);
    ck_assert_int_eq(caller_end(&waiter), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("restart", &cases, 90);
    tcase_add_test(cases, lease_lives_longer);
    tcase_add_test(cases, living_ones_go_on);
    return live_run(suite);
}
