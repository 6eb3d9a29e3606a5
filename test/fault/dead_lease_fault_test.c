/* A lease that is gone while its holder believes in it: the renewal is answered like a good one, without a
 * time to live. */
#include <errno.h>
#include <poll.h>

#include "support/gateway.h"
#include "support/loss.h"

enum { ROUNDS = 20, PERIOD_MS = 2000 };

static const char *const messages = "grpc_server_msg_received_total";

/* A holder whose lease is revoked learns it at once from its own key, and unlock does not hang (B08). */
START_TEST(holder_is_told_at_once)
{
    party p = party_open(live_name("a"), 20);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert(!live_readable(etcdlock_mutex_lost_fd(p.mutex), 200));
    int64_t began_ms = live_now_ms();
    gateway_revoke(etcdlock_session_lease(p.session));
    ck_assert(live_readable(etcdlock_mutex_lost_fd(p.mutex), 5000));
    live_within(began_ms, 500);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), 0);
    assert_loss(etcdlock_mutex_ensure(p.mutex, 0));
    await_session_loss(p.session, 1000);
    began_ms = live_now_ms();
    assert_loss(etcdlock_mutex_unlock(p.mutex));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), EPERM);
    live_within(began_ms, 100);
    party_close_lost(&p);
}
END_TEST

/* So does one whose lease is revoked before it could begin to watch its key (B08). */
START_TEST(holder_is_told_from_the_start)
{
    party p = party_open(live_name("a"), 6);
    for (int round = 0; round < ROUNDS; round++) {
        party victim = {.client = p.client, .session = party_session(&p, 6)};
        victim.mutex = party_mutex(&victim, live_prefix(), 0);
        ck_assert_int_eq(etcdlock_mutex_lock(victim.mutex), 0);
        int64_t began_ms = live_now_ms();
        gateway_revoke(etcdlock_session_lease(victim.session));
        ck_assert(live_readable(etcdlock_mutex_lost_fd(victim.mutex), 5000));
        live_within(began_ms, 500);
        assert_loss(etcdlock_mutex_unlock(victim.mutex));
        ck_assert_int_eq(etcdlock_mutex_destroy(victim.mutex), 0);
        session_close_lost(victim.session);
    }
    party_close(&p);
}
END_TEST

/* A session through which nothing is held learns it by the next renewal, and its locks say so (B08). */
START_TEST(idle_session_is_told_by_the_renewal)
{
    party p = party_open(live_name("a"), 6);
    int64_t began_ms = live_now_ms();
    gateway_revoke(etcdlock_session_lease(p.session));
    await_session_loss(p.session, 5000);
    live_within(began_ms, PERIOD_MS);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), ETCDLOCK_ESESSION);
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), ETCDLOCK_ESESSION);
    party_close_lost(&p);
}
END_TEST

/* Locks asked for through a dead lease, before that is known, are refused and not waited for (B08). */
START_TEST(lock_through_a_dead_lease)
{
    party p = party_open(live_name("a"), 60);
    gateway_revoke(etcdlock_session_lease(p.session));
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), ETCDLOCK_ESESSION);
    live_within(began_ms, 1000);
    await_session_loss(p.session, 1000);
    party_close_lost(&p);
}
END_TEST

/* Once it is known, nothing is sent to etcd any more for the sake of that lease (B08). */
START_TEST(renewals_stop)
{
    party p = party_open(live_name("a"), 6);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    gateway_revoke(etcdlock_session_lease(p.session));
    ck_assert(live_readable(etcdlock_mutex_lost_fd(p.mutex), 5000));
    await_session_loss(p.session, 5000);
    assert_loss(etcdlock_mutex_unlock(p.mutex));
    poll(NULL, 0, 500); /* what follows at once, such as the revoke, may still be under way */
    double before = gateway_metric(messages);
    poll(NULL, 0, 3 * PERIOD_MS);
    ck_assert_int_eq((int)(gateway_metric(messages) - before), 0);
    party_close_lost(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("dead_lease", &cases, 30);
    tcase_add_test(cases, holder_is_told_at_once);
    tcase_add_test(cases, holder_is_told_from_the_start);
    tcase_add_test(cases, idle_session_is_told_by_the_renewal);
    tcase_add_test(cases, lock_through_a_dead_lease);
    tcase_add_test(cases, renewals_stop);
    return live_run(suite);
}
