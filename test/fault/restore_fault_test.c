/* An etcd that is restored from an old snapshot: its revision goes back, what was locked since is forgotten.
 */
#include <stdio.h>
#include <stdlib.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/gateway.h"
#include "support/loss.h"

enum { TTL_S = 6, LATER_WRITES = 50, PATIENCE_MS = 15000 };

/* Runs a shell line in which $D is the folder of the only member. */
static void shell(const char *line)
{
    char command[1024];
    snprintf(command, sizeof command, "D=$CLUSTER_DIR/1; %s", line);
    ck_assert_msg(system(command) == 0, "%s", command);
}

static void save_snapshot(void)
{
    shell("rm -f $D/snapshot && env -u ETCDCTL_ENDPOINTS ETCDCTL_API=3 etcdctl --endpoints=$(cat $D/client) "
          "snapshot save $D/snapshot "
          ">/dev/null 2>&1");
}

static void write_on(void)
{
    const char *key = live_name("filler");
    for (int i = 0; i < LATER_WRITES; i++)
        gateway_put(key, "", 0);
    gateway_delete(key);
}

static void restore_snapshot(void)
{
    live_cluster("kill 1");
    shell(
        "U=http://$(cat $D/peer); rm -rf $D/data $D/restored && env -u ETCDCTL_ENDPOINTS ETCDCTL_API=3 "
        "etcdctl snapshot restore "
        "$D/snapshot "
        "--data-dir=$D/restored --name=member1 --initial-cluster=member1=$U --initial-advertise-peer-urls=$U "
        ">/dev/null 2>&1 && mv $D/restored $D/data");
    live_cluster("restart 1");
}

/* All is well with a session opened now. */
static void lock_anew(party *p, const char *name)
{
    party q = {.client = p->client, .session = party_session(p, TTL_S)};
    q.mutex = party_mutex(&q, name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for(q.mutex, PATIENCE_MS), 0);
    ck_assert_int_gt(etcdlock_mutex_token(q.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(q.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(q.mutex), 0);
    ck_assert_int_eq(etcdlock_session_close(q.session), 0);
}

/* A holder and a waiter from before the snapshot, both silent, are told; then new sessions work (F15). */
START_TEST(entries_in_the_snapshot)
{
    const char *name = live_name("a");
    party p = party_open(name, TTL_S), other = party_open(name, TTL_S);
    caller waiter;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&p, name, 2);
    save_snapshot();
    write_on();
    party_await_queue(&p, name, 2); /* both know the later revision */
    party_await_queue(&other, name, 2);
    restore_snapshot();
    ck_assert_int_eq(caller_result(&waiter, PATIENCE_MS), ETCDLOCK_ESESSION);
    await_session_loss(p.session, PATIENCE_MS);
    await_session_loss(other.session, PATIENCE_MS);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ETCDLOCK_ESESSION);
    ck_assert_int_eq(caller_end(&waiter), 0);
    lock_anew(&p, name);
    lock_anew(&other, name);
    party_close_lost(&p);
    party_close_lost(&other);
}
END_TEST

/* A silent holder whose session is in the snapshot, but not its entry, is told before its lock is given away
 * for long: within one renewal (F15). */
START_TEST(entry_after_the_snapshot)
{
    const char *name = live_name("a");
    party p = party_open(name, TTL_S);
    caller waiter;
    save_snapshot();
    write_on();
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert(!live_readable(etcdlock_mutex_lost_fd(p.mutex), 300));
    restore_snapshot();
    int64_t restored_ms = live_now_ms();
    ck_assert(live_readable(etcdlock_mutex_lost_fd(p.mutex), PATIENCE_MS));
    printf("told %lld ms after the restart\n", (long long)(live_now_ms() - restored_ms));
    live_within(restored_ms, TTL_S * 1000 / 3);
    await_session_loss(p.session, PATIENCE_MS);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ETCDLOCK_ESESSION);
    party other = party_open(name, TTL_S);
    caller_start(&waiter, other.mutex, -1);
    ck_assert_int_eq(caller_result(&waiter, PATIENCE_MS), 0);
    ck_assert_int_eq(caller_end(&waiter), 0);
    party_close(&other);
    party_close_lost(&p);
}
END_TEST

/* A holder whose lease is younger than the snapshot is told, too (F15). */
START_TEST(lease_after_the_snapshot)
{
    const char *name = live_name("a");
    save_snapshot();
    write_on();
    party p = party_open(name, TTL_S);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    restore_snapshot();
    ck_assert(live_readable(etcdlock_mutex_lost_fd(p.mutex), PATIENCE_MS));
    await_session_loss(p.session, PATIENCE_MS);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ETCDLOCK_ESESSION);
    lock_anew(&p, name);
    party_close_lost(&p);
}
END_TEST

/* An entry that had been unlocked since comes back with the snapshot, and goes with the session of its idle
 * owner instead of barring the lock for ever (F15). */
START_TEST(unlocked_entry_comes_back)
{
    const char *name = live_name("a");
    party p = party_open(name, TTL_S);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    save_snapshot();
    write_on();
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    restore_snapshot();
    party other = party_open(name, TTL_S);
    ck_assert_int_eq(etcdlock_mutex_lock_for(other.mutex, PATIENCE_MS), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), 0);
    await_session_loss(p.session, 0);
    party_close(&other);
    lock_anew(&p, name);
    party_close_lost(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("restore", &cases, 90);
    tcase_add_test(cases, entries_in_the_snapshot);
    tcase_add_test(cases, entry_after_the_snapshot);
    tcase_add_test(cases, lease_after_the_snapshot);
    tcase_add_test(cases, unlocked_entry_comes_back);
    return live_run(suite);
}
