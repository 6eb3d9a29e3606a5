/* The asynchronous calls: every operation that began ends with one callback. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/ending.h"
#include "support/etcdctl.h"

/* ---- lock, unlock
 * ------------------------------------------------------------------------------------------------ */

/* A lock is granted with its token, the handle holds it for all threads, the unlock removes the entry. */
START_TEST(lock_and_unlock)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0);
    end locked = {0}, unlocked = {0};
    ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, end_take, &locked), 0);
    ck_assert_int_eq(end_await(&locked, 5000), 0);
    ck_assert_ptr_eq(locked.mutex, p.mutex);
    ck_assert_uint_ne(locked.token, 0);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), locked.token);
    ck_assert(!pthread_equal(locked.thread, pthread_self()));
    ck_assert_uint_eq(etcdctl_count(name), 1);
    ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, end_take, &unlocked), 0);
    ck_assert_int_eq(end_await(&unlocked, 5000), 0);
    ck_assert_uint_eq(unlocked.token, 0);
    ck_assert_uint_eq(etcdctl_count(name), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, end_take, &unlocked), EPERM);
    party_close(&p);
}
END_TEST

/* Blocking and asynchronous calls mix on one handle; an unlock may be told to nobody. */
START_TEST(mixed)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0);
    end locked = {0};
    for (int i = 0; i < 20; i++) {
        atomic_store(&locked.n, 0);
        ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, end_take, &locked), 0);
        ck_assert_int_eq(end_await(&locked, 5000), 0);
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
        ck_assert_uint_gt(etcdlock_mutex_token(p.mutex), locked.token);
        ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, NULL, NULL), 0);
    }
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0); /* comes after all of these unlocks */
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_uint_eq(etcdctl_count(name), 0);
    party_close(&p);
}
END_TEST

/* Several calls on one handle each have a place of their own and hold in the order of the calls. */
START_TEST(in_order)
{
    enum { CALLS = 5 };
    const char *name = live_name("a");
    party p = open_owned(name, 0);
    end ends[CALLS] = {{0}};
    for (int i = 0; i < CALLS; i++)
        ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, end_take, &ends[i]), 0);
    party_await_queue(&p, name, CALLS);
    for (int i = 0; i < CALLS; i++) {
        ck_assert_int_eq(end_await(&ends[i], 5000), 0);
        if (i > 0) ck_assert_uint_gt(ends[i].token, ends[i - 1].token);
        for (int k = i + 1; k < CALLS; k++)
            ck_assert_int_eq(atomic_load(&ends[k].n), 0);
        ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), ends[i].token);
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    }
    party_close(&p);
}
END_TEST

/* A try of a held lock fails at once where the holder is of this process, and soon where it is not. */
START_TEST(try_held)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0), other = open_owned(name, 0);
    end mine = {0}, theirs = {0};
    ck_assert_int_eq(etcdlock_mutex_trylock_async(p.mutex, end_take, &mine), 0);
    ck_assert_int_eq(end_await(&mine, 5000), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock_async(p.mutex, end_take, &theirs), EBUSY);
    ck_assert_int_eq(etcdlock_mutex_lock_for_async(p.mutex, 0, end_take, &theirs), ETIMEDOUT);
    ck_assert_int_eq(etcdlock_mutex_trylock_async(other.mutex, end_take, &theirs), 0);
    ck_assert_int_eq(end_await(&theirs, 5000), EBUSY);
    ck_assert_uint_eq(theirs.token, 0);
    ck_assert_ptr_nonnull(strstr(theirs.message, name));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* A limited wait ends when its time is over, and leaves the queue. */
START_TEST(limited)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0), other = open_owned(name, 0);
    end waited = {0}, tried = {0};
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_lock_for_async(other.mutex, 300, end_take, &waited), 0);
    ck_assert_int_eq(end_await(&waited, 5000), ETIMEDOUT);
    ck_assert_int_ge(live_now_ms() - began_ms, 300);
    ck_assert_uint_ne(etcdlock_mutex_token(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for_async(other.mutex, 0, end_take, &tried), 0);
    ck_assert_int_eq(end_await(&tried, 5000), ETIMEDOUT);
    party_await_queue(&p, name, 1);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* ---- early ends
 * -------------------------------------------------------------------------------------------------- */

/* cancel ends every wait of the handle, and no hold. */
START_TEST(cancel)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0), other = open_owned(name, 0);
    end waits[3] = {{0}};
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(etcdlock_mutex_lock_async(other.mutex, end_take, &waits[i]), 0);
    party_await_queue(&p, name, 4);
    ck_assert_int_eq(etcdlock_mutex_cancel(other.mutex), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(end_await(&waits[i], 5000), ECANCELED);
    party_await_queue(&p, name, 1);
    ck_assert_uint_ne(etcdlock_mutex_token(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* Closing the session or the client ends the waits, each with one callback, before close returns or soon
 * after. */
START_TEST(closed)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0), other = open_owned(name, 0), last = open_owned(name, 0);
    end by_session = {0}, by_client = {0}, late = {0};
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_async(other.mutex, end_take, &by_session), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_async(last.mutex, end_take, &by_client), 0);
    party_await_queue(&p, name, 3);
    ck_assert_int_eq(etcdlock_session_close(other.session), 0);
    other.session = NULL;
    ck_assert_int_eq(end_await(&by_session, 5000), ECANCELED);
    ck_assert_int_eq(etcdlock_mutex_lock_async(other.mutex, end_take, &late), ECANCELED);
    ck_assert_int_eq(etcdlock_client_close(last.client), 0);
    last.client = NULL;
    ck_assert_int_eq(atomic_load(&by_client.n), 1);
    ck_assert_int_eq(by_client.error, ECANCELED);
    ck_assert_int_eq(etcdlock_mutex_lock_async(last.mutex, end_take, &late), ECANCELED);
    ck_assert_int_eq(etcdlock_session_close(last.session), 0);
    last.session = NULL;
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&other);
    party_close(&last);
    ck_assert_int_eq(atomic_load(&late.n), 0);
}
END_TEST

/* A wait whose entry an operator deletes ends with EENTRY; a hold that was lost is told by the unlock. */
START_TEST(lost)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0), other = open_owned(name, 0);
    end waited = {0}, unlocked = {0};
    etcdctl_key keys[2];
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_async(other.mutex, end_take, &waited), 0);
    party_await_queue(&p, name, 2);
    ck_assert_uint_eq(etcdctl_keys(name, keys, 2), 2);
    etcdctl("del", keys[1].key, NULL);
    ck_assert_int_eq(end_await(&waited, 5000), ETCDLOCK_EENTRY);
    int fd = etcdlock_mutex_lost_fd(p.mutex);
    etcdctl("del", keys[0].key, NULL);
    ck_assert(live_readable(fd, 5000));
    ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, end_take, &unlocked), ETCDLOCK_EENTRY);
    ck_assert(!live_readable(fd, 0));
    ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, end_take, &unlocked), EPERM);
    party_close(&p);
    party_close(&other);
    ck_assert_int_eq(atomic_load(&unlocked.n), 0);
}
END_TEST

/* ---- wrong use
 * ------------------------------------------------------------------------------------------------ */

/* What cannot be begun says so at once, changes nothing, and calls nobody back. */
START_TEST(refused)
{
    static etcdlock_mutex_t dropin = ETCDLOCK_MUTEX_INITIALIZER("never-used");
    party p = party_open(live_name("a"), 0);
    etcdlock_mutex *owned = party_mutex(&p, live_name("b"), ETCDLOCK_HANDLE_OWNED);
    end e = {0};
    ck_assert_int_eq(etcdlock_mutex_lock_async(NULL, end_take, &e), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_lock_async(owned, NULL, &e), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, end_take, &e), EINVAL);
    ck_assert_ptr_nonnull(strstr(etcdlock_error_message(), "HANDLE_OWNED"));
    ck_assert_int_eq(etcdlock_mutex_trylock_async(&dropin, end_take, &e), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_lock_for_async(p.mutex, 1000, end_take, &e), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, end_take, &e), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock_async(owned, NULL, NULL), EPERM);
    ck_assert_int_eq(etcdlock_client_fd(NULL), -1);
    ck_assert_int_eq(etcdlock_client_dispatch(NULL), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_destroy(owned), 0);
    party_close(&p);
    ck_assert_int_eq(atomic_load(&e.n), 0);
}
END_TEST

/* In a forked child all of them say EFORKED and touch nothing of the parent's. */
START_TEST(forked)
{
    party p = open_owned(live_name("a"), 0);
    end e = {0};
    int status;
    int fd = etcdlock_client_fd(p.client);
    ck_assert_int_ge(fd, 0);
    pid_t child = fork();
    if (child == 0) {
        bool is_right = etcdlock_mutex_lock_async(p.mutex, end_take, &e) == ETCDLOCK_EFORKED &&
                        etcdlock_mutex_unlock_async(p.mutex, NULL, NULL) == ETCDLOCK_EFORKED &&
                        etcdlock_client_fd(p.client) == -1 &&
                        etcdlock_client_dispatch(p.client) == ETCDLOCK_EFORKED;
        _exit(is_right ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, end_take, &e), 0);
    ck_assert(live_readable(fd, 5000));
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
    ck_assert_int_eq(end_await(&e, 0), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("async", &cases, 60);
    tcase_add_test(cases, lock_and_unlock);
    tcase_add_test(cases, mixed);
    tcase_add_test(cases, in_order);
    tcase_add_test(cases, try_held);
    tcase_add_test(cases, limited);
    tcase_add_test(cases, cancel);
    tcase_add_test(cases, closed);
    tcase_add_test(cases, lost);
    tcase_add_test(cases, refused);
    tcase_add_test(cases, forked);
    return live_run(suite);
}
