/* User callbacks that take long, that call back into the library, and threads that wait by the hundred: none
 * of them may hold up the renewals of what the process holds. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/loss.h"

enum { TTL_S = 3, SLEEP_MS = 10000, WAITERS = 200 };

/* What a callback did, in the order in which it did it. */
typedef struct record {
    party *p;
    etcdlock_mutex *other; /* a mutex of a session that lives */
    etcdlock_mutex *own;   /* one of the session that was lost */
    atomic_bool has_begun, has_ended;
    atomic_int lock, unlock, lock_lost, session_close, client_close, destroy;
} record;

static bool has_begun(void *arg)
{
    return ((record *)arg)->has_begun;
}

static bool has_ended(void *arg)
{
    return ((record *)arg)->has_ended;
}

/* Watches the hold until the condition is true; the least that was left of it. A renewal that is missed
 * makes the session suspended, when half of its time has passed. */
static int64_t hold_until(party *p, etcdlock_mutex *held, bool (*condition)(void *arg), void *arg)
{
    int64_t least_ms = INT64_MAX, until_ms = live_now_ms() + 30000;
    while (!condition(arg)) {
        int64_t left_ms = etcdlock_mutex_remaining_ms(held);
        if (left_ms < least_ms) least_ms = left_ms;
        ck_assert_int_eq(etcdlock_session_get_state(p->session), ETCDLOCK_SESSION_OK);
        ck_assert_msg(live_now_ms() < until_ms, "it never comes true");
        usleep(20000);
    }
    return least_ms;
}

static etcdlock_session *open_told(const party *p, etcdlock_session_function *on_state, void *arg)
{
    etcdlock_session_options options = ETCDLOCK_SESSION_OPTIONS_INIT;
    etcdlock_session *session;
    options.ttl_s = TTL_S;
    options.on_state = on_state;
    options.on_state_arg = arg;
    ck_assert_int_eq(etcdlock_session_open(&session, p->client, &options), 0);
    return session;
}

static void sleep_long(etcdlock_session *session, etcdlock_session_state state, void *arg)
{
    record *r = arg;
    (void)session, (void)state;
    r->has_begun = true;
    usleep(SLEEP_MS * 1000);
    r->has_ended = true;
}

/* A callback sleeps for more than three times the time to live: another lock of the same client is renewed
 * all the while and can be unlocked and locked, and a loss meanwhile is known without a callback (B19). */
START_TEST(sleeping)
{
    party p = party_open(live_name("a"), TTL_S);
    record r = {0};
    etcdlock_session *told = open_told(&p, sleep_long, &r), *second = open_told(&p, sleep_long, &r);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert(etcdctl_revoke(etcdlock_session_lease(told)));
    ck_assert(live_wait_until(has_begun, &r, 5000));
    ck_assert(etcdctl_revoke(etcdlock_session_lease(second)));
    ck_assert(live_readable(etcdlock_session_lost_fd(second), TTL_S * 1000));
    ck_assert_int_eq(etcdlock_session_get_state(second), ETCDLOCK_SESSION_LOST);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 1000), 0);
    ck_assert(!r.has_ended);
    int64_t least_ms = hold_until(&p, p.mutex, has_ended, &r);
    printf("callback asleep for %d ms: never less than %lld ms of %d s left\n", SLEEP_MS, (long long)least_ms,
           TTL_S);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_session_close(told), ETCDLOCK_ESESSION);
    ck_assert_int_eq(etcdlock_session_close(second), ETCDLOCK_ESESSION);
    party_close(&p);
}
END_TEST

static void call_back(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    record *r = arg;
    assert_loss(error); /* which of the two depends on what was heard of first */
    ck_assert_uint_gt(token, 0);
    r->has_begun = true;
    r->lock_lost = etcdlock_mutex_lock(r->own);
    r->lock = etcdlock_mutex_lock(r->other);
    r->unlock = etcdlock_mutex_unlock(r->other);
    r->destroy = etcdlock_mutex_destroy(mutex);
    r->client_close = etcdlock_client_close(r->p->client);
    r->session_close = etcdlock_session_close(r->p->session);
    r->has_ended = true;
}

/* From inside the callback of a lost lock: a lock of the lost session fails at once, one of another session
 * is locked and unlocked, the own session is closed, destroying the locked mutex is EBUSY, and closing the
 * client is EDEADLK. Nothing hangs (B19). */
START_TEST(calling_back)
{
    party p = party_open(live_name("a"), TTL_S), keeper = {.client = p.client};
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    etcdlock_mutex *watched;
    keeper.session = party_session(&keeper, TTL_S);
    keeper.mutex = party_mutex(&keeper, live_name("b"), 0);
    record r = {.p = &p, .own = p.mutex, .other = party_mutex(&keeper, live_name("c"), 0)};
    options.on_lost = call_back;
    options.on_lost_arg = &r;
    ck_assert_int_eq(etcdlock_mutex_new(&watched, p.session, live_name("d"), &options), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(watched), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(keeper.mutex), 0);
    ck_assert(etcdctl_revoke(etcdlock_session_lease(p.session)));
    (void)hold_until(&keeper, keeper.mutex, has_ended, &r);
    ck_assert_int_eq(r.lock_lost, ETCDLOCK_ESESSION);
    ck_assert_int_eq(r.lock, 0);
    ck_assert_int_eq(r.unlock, 0);
    ck_assert_int_eq(r.destroy, EBUSY);
    ck_assert_int_eq(r.client_close, EDEADLK);
    ck_assert_int_eq(r.session_close, ETCDLOCK_ESESSION);
    assert_loss(etcdlock_mutex_unlock(watched));
    ck_assert_int_eq(etcdlock_mutex_destroy(watched), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(r.other), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(keeper.mutex), 0);
    party_close(&keeper);
}
END_TEST

static bool has_passed(void *until_ms)
{
    return live_now_ms() >= *(int64_t *)until_ms;
}

/* 200 threads of one process wait for 200 locks that another one holds: the lock that theirs holds is renewed
 * as if nothing were, and all of them get theirs (B19). */
START_TEST(many_waiters)
{
    static caller waiters[WAITERS];
    static etcdlock_mutex *theirs[WAITERS], *mine[WAITERS];
    char name[64];
    party p = party_open(live_name("a"), TTL_S), other = party_open(live_name("a"), TTL_S);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    for (int i = 0; i < WAITERS; i++) {
        snprintf(name, sizeof name, "%sone-of-many-%d", live_prefix(), i);
        theirs[i] = party_mutex(&other, name, 0);
        mine[i] = party_mutex(&p, name, 0);
        ck_assert_int_eq(etcdlock_mutex_lock(theirs[i]), 0);
        caller_start(&waiters[i], mine[i], -1);
    }
    int64_t until_ms = live_now_ms() + 2 * TTL_S * 1000;
    int64_t least_ms = hold_until(&p, p.mutex, has_passed, &until_ms);
    printf("%d threads waiting: never less than %lld ms of %d s left\n", WAITERS, (long long)least_ms, TTL_S);
    for (int i = 0; i < WAITERS; i++) {
        ck_assert(!caller_is_done(&waiters[i], 0));
        ck_assert_int_eq(etcdlock_mutex_unlock(theirs[i]), 0);
    }
    for (int i = 0; i < WAITERS; i++) {
        ck_assert_int_eq(caller_result(&waiters[i], 10000), 0);
        ck_assert_int_eq(caller_end(&waiters[i]), 0);
        ck_assert_int_eq(etcdlock_mutex_destroy(theirs[i]), 0);
        ck_assert_int_eq(etcdlock_mutex_destroy(mine[i]), 0);
    }
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("slow_callback", &cases, 60);
    tcase_add_test(cases, sleeping);
    tcase_add_test(cases, calling_back);
    tcase_add_test(cases, many_waiters);
    return live_run(suite);
}
