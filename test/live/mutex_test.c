/* The mutex on one member: locking and unlocking, who may do what, and what a holder can ask. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"

/* A lock leaves one entry in etcd, unlock removes it. */
START_TEST(lock_and_unlock)
{
    const char *name = live_name("a");
    party p = party_open(name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_uint_eq(etcdctl_count(name), 1);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_uint_eq(etcdctl_count(name), 0);
    party_close(&p);
}
END_TEST

/* The entry is named after the lease, belongs to it, and says who holds. */
START_TEST(entry)
{
    const char *name = live_name("a");
    party p = party_open(name, 0);
    etcdctl_key key;
    char expected[256], asked[256];
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_uint_eq(etcdctl_keys(name, &key, 1), 1);
    snprintf(expected, sizeof expected, "%s/%" PRIx64, name, (uint64_t)etcdlock_session_lease(p.session));
    ck_assert_str_eq(key.key, expected);
    ck_assert_int_eq(etcdlock_mutex_key(p.mutex, asked, sizeof asked), 0);
    ck_assert_str_eq(asked, expected);
    ck_assert_int_eq(key.lease, etcdlock_session_lease(p.session));
    ck_assert_int_eq(key.create_revision, (int64_t)etcdlock_mutex_token(p.mutex));
    ck_assert_int_eq(key.mod_revision, key.create_revision);
    ck_assert_ptr_nonnull(strstr(key.value, "mutex_test"));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

/* trylock takes a free mutex and says EBUSY for a held one, without writing anything. */
START_TEST(trylock)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), 0);
    int64_t revision = etcdctl_revision();
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(etcdlock_mutex_trylock(other.mutex), EBUSY);
        ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), EBUSY);
    }
    ck_assert_int_eq(etcdctl_revision(), revision);
    ck_assert_uint_eq(etcdlock_mutex_token(other.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(other.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* A relock by the owning thread is a deadlock, said at once; the hold stays. */
START_TEST(deadlock)
{
    party p = party_open(live_name("a"), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), EDEADLK);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 5000), EDEADLK);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), token);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), EPERM);
    party_close(&p);
}
END_TEST

/* A recursive mutex is held until it was unlocked as often as it was locked, in whatever way. */
START_TEST(recursive)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0);
    etcdlock_mutex *mutex = party_mutex(&p, name, ETCDLOCK_RECURSIVE);
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
    uint64_t token = etcdlock_mutex_token(mutex);
    ck_assert_int_eq(etcdlock_mutex_trylock(mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for(mutex, 0), 0);
    ck_assert_uint_eq(etcdlock_mutex_token(mutex), token);
    ck_assert_uint_eq(etcdctl_count(name), 1);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_trylock(other.mutex), EBUSY);
    }
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), EPERM);
    ck_assert_int_eq(etcdlock_mutex_trylock(other.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

static void *unlock_it(void *arg)
{
    static int result;
    etcdlock_mutex *mutex = arg;
    ck_assert_uint_eq(etcdlock_mutex_token(mutex) != 0, etcdlock_mutex_remaining_ms(mutex) > 0);
    result = etcdlock_mutex_unlock(mutex);
    return &result;
}

static int unlock_in_thread(etcdlock_mutex *mutex)
{
    pthread_t thread;
    void *result;
    ck_assert_int_eq(pthread_create(&thread, NULL, unlock_it, mutex), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    return *(int *)result;
}

/* Another thread may not unlock, and the hold stays; with HANDLE_OWNED it may. */
START_TEST(owner)
{
    const char *name = live_name("a");
    party p = party_open(name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(unlock_in_thread(p.mutex), EPERM);
    ck_assert_uint_ne(etcdlock_mutex_token(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);

    etcdlock_mutex *owned = party_mutex(&p, name, ETCDLOCK_HANDLE_OWNED);
    ck_assert_int_eq(etcdlock_mutex_lock(owned), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for(owned, 50), ETIMEDOUT); /* no thread, no deadlock */
    ck_assert_int_eq(unlock_in_thread(owned), 0);
    ck_assert_uint_eq(etcdlock_mutex_token(owned), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(owned), EPERM);
    ck_assert_int_eq(etcdlock_mutex_destroy(owned), 0);
    party_close(&p);
}
END_TEST

/* Unlock without lock and a second unlock are EPERM; neither harms the holder. */
START_TEST(unlock_without_lock)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), EPERM);
    ck_assert_int_eq(etcdlock_mutex_lock(other.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), EPERM);
    ck_assert_uint_eq(etcdctl_count(name), 1);
    ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), EPERM);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* A mutex that is held or waited on cannot be destroyed, and goes on working. */
START_TEST(destroy_busy)
{
    const char *name = live_name("a");
    party p = party_open(name, 0);
    caller waiter;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), EBUSY);
    etcdlock_mutex *second = party_mutex(&p, name, 0);
    caller_start(&waiter, second, -1);
    party_await_queue(&p, name, 2);
    ck_assert_int_eq(etcdlock_mutex_destroy(second), EBUSY);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, 5000), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(second), EBUSY);
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(second), 0);
    party_close(&p);
}
END_TEST

/* Tokens rise from holder to holder, whoever it is, and there is none while nothing is held. */
START_TEST(tokens)
{
    const char *name = live_name("a");
    party parties[2] = {party_open(name, 0), party_open(name, 0)};
    uint64_t last = 0;
    for (int i = 0; i < 10; i++) {
        etcdlock_mutex *mutex = parties[i % 2].mutex;
        ck_assert_uint_eq(etcdlock_mutex_token(mutex), 0);
        ck_assert_int_eq(i % 3 ? etcdlock_mutex_lock(mutex) : etcdlock_mutex_trylock(mutex), 0);
        ck_assert_uint_gt(etcdlock_mutex_token(mutex), last);
        last = etcdlock_mutex_token(mutex);
        ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
        ck_assert_uint_eq(etcdlock_mutex_token(mutex), 0);
    }
    party_close(&parties[0]);
    party_close(&parties[1]);
}
END_TEST

/* ensure and remaining speak of the caller's hold and of what its session can have. */
START_TEST(ensure)
{
    party p = party_open(live_name("a"), 10);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 0), EPERM);
    ck_assert_int_eq(etcdlock_mutex_remaining_ms(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 0), 0);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 3000), 0);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, -1), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 9999), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_ensure(NULL, 0), EINVAL);
    int64_t left_ms = etcdlock_mutex_remaining_ms(p.mutex);
    ck_assert_int_gt(left_ms, 5000);
    ck_assert_int_lt(left_ms, 10000);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_remaining_ms(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 0), EPERM);
    party_close(&p);
}
END_TEST

static bool has_aged(void *arg)
{
    return etcdlock_mutex_remaining_ms(arg) < 9300;
}

/* Where less is left than is asked for, ensure renews the session before it says yes. */
START_TEST(ensure_renews)
{
    party p = party_open(live_name("a"), 10); /* 9.5 s at most, with the margin of 5 % */
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert(live_wait_until(has_aged, p.mutex, 2000));
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 9350), 0);
    ck_assert_int_gt(etcdlock_mutex_remaining_ms(p.mutex), 9200);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

/* key copies only what fits, and only of a hold. */
START_TEST(key)
{
    party p = party_open(live_name("a"), 0);
    char buffer[256];
    ck_assert_int_eq(etcdlock_mutex_key(p.mutex, buffer, sizeof buffer), EPERM);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_key(p.mutex, buffer, sizeof buffer), 0);
    size_t needed = strlen(buffer) + 1;
    ck_assert_int_eq(etcdlock_mutex_key(p.mutex, buffer, needed), 0);
    ck_assert_int_eq(etcdlock_mutex_key(p.mutex, buffer, needed - 1), ERANGE);
    ck_assert_int_eq(etcdlock_mutex_key(p.mutex, buffer, 0), ERANGE);
    ck_assert_int_eq(etcdlock_mutex_key(p.mutex, NULL, 10), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_key(NULL, buffer, sizeof buffer), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

/* One session can hold several mutexes, and several places in the queue of one. */
START_TEST(several_on_one_session)
{
    party p = party_open(live_name("a"), 0);
    etcdlock_mutex *b = party_mutex(&p, live_name("b"), 0), *c = party_mutex(&p, live_name("c"), 0);
    etcdlock_mutex *again = party_mutex(&p, live_name("a"), 0);
    caller waiter;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(b), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(c), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(again), EBUSY);
    caller_start(&waiter, again, -1);
    party_await_queue(&p, live_name("a"), 2);
    ck_assert_uint_eq(etcdctl_count(live_prefix()), 4);
    ck_assert_int_eq(etcdlock_mutex_unlock(b), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, 5000), 0);
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(c), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(b), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(c), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(again), 0);
    party_close(&p);
}
END_TEST

/* NULL handles and refused options are EINVAL everywhere; destroying NULL is nothing. */
START_TEST(bad_input)
{
    party p = party_open(live_name("a"), 0);
    etcdlock_mutex *mutex = p.mutex;
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    char label[258];
    memset(label, 'x', sizeof label);
    label[257] = '\0';
    ck_assert_int_eq(etcdlock_mutex_new(NULL, p.session, "a", NULL), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_new(&mutex, NULL, "a", NULL), EINVAL);
    ck_assert_ptr_null(mutex);
    options.flags = ETCDLOCK_RECURSIVE | ETCDLOCK_HANDLE_OWNED;
    ck_assert_int_eq(etcdlock_mutex_new(&mutex, p.session, "a", &options), EINVAL);
    options.flags = 1u << 7;
    ck_assert_int_eq(etcdlock_mutex_new(&mutex, p.session, "a", &options), EINVAL);
    options.flags = 0;
    options.label = label;
    ck_assert_int_eq(etcdlock_mutex_new(&mutex, p.session, "a", &options), EINVAL);
    options.label = label + 1;
    ck_assert_int_eq(etcdlock_mutex_new(&mutex, p.session, "a", &options), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(mutex), 0);
    options.size = 0;
    ck_assert_int_eq(etcdlock_mutex_new(&mutex, p.session, "a", &options), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_lock(NULL), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_trylock(NULL), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_lock_for(NULL, 1), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_unlock(NULL), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_cancel(NULL), EINVAL);
    ck_assert_uint_eq(etcdlock_mutex_token(NULL), 0);
    ck_assert_int_eq(etcdlock_mutex_remaining_ms(NULL), 0);
    ck_assert_int_eq(etcdlock_mutex_lost_fd(NULL), -1);
    ck_assert_int_eq(etcdlock_mutex_destroy(NULL), 0);
    party_close(&p);
}
END_TEST

/* No call touches errno, whether it succeeds or fails; a failed one leaves a message. */
START_TEST(errno_untouched)
{
    const char *name = live_name("a");
    errno = 77;
    party p = party_open(name, 0);
    ck_assert_int_eq(errno, 77);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), EBUSY);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), EDEADLK);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 1), 0);
    ck_assert_int_ge(etcdlock_mutex_lost_fd(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), EPERM);
    ck_assert_ptr_nonnull(strstr(etcdlock_error_message(), name));
    ck_assert_ptr_nonnull(etcdlock_strerror(EPERM));
    party_close(&p);
    ck_assert_int_eq(errno, 77);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("mutex", &cases, 20);
    tcase_add_test(cases, lock_and_unlock);
    tcase_add_test(cases, entry);
    tcase_add_test(cases, trylock);
    tcase_add_test(cases, deadlock);
    tcase_add_test(cases, recursive);
    tcase_add_test(cases, owner);
    tcase_add_test(cases, unlock_without_lock);
    tcase_add_test(cases, destroy_busy);
    tcase_add_test(cases, tokens);
    tcase_add_test(cases, ensure);
    tcase_add_test(cases, ensure_renews);
    tcase_add_test(cases, key);
    tcase_add_test(cases, several_on_one_session);
    tcase_add_test(cases, bad_input);
    tcase_add_test(cases, errno_untouched);
    return live_run(suite);
}
