/* Waiting for the mutex: deadlines, cancelling, the order of the queue, and ends from outside. */
#include <errno.h>
#include <time.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"

static struct timespec from_now(clockid_t clock, int64_t ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    int64_t ns = t.tv_nsec + ms % 1000 * 1000000;
    t.tv_sec += ms / 1000;
    if (ns < 0 || ns >= 1000000000) {
        t.tv_sec += ns < 0 ? -1 : 1;
        ns += ns < 0 ? 1000000000 : -1000000000;
    }
    t.tv_nsec = ns;
    return t;
}

static bool is_empty_but_for_one(void *name)
{
    return etcdctl_count(name) == 1;
}

/* Each way to name a deadline ends the wait at it, not before, and takes the entry away. */
START_TEST(deadlines)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0);
    clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME};
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    for (int i = 0; i < 5; i++) {
        int64_t began_ms = live_now_ms();
        struct timespec until = from_now(i < 3 ? clocks[i] : CLOCK_REALTIME, 300);
        int error = i < 3    ? etcdlock_mutex_clocklock(other.mutex, clocks[i], &until)
                    : i == 3 ? etcdlock_mutex_timedlock(other.mutex, &until)
                             : etcdlock_mutex_lock_for(other.mutex, 300);
        ck_assert_int_eq(error, ETIMEDOUT);
        ck_assert_int_ge(live_now_ms() - began_ms, 299);
        live_within(began_ms, 300);
    }
    ck_assert(live_wait_until(is_empty_but_for_one, (void *)(uintptr_t)name, 5000));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* A deadline that has passed still locks a free mutex, and gives up a held one without a write. */
START_TEST(past_deadlines)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0);
    struct timespec epoch = {0, 0}, past = from_now(CLOCK_MONOTONIC, -5000), long_ago = {INT64_MIN, 0};
    ck_assert_int_eq(etcdlock_mutex_timedlock(p.mutex, &epoch), 0);
    int64_t revision = etcdctl_revision();
    ck_assert_int_eq(etcdlock_mutex_timedlock(other.mutex, &long_ago), ETIMEDOUT);
    ck_assert_int_eq(etcdlock_mutex_timedlock(other.mutex, &epoch), ETIMEDOUT);
    ck_assert_int_eq(etcdlock_mutex_clocklock(other.mutex, CLOCK_MONOTONIC, &past), ETIMEDOUT);
    ck_assert_int_eq(etcdlock_mutex_lock_for(other.mutex, 0), ETIMEDOUT);
    ck_assert_int_eq(etcdlock_mutex_lock_for(other.mutex, INT64_MIN), ETIMEDOUT);
    ck_assert_int_eq(etcdctl_revision(), revision);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_clocklock(other.mutex, CLOCK_MONOTONIC, &past), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for(other.mutex, -1), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* A malformed time or an unknown clock is EINVAL, of a free mutex too; the furthest future is no overflow. */
START_TEST(bad_deadlines)
{
    party p = party_open(live_name("a"), 0);
    struct timespec negative = {2000000000, -1}, large = {2000000000, 1000000000};
    struct timespec far = {INT64_MAX, 999999999};
    ck_assert_int_eq(etcdlock_mutex_timedlock(p.mutex, &negative), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_timedlock(p.mutex, &large), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_timedlock(p.mutex, NULL), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_clocklock(p.mutex, CLOCK_PROCESS_CPUTIME_ID, &far), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_clocklock(p.mutex, 4711, &far), EINVAL);
    ck_assert_uint_eq(etcdctl_count(live_prefix()), 0);
    ck_assert_int_eq(etcdlock_mutex_timedlock(p.mutex, &far), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, INT64_MAX), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

/* A wait with a deadline that is granted before it ends like any other. */
START_TEST(granted_before_the_deadline)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0);
    caller waiter;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    caller_start(&waiter, other.mutex, 20000);
    party_await_queue(&p, name, 2);
    ck_assert(!caller_is_done(&waiter, 100));
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, 5000), 0);
    live_within(began_ms, 200);
    ck_assert_int_eq(caller_end(&waiter), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* cancel ends every wait on its handle and no other, and touches no hold. */
START_TEST(cancel)
{
    const char *name = live_name("a");
    party p = party_open(name, 0);
    etcdlock_mutex *second = party_mutex(&p, name, 0);
    caller waiters[3], elsewhere;
    ck_assert_int_eq(etcdlock_mutex_cancel(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    for (int i = 0; i < 3; i++)
        caller_start(&waiters[i], p.mutex, i == 2 ? 20000 : -1);
    caller_start(&elsewhere, second, -1);
    party_await_queue(&p, name, 5);
    ck_assert_int_eq(etcdlock_mutex_cancel(p.mutex), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(caller_result(&waiters[i], 10000), ECANCELED);
        ck_assert_int_eq(caller_end(&waiters[i]), 0);
    }
    ck_assert_uint_ne(etcdlock_mutex_token(p.mutex), 0);
    party_await_queue(&p, name, 2);
    ck_assert(!caller_is_done(&elsewhere, 0));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&elsewhere, 5000), 0);
    ck_assert_int_eq(caller_end(&elsewhere), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0); /* a cancel counts for the waits of its moment only */
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(second), 0);
    party_close(&p);
}
END_TEST

/* Waiters are let in one by one, in the order in which etcd received them. */
START_TEST(fifo)
{
    enum { WAITERS = 6 };
    const char *name = live_name("a");
    party p = party_open(name, 0), parties[WAITERS];
    caller waiters[WAITERS];
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    uint64_t last = etcdlock_mutex_token(p.mutex);
    for (int i = 0; i < WAITERS; i++) {
        parties[i] = party_open(name, 0);
        caller_start(&waiters[i], parties[i].mutex, -1);
        party_await_queue(&p, name, (size_t)i + 2);
    }
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    for (int i = 0; i < WAITERS; i++) {
        ck_assert_int_eq(caller_result(&waiters[i], 5000), 0);
        ck_assert_uint_gt(waiters[i].token, last);
        last = waiters[i].token;
        for (int later = i + 1; later < WAITERS; later++)
            ck_assert(!caller_is_done(&waiters[later], 0));
        ck_assert_int_eq(caller_end(&waiters[i]), 0);
    }
    for (int i = 0; i < WAITERS; i++)
        party_close(&parties[i]);
    party_close(&p);
}
END_TEST

/* When a waiter in the middle gives up, those behind it still wait for the holder. */
START_TEST(gap_in_the_queue)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), middle = party_open(name, 0), last = party_open(name, 0);
    caller first, second;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    caller_start(&first, middle.mutex, -1);
    party_await_queue(&p, name, 2);
    caller_start(&second, last.mutex, -1);
    party_await_queue(&p, name, 3);
    ck_assert_int_eq(etcdlock_mutex_cancel(middle.mutex), 0);
    ck_assert_int_eq(caller_result(&first, 10000), ECANCELED);
    party_await_queue(&p, name, 2);
    ck_assert(!caller_is_done(&second, 300));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&second, 5000), 0);
    ck_assert_int_eq(caller_end(&first), 0);
    ck_assert_int_eq(caller_end(&second), 0);
    party_close(&p);
    party_close(&middle);
    party_close(&last);
}
END_TEST

/* Closing the session under a waiter and a holder ends the wait and lets the next one in. */
START_TEST(session_closed)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0), next = party_open(name, 0);
    caller waiter, heir;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&p, name, 2);
    caller_start(&heir, next.mutex, -1);
    party_await_queue(&p, name, 3);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_session_close(other.session), 0);
    ck_assert_int_eq(caller_result(&waiter, 10000), ECANCELED);
    live_within(began_ms, 200);
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(other.mutex), ECANCELED);
    ck_assert_int_eq(etcdlock_mutex_trylock(other.mutex), ECANCELED);

    ck_assert_int_eq(etcdlock_session_close(p.session), 0);
    ck_assert_int_eq(caller_result(&heir, 5000), 0);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 0), ECANCELED);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ECANCELED);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), EPERM);
    ck_assert_int_eq(caller_end(&heir), 0);
    p.session = other.session = NULL;
    party_close(&p);
    party_close(&other);
    party_close(&next);
}
END_TEST

/* Closing the client under waiters ends them within bounded time; its handles stay valid until they are
 * closed, in any order. */
START_TEST(client_closed)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0);
    caller waiters[3];
    etcdlock_session *none;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    for (int i = 0; i < 3; i++)
        caller_start(&waiters[i], other.mutex, -1);
    party_await_queue(&p, name, 4);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_client_close(other.client), 0);
    live_within(began_ms, 1000);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(caller_result(&waiters[i], 10000), ECANCELED);
        ck_assert_int_eq(caller_end(&waiters[i]), 0);
    }
    ck_assert_uint_eq(etcdctl_count(name), 1);
    ck_assert_int_eq(etcdlock_mutex_lock(other.mutex), ECANCELED);
    ck_assert_int_eq(etcdlock_mutex_trylock(other.mutex), ECANCELED);
    ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), EPERM);
    ck_assert_int_eq(etcdlock_mutex_new((etcdlock_mutex **)&none, other.session, name, NULL), ECANCELED);
    ck_assert_int_eq(etcdlock_session_get_state(other.session), ETCDLOCK_SESSION_LOST);
    ck_assert_int_eq(etcdlock_session_remaining_ms(other.session), 0);
    ck_assert_int_eq(etcdlock_session_close(other.session), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for(other.mutex, 10), ECANCELED);
    ck_assert_int_eq(etcdlock_mutex_destroy(other.mutex), 0);

    ck_assert_int_eq(etcdlock_client_close(p.client), 0);
    ck_assert_uint_eq(etcdctl_count(name), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ECANCELED);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    ck_assert_int_eq(etcdlock_session_close(p.session), 0);
}
END_TEST

static void *lock_for_ever(void *mutex)
{
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
    return NULL;
}

static bool is_one_left(void *name)
{
    return etcdctl_count(name) == 1;
}

/* A thread that is cancelled while it waits leaves no entry, and the handle goes on working. */
START_TEST(thread_cancelled)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0);
    pthread_t thread;
    void *result;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, lock_for_ever, other.mutex), 0);
    party_await_queue(&p, name, 2);
    ck_assert_int_eq(pthread_cancel(thread), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    ck_assert(live_wait_until(is_one_left, (void *)(uintptr_t)name, 5000));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(other.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("mutex_wait", &cases, 30);
    tcase_add_test(cases, deadlines);
    tcase_add_test(cases, past_deadlines);
    tcase_add_test(cases, bad_deadlines);
    tcase_add_test(cases, granted_before_the_deadline);
    tcase_add_test(cases, cancel);
    tcase_add_test(cases, fifo);
    tcase_add_test(cases, gap_in_the_queue);
    tcase_add_test(cases, session_closed);
    tcase_add_test(cases, client_closed);
    tcase_add_test(cases, thread_cancelled);
    return live_run(suite);
}
