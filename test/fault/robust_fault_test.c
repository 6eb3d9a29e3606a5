/* Owner death where processes are killed and answers are lost: a death is told, and nothing else is. */
/* cluster: 1 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "support/caller.h"
#include "support/child.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/proxy.h"
#include "support/through.h"

enum { TTL_S = 2 };

static etcdlock_mutex *robust_mutex(const party *p, const char *name)
{
    return party_mutex(p, name, ETCDLOCK_ROBUST);
}

static void hold_until_killed(child *parent, void *arg)
{
    party p = party_open(arg, TTL_S);
    etcdlock_mutex *mutex = robust_mutex(&p, arg);
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
    child_send(parent, (int64_t)etcdlock_mutex_token(mutex));
    (void)child_receive(parent);
}

/* A holder is killed by SIGKILL, with somebody waiting or not: the next one holds when the lease has ended,
 * and is told who died. */
START_TEST(killed)
{
    const char *name = live_name("a");
    bool has_waiter = _i;
    child c;
    caller waiter;
    etcdlock_owner *owner;
    child_start(&c, hold_until_killed, (void *)(uintptr_t)name);
    uint64_t token = (uint64_t)child_receive(&c);
    party p = party_open(name, 0);
    etcdlock_mutex *mutex = robust_mutex(&p, name);
    if (has_waiter) {
        caller_start(&waiter, mutex, -1);
        party_await_queue(&p, name, 2);
    }
    ck_assert_int_eq(kill(c.pid, SIGKILL), 0);
    ck_assert(WIFSIGNALED(child_status(&c)));
    if (has_waiter) {
        ck_assert_int_eq(caller_result(&waiter, 10000), EOWNERDEAD);
        ck_assert_int_eq(caller_end(&waiter), 0); /* unrepaired */
    } else {
        party_await_queue(&p, name, 0);
    }
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), EOWNERDEAD);
    ck_assert_int_eq(etcdlock_mutex_dead_owner(mutex, &owner), 0);
    ck_assert_uint_eq(owner->token, token);
    ck_assert_int_eq(owner->pid, c.pid);
    etcdlock_owner_free(owner);
    ck_assert_int_eq(etcdlock_mutex_consistent(mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
    ck_assert_uint_eq(etcdctl_count(name), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(mutex), 0);
    party_close(&p);
}
END_TEST

static bool is_marked(void *arg)
{
    return etcdctl_count(arg) == 1;
}

/* The answers to entering, or to an unlock, are lost: neither the caller nor the next one is told of a death.
 */
START_TEST(answers_lost)
{
    static proxy px;
    const char *name = live_name("a");
    char mark[600];
    caller first;
    party other = party_open(name, 0);
    proxy_start(&px, live_endpoint(0));
    party p = party_through(proxy_endpoint(&px), name, 30, 1000);
    etcdlock_mutex *mutex = robust_mutex(&p, name), *next = robust_mutex(&other, name);
    snprintf(mark, sizeof mark, "%s.robust", name);
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0); /* the way is open */
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
    proxy_drop_replies(&px);
    caller_start(&first, mutex, -1);
    party_await_queue(&other, name, 1); /* without an answer it cannot mark yet */
    proxy_pass(&px);
    ck_assert(live_wait_until(is_marked, mark, 5000));
    ck_assert_int_eq(caller_result(&first, 10000), 0);
    ck_assert_int_eq(caller_end(&first), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
    proxy_drop_replies(&px);
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), ETCDLOCK_EUNKNOWN);
    /* The delete has come through, or, where its connection was just being made, comes now. */
    proxy_pass(&px);
    ck_assert_int_eq(etcdlock_mutex_lock_for(next, 10000), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(next), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(next), 0);
    party_close(&p);
    party_close(&other);
    proxy_stop(&px);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("robust_fault", &cases, 60);
    tcase_add_loop_test(cases, killed, 0, 2);
    tcase_add_test(cases, answers_lost);
    return live_run(suite);
}
