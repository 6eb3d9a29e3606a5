/* Unlocking what is not held: an error each time, and nothing in etcd is touched. */
/* cluster: 1 */
#include <errno.h>
#include <string.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"

/* Beside the store's revision, which every delete raises, what stands under the name. */
typedef struct sight {
    int64_t revision;
    etcdctl_key key;
} sight;

static sight look(const char *name)
{
    sight s = {.revision = etcdctl_revision()};
    ck_assert_uint_eq(etcdctl_keys(name, &s.key, 1), 1);
    return s;
}

static void expect_untouched(const char *name, const sight *before)
{
    sight now = look(name);
    ck_assert_int_eq(now.revision, before->revision);
    ck_assert_str_eq(now.key.key, before->key.key);
    ck_assert_int_eq(now.key.create_revision, before->key.create_revision);
    ck_assert_int_eq(now.key.mod_revision, before->key.mod_revision);
}

static void expect_refused(etcdlock_mutex *mutex, int error)
{
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), error);
    ck_assert_str_ne(etcdlock_error_message(), "");
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), EPERM);
    ck_assert_uint_eq(etcdlock_mutex_token(mutex), 0);
}

static void expect_invalid(etcdlock_mutex *mutex)
{
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), EINVAL);
    ck_assert_uint_eq(etcdlock_mutex_token(mutex), 0);
}

/* (B39) A handle that was never locked, one whose try or wait failed, one unlocked already, none, one of
 * zeros, a static one: each unlock is refused while somebody else holds the same name. */
START_TEST(not_held)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0);
    etcdlock_mutex *owned = party_mutex(&p, name, ETCDLOCK_HANDLE_OWNED);
    etcdlock_mutex *recursive = party_mutex(&p, name, ETCDLOCK_RECURSIVE);
    etcdlock_mutex *fresh = party_mutex(&p, name, 0);
    etcdlock_mutex zeros, not_used = ETCDLOCK_MUTEX_INITIALIZER("not used");
    memset(&zeros, 0, sizeof zeros);
    ck_assert_int_eq(etcdlock_mutex_lock(recursive), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(recursive), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(recursive), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(recursive), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(other.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for(owned, 50), ETIMEDOUT);
    party_await_queue(&p, name, 1);
    sight before = look(name);
    expect_refused(p.mutex, EPERM);
    expect_refused(owned, EPERM);
    expect_refused(recursive, EPERM);
    expect_refused(fresh, EPERM);
    ck_assert_int_eq(etcdlock_mutex_trylock(fresh), EBUSY);
    expect_refused(fresh, EPERM);
    expect_refused(&not_used, EPERM);
    expect_invalid(&zeros);
    expect_invalid(NULL);
    expect_untouched(name, &before);
    ck_assert_int_eq(etcdlock_mutex_ensure(other.mutex, 1), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(owned), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(recursive), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(fresh), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

static void *unlock_here(void *arg)
{
    return (void *)(intptr_t)etcdlock_mutex_unlock(arg);
}

/* (B39) Another thread than the one that locked unlocks, or somebody destroys the handle: refused, and the
 * lock is held as before. */
START_TEST(not_held_by_this_thread)
{
    const char *name = live_name("a");
    party p = party_open(name, 0);
    pthread_t thread;
    void *result;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    sight before = look(name);
    ck_assert_int_eq(pthread_create(&thread, NULL, unlock_here, p.mutex), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_int_eq((intptr_t)result, EPERM);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), EBUSY);
    expect_untouched(name, &before);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), token);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

/* (B39) The lease of the holder is gone and the next one holds: the late unlock says that the lock was lost,
 * the one after it that it is not held, and the next one's entry stays. */
START_TEST(expired)
{
    const char *name = live_name("a");
    party p = party_open(name, 3), other = party_open(name, 0);
    caller heir;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    caller_start(&heir, other.mutex, -1);
    party_await_queue(&other, name, 2);
    ck_assert(etcdctl_revoke(etcdlock_session_lease(p.session)));
    ck_assert_int_eq(caller_result(&heir, 5000), 0);
    ck_assert(live_readable(etcdlock_session_lost_fd(p.session), 5000));
    sight before = look(name);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), EBUSY);
    int error = etcdlock_mutex_unlock(p.mutex);
    ck_assert_msg(error == ETCDLOCK_ESESSION || error == ETCDLOCK_EENTRY, "%d", error);
    expect_refused(p.mutex, EPERM);
    expect_untouched(name, &before);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    ck_assert_int_eq(etcdlock_session_close(p.session), ETCDLOCK_ESESSION);
    ck_assert_int_eq(etcdlock_client_close(p.client), 0);
    expect_untouched(name, &before);
    ck_assert_int_eq(caller_end(&heir), 0);
    party_close(&other);
}
END_TEST

/* (B39) The session or the client under a held lock is closed first: unlocking and destroying are safe and
 * touch nobody's key. */
START_TEST(closed_below)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_session_close(p.session), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for(other.mutex, 2000), 0);
    sight before = look(name);
    expect_refused(p.mutex, ECANCELED);
    ck_assert_int_eq(etcdlock_client_close(p.client), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    expect_untouched(name, &before);
    ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), 0);
    party_close(&other);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("not_held", &cases, 30);
    tcase_add_test(cases, not_held);
    tcase_add_test(cases, not_held_by_this_thread);
    tcase_add_test(cases, expired);
    tcase_add_test(cases, closed_below);
    return live_run(suite);
}
