/* Losing the mutex: by a revoked lease, by a deleted entry; as a holder and as a waiter. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"

typedef struct loss {
    etcdlock_mutex *mutex;
    atomic_int n;
    atomic_int error;
    _Atomic uint64_t token;
    atomic_int relock; /* what trylock said inside the callback, plus 1 */
} loss;

static void note_loss(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    loss *l = arg;
    l->mutex = mutex;
    l->error = error;
    l->token = token;
    int result = etcdlock_mutex_trylock(mutex);
    if (result == 0) result = etcdlock_mutex_unlock(mutex);
    l->relock = result + 1;
    l->n++;
}

static bool was_lost(void *arg)
{
    return ((loss *)arg)->n > 0;
}

/* A party whose mutex tells l of its losses. */
static party open_with_loss(const char *name, int64_t ttl_s, unsigned flags, loss *l)
{
    party p = party_open(name, ttl_s);
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    options.flags = flags;
    options.on_lost = note_loss;
    options.on_lost_arg = l;
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_new(&p.mutex, p.session, name, &options), 0);
    return p;
}

static void delete_entry(etcdlock_mutex *mutex)
{
    char key[512];
    ck_assert_int_eq(etcdlock_mutex_key(mutex, key, sizeof key), 0);
    ck_assert_ptr_nonnull(strstr(etcdctl("del", key, NULL), "1"));
}

/* A holder whose entry an operator deletes learns it by all ways; unlock says it once, then all is new. */
START_TEST(holder_deleted)
{
    loss l = {0};
    const char *name = live_name("a");
    party p = open_with_loss(name, 0, 0, &l);
    int fd = etcdlock_mutex_lost_fd(p.mutex);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    ck_assert(!live_readable(fd, 100));
    delete_entry(p.mutex);
    ck_assert(live_readable(fd, 10000));
    ck_assert(live_wait_until(was_lost, &l, 10000));
    ck_assert_int_eq(l.error, ETCDLOCK_EENTRY);
    ck_assert_uint_eq(l.token, token);
    ck_assert_ptr_eq(l.mutex, p.mutex);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_remaining_ms(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 0), ETCDLOCK_EENTRY);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), EBUSY);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), EDEADLK);
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), EBUSY);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ETCDLOCK_EENTRY);
    ck_assert(!live_readable(fd, 0));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), EPERM);
    ck_assert_int_eq(etcdlock_session_get_state(p.session), ETCDLOCK_SESSION_OK);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_uint_gt(etcdlock_mutex_token(p.mutex), token);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(l.n, 1);
    party_close(&p);
}
END_TEST

/* An entry deleted just before the unlock: the unlock finds it out, and deletes nobody else's. */
START_TEST(deleted_at_once)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
        delete_entry(p.mutex);
        ck_assert_int_eq(etcdlock_mutex_lock(other.mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ETCDLOCK_EENTRY);
        ck_assert_uint_eq(etcdctl_count(name), 1);
        ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), 0);
    }
    party_close(&p);
    party_close(&other);
}
END_TEST

/* A revoked lease takes every hold of the session; the callback may use the mutex, and hears of the session.
 */
START_TEST(holder_revoked)
{
    loss l = {0};
    const char *name = live_name("a");
    party p = open_with_loss(name, 3, 0, &l), other = party_open(name, 0);
    caller heir;
    int fd = etcdlock_mutex_lost_fd(p.mutex);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    caller_start(&heir, other.mutex, -1);
    party_await_queue(&p, name, 2);
    int64_t began_ms = live_now_ms();
    ck_assert(etcdctl_revoke(etcdlock_session_lease(p.session)));
    ck_assert(live_readable(fd, 10000));
    live_within(began_ms, 1000);
    ck_assert_int_eq(caller_result(&heir, 10000), 0);
    ck_assert_uint_gt(heir.token, token);
    ck_assert(live_wait_until(was_lost, &l, 10000));
    ck_assert_msg(l.error == ETCDLOCK_ESESSION || l.error == ETCDLOCK_EENTRY, "%d", l.error);
    ck_assert_uint_eq(l.token, token);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 0), l.error);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), l.error);
    ck_assert_int_eq(caller_end(&heir), 0);
    ck_assert(live_readable(etcdlock_session_lost_fd(p.session), 5000));
    ck_assert_int_eq(etcdlock_session_close(p.session), ETCDLOCK_ESESSION);
    p.session = NULL;
    party_close(&p);
    party_close(&other);
}
END_TEST

/* A waiter whose entry is deleted ends within a second, while the holder still holds, and queues no more. */
START_TEST(waiter_deleted)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0);
    caller waiter;
    etcdctl_key keys[2];
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&p, name, 2);
    ck_assert_uint_eq(etcdctl_keys(name, keys, 2), 2);
    int64_t began_ms = live_now_ms();
    etcdctl("del", keys[1].key, NULL);
    ck_assert_int_eq(caller_result(&waiter, 3000), ETCDLOCK_EENTRY);
    live_within(began_ms, 1000);
    ck_assert_uint_eq(etcdctl_count(name), 1);
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* So does a waiter whose lease is revoked. */
START_TEST(waiter_revoked)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 60);
    caller waiter;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&p, name, 2);
    int64_t began_ms = live_now_ms();
    ck_assert(etcdctl_revoke(etcdlock_session_lease(other.session)));
    int error = caller_result(&waiter, 3000);
    live_within(began_ms, 1000);
    ck_assert_msg(error == ETCDLOCK_ESESSION || error == ETCDLOCK_EENTRY, "%d", error);
    ck_assert_uint_eq(etcdctl_count(name), 1);
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert(live_readable(etcdlock_session_lost_fd(other.session), 3000));
    ck_assert_int_eq(etcdlock_session_close(other.session), ETCDLOCK_ESESSION);
    other.session = NULL;
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* A waiter whose lease goes in the same moment as the holder's entry never holds; the one behind it does. */
START_TEST(waiter_revoked_as_its_turn_comes)
{
    const char *name = live_name("a");
    for (int i = 0; i < 6; i++) {
        party p = party_open(name, 0), other = party_open(name, 3), last = party_open(name, 0);
        caller waiter, heir;
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
        caller_start(&waiter, other.mutex, -1);
        party_await_queue(&p, name, 2);
        caller_start(&heir, last.mutex, -1);
        party_await_queue(&p, name, 3);
        int64_t lease = etcdlock_session_lease(other.session);
        if (i % 2) ck_assert(etcdctl_revoke(lease));
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
        if (i % 2 == 0) ck_assert(etcdctl_revoke(lease));
        int error = caller_result(&waiter, 3000);
        if (i % 2) ck_assert_msg(error == ETCDLOCK_ESESSION || error == ETCDLOCK_EENTRY, "%d", error);
        ck_assert_int_eq(caller_result(&heir, 3000), 0);
        ck_assert_int_eq(caller_end(&heir), 0);
        error = caller_end(&waiter);
        ck_assert_msg(error == 0 || error == ETCDLOCK_ESESSION || error == ETCDLOCK_EENTRY, "%d", error);
        ck_assert(live_readable(etcdlock_session_lost_fd(other.session), 3000));
        ck_assert_int_eq(etcdlock_session_close(other.session), ETCDLOCK_ESESSION);
        other.session = NULL;
        party_close(&p);
        party_close(&other);
        party_close(&last);
    }
}
END_TEST

/* A lost recursive hold cannot be locked further; each of its unlocks says why. */
START_TEST(recursive_lost)
{
    const char *name = live_name("a");
    party p = party_open(name, 0);
    etcdlock_mutex *mutex = party_mutex(&p, name, ETCDLOCK_RECURSIVE);
    int fd = etcdlock_mutex_lost_fd(mutex);
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
    delete_entry(mutex);
    ck_assert(live_readable(fd, 10000));
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), ETCDLOCK_EENTRY);
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), ETCDLOCK_EENTRY);
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), ETCDLOCK_EENTRY);
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), EPERM);
    ck_assert_int_eq(etcdlock_mutex_destroy(mutex), 0);
    party_close(&p);
}
END_TEST

/* Of several holds of one session a deletion takes one; the others stay. */
START_TEST(only_one_of_several)
{
    party p = party_open(live_name("a"), 0);
    etcdlock_mutex *b = party_mutex(&p, live_name("b"), ETCDLOCK_HANDLE_OWNED);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(b), 0);
    int fd = etcdlock_mutex_lost_fd(b);
    delete_entry(b);
    ck_assert(live_readable(fd, 10000));
    ck_assert_uint_ne(etcdlock_mutex_token(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 100), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(b), ETCDLOCK_EENTRY);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(b), 0);
    party_close(&p);
}
END_TEST

/* A descriptor first asked for after the loss is readable at once. */
START_TEST(late_descriptor)
{
    loss l = {0};
    party p = open_with_loss(live_name("a"), 0, 0, &l);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    delete_entry(p.mutex);
    ck_assert(live_wait_until(was_lost, &l, 10000));
    ck_assert(live_readable(etcdlock_mutex_lost_fd(p.mutex), 0));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ETCDLOCK_EENTRY);
    ck_assert(!live_readable(etcdlock_mutex_lost_fd(p.mutex), 0));
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("mutex_lost", &cases, 30);
    tcase_add_test(cases, holder_deleted);
    tcase_add_test(cases, deleted_at_once);
    tcase_add_test(cases, holder_revoked);
    tcase_add_test(cases, waiter_deleted);
    tcase_add_test(cases, waiter_revoked);
    tcase_add_test(cases, waiter_revoked_as_its_turn_comes);
    tcase_add_test(cases, recursive_lost);
    tcase_add_test(cases, only_one_of_several);
    tcase_add_test(cases, late_descriptor);
    return live_run(suite);
}
