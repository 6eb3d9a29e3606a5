/* A holder whose process is stopped for longer than its time to live: what it writes when it goes on. */
/* cluster: 1 */
#include <signal.h>

#include "support/child.h"
#include "support/live.h"
#include "support/loss.h"
#include "support/written.h"

enum { TTL_S = 2 };

static void hold_stopped(child *parent, void *arg)
{
    const char *const *names = arg;
    party p = party_open(names[0], TTL_S);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(put_text(p.mutex, names[1], "old"), 0);
    child_send(parent, 0);
    (void)child_receive(parent); /* and stopped */
    assert_loss(put_text(p.mutex, names[1], "late"));
    assert_loss(etcdlock_mutex_unlock(p.mutex));
    party_close_lost(&p);
}

/* A holder that was stopped for longer than its time to live writes nothing when it goes on. */
START_TEST(stopped_holder)
{
    const char *names[2] = {live_name("a"), live_name("data")};
    child c;
    child_start(&c, hold_stopped, (void *)(uintptr_t)names);
    (void)child_receive(&c);
    ck_assert_int_eq(kill(c.pid, SIGSTOP), 0);
    child_send(&c, 0);
    party next = party_open(names[0], 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for(next.mutex, 10000), 0);
    ck_assert_int_eq(put_text(next.mutex, names[1], "new"), 0);
    ck_assert_int_eq(kill(c.pid, SIGCONT), 0);
    child_end(&c);
    expect_stored(names[1], "new");
    ck_assert_int_eq(etcdlock_mutex_delete(next.mutex, names[1]), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(next.mutex), 0);
    party_close(&next);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("guard_stopped_fault", &cases, 60);
    tcase_add_test(cases, stopped_holder);
    return live_run(suite);
}
