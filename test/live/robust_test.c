/* Robust mutexes and the lock delay: who is told of a death, until it is repaired, and what waits for it. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/loss.h"

/* A party whose mutex has these options. */
static party open_with(const char *name, unsigned flags, int64_t lock_delay_ms, const char *label)
{
    party p = party_open(name, 0);
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    options.flags = flags;
    options.lock_delay_ms = lock_delay_ms;
    options.label = label;
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_new(&p.mutex, p.session, name, &options), 0);
    return p;
}

static party open_robust(const char *name)
{
    return open_with(name, ETCDLOCK_ROBUST, 0, NULL);
}

/* Locks, has its session closed under it as a process that ends does, and is gone. Returns the token. */
static uint64_t die_holding(party *p)
{
    uint64_t token = etcdlock_mutex_token(p->mutex);
    ck_assert_uint_ne(token, 0);
    ck_assert_int_eq(etcdlock_session_close(p->session), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(p->mutex), 0);
    ck_assert_int_eq(etcdlock_client_close(p->client), 0);
    return token;
}

static uint64_t lock_and_die(const char *name, unsigned flags, int64_t lock_delay_ms, const char *label)
{
    party p = open_with(name, flags, lock_delay_ms, label);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    return die_holding(&p);
}

static uint64_t dead_token(etcdlock_mutex *mutex)
{
    etcdlock_owner *owner;
    ck_assert_int_eq(etcdlock_mutex_dead_owner(mutex, &owner), 0);
    uint64_t token = owner->token;
    etcdlock_owner_free(owner);
    return token;
}

static void repair(party *p)
{
    ck_assert_int_eq(etcdlock_mutex_consistent(p->mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p->mutex), 0);
    party_close(p);
}

/* ---- who is told */

/* The death of a holder is told by every way to lock, though nobody waited then; the caller holds, and learns
 * who it was. */
START_TEST(told)
{
    const char *name = live_name("a");
    etcdlock_owner *owner;
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    for (int way = 0; way < 3; way++) {
        uint64_t token = lock_and_die(name, ETCDLOCK_ROBUST, 0, "nightly");
        party p = open_robust(name);
        int error = way == 0   ? etcdlock_mutex_lock(p.mutex)
                    : way == 1 ? etcdlock_mutex_trylock(p.mutex)
                               : etcdlock_mutex_lock_for(p.mutex, 3000);
        ck_assert_int_eq(error, EOWNERDEAD);
        ck_assert_ptr_nonnull(strstr(etcdlock_error_message(), "etcdlock_mutex_consistent"));
        ck_assert_uint_gt(etcdlock_mutex_token(p.mutex), token);
        ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 0), 0);
        ck_assert_int_eq(etcdlock_mutex_dead_owner(p.mutex, &owner), 0);
        ck_assert_uint_eq(owner->token, token);
        ck_assert_str_eq(owner->host, host);
        ck_assert_str_eq(owner->program, "robust_test");
        ck_assert_str_eq(owner->label, "nightly");
        ck_assert_int_eq(owner->pid, getpid());
        ck_assert_int_gt(owner->since_unix_ms, 0);
        ck_assert_uint_eq(strlen(owner->acquisition), 16);
        etcdlock_owner_free(owner);
        repair(&p);
    }
    ck_assert_uint_eq(etcdctl_count(name), 0);
}
END_TEST

/* After an unlock nobody is told anything; the mark stands while the lock is held, and no longer. */
START_TEST(not_told)
{
    const char *name = live_name("a");
    char mark[600];
    party p = open_robust(name), other = open_robust(name);
    etcdlock_owner *owner;
    snprintf(mark, sizeof mark, "%s.robust", name);
    for (int i = 0; i < 4; i++) {
        etcdlock_mutex *mutex = i % 2 ? p.mutex : other.mutex;
        ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
        ck_assert_uint_eq(etcdctl_count(mark), 1);
        ck_assert_int_eq(etcdlock_mutex_dead_owner(mutex, &owner), ENOENT);
        ck_assert_ptr_null(owner);
        ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
        ck_assert_uint_eq(etcdctl_count(mark), 0);
    }
    party_close(&p);
    party_close(&other);
}
END_TEST

/* Whoever waited when the holder died is told; the ones behind it are told until it has been repaired. */
START_TEST(waiters_told)
{
    const char *name = live_name("a");
    party p = open_robust(name), second = open_robust(name), third = open_robust(name);
    caller next, last;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    caller_start(&next, second.mutex, -1);
    party_await_queue(&second, name, 2);
    caller_start(&last, third.mutex, -1);
    party_await_queue(&second, name, 3);
    uint64_t token = die_holding(&p);
    ck_assert_int_eq(caller_result(&next, 5000), EOWNERDEAD);
    ck_assert(!caller_is_done(&last, 100));
    ck_assert_int_eq(caller_end(&next), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(second.mutex), EPERM);
    ck_assert_int_eq(caller_result(&last, 5000), EOWNERDEAD);
    ck_assert_int_eq(caller_end(&last), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(second.mutex), EOWNERDEAD);
    ck_assert_uint_eq(dead_token(second.mutex), token);
    repair(&second);
    ck_assert_int_eq(etcdlock_mutex_lock(third.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(third.mutex), 0);
    party_close(&third);
}
END_TEST

/* Whoever dies before the repair passes the first death on; whoever dies after it is told of as itself. */
START_TEST(dies_as_well)
{
    const char *name = live_name("a");
    uint64_t first = lock_and_die(name, ETCDLOCK_ROBUST, 0, NULL);
    party p = open_robust(name);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), EOWNERDEAD);
    (void)die_holding(&p);
    p = open_robust(name);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), EOWNERDEAD);
    ck_assert_uint_eq(dead_token(p.mutex), first);
    ck_assert_int_eq(etcdlock_mutex_consistent(p.mutex), 0);
    ck_assert_uint_eq(dead_token(p.mutex), first);
    uint64_t second = die_holding(&p);
    p = open_robust(name);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), EOWNERDEAD);
    ck_assert_uint_eq(dead_token(p.mutex), second);
    repair(&p);
}
END_TEST

/* An operator who deletes the entry of a holder makes a death of it, also for the same session; the unlock of
 * what was lost changes nothing about it. */
START_TEST(deleted)
{
    const char *name = live_name("a");
    char key[512];
    party p = open_robust(name);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
        uint64_t token = etcdlock_mutex_token(p.mutex);
        ck_assert_int_eq(etcdlock_mutex_key(p.mutex, key, sizeof key), 0);
        ck_assert_ptr_nonnull(strstr(etcdctl("del", key, NULL), "1"));
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ETCDLOCK_EENTRY);
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), EOWNERDEAD);
        ck_assert_uint_eq(dead_token(p.mutex), token);
        ck_assert_int_eq(etcdlock_mutex_consistent(p.mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    }
    party_close(&p);
}
END_TEST

/* A mark that nobody can read is a death of somebody unknown. */
START_TEST(unreadable)
{
    const char *name = live_name("a");
    static const char *const texts[] = {"junk", "held 7", "held x\n{}", ""};
    char mark[600];
    etcdlock_owner *owner;
    snprintf(mark, sizeof mark, "%s.robust", name);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        etcdctl("put", mark, texts[i], NULL);
        party p = open_robust(name);
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), EOWNERDEAD);
        ck_assert_int_eq(etcdlock_mutex_dead_owner(p.mutex, &owner), 0);
        ck_assert_uint_eq(owner->token, 0);
        ck_assert_str_eq(owner->host, "");
        etcdlock_owner_free(owner);
        repair(&p);
    }
}
END_TEST

typedef struct told_end {
    atomic_int n;
    int error;
    uint64_t token;
} told_end;

static void take(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    told_end *e = arg;
    (void)mutex;
    e->error = error;
    e->token = token;
    e->n++;
}

static bool was_told(void *arg)
{
    return ((told_end *)arg)->n > 0;
}

/* An asynchronous call is told as the others, and holds. */
START_TEST(told_by_callback)
{
    const char *name = live_name("a");
    unsigned flags = ETCDLOCK_ROBUST | ETCDLOCK_HANDLE_OWNED;
    told_end end = {0};
    uint64_t token = lock_and_die(name, flags, 0, NULL);
    party p = open_with(name, flags, 0, NULL);
    ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, take, &end), 0);
    ck_assert(live_wait_until(was_told, &end, 5000));
    ck_assert_int_eq(end.error, EOWNERDEAD);
    ck_assert_uint_gt(end.token, token);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), end.token);
    ck_assert_uint_eq(dead_token(p.mutex), token);
    repair(&p);
}
END_TEST

/* ---- what is refused */

/* There is nothing to repair without a death, twice, in a mutex that is not robust, or for one who does not
 * hold. */
START_TEST(nothing_to_repair)
{
    const char *name = live_name("a");
    etcdlock_owner *owner;
    party plain = party_open(live_name("b"), 0), p = open_robust(name);
    ck_assert_int_eq(etcdlock_mutex_consistent(NULL), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_dead_owner(p.mutex, NULL), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_consistent(p.mutex), EPERM);
    ck_assert_int_eq(etcdlock_mutex_dead_owner(p.mutex, &owner), EPERM);
    ck_assert_int_eq(etcdlock_mutex_lock(plain.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_consistent(plain.mutex), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_unlock(plain.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_consistent(p.mutex), EINVAL);
    (void)die_holding(&p);
    p = open_robust(name);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), EOWNERDEAD);
    ck_assert_int_eq(etcdlock_mutex_consistent(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_consistent(p.mutex), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&plain);
}
END_TEST

/* A delay out of its range, or an unknown flag, makes no mutex. */
START_TEST(odd_options)
{
    party p = party_open(live_name("a"), 0);
    etcdlock_mutex *mutex;
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    options.lock_delay_ms = -1;
    ck_assert_int_eq(etcdlock_mutex_new(&mutex, p.session, "x", &options), EINVAL);
    options.lock_delay_ms = 3600001;
    ck_assert_int_eq(etcdlock_mutex_new(&mutex, p.session, "x", &options), EINVAL);
    options.lock_delay_ms = 0;
    options.flags = 1u << 3;
    ck_assert_int_eq(etcdlock_mutex_new(&mutex, p.session, "x", &options), EINVAL);
    party_close(&p);
}
END_TEST

/* A mutex with neither option makes no mark, and heeds none. */
START_TEST(plain)
{
    const char *name = live_name("a");
    char mark[600];
    (void)lock_and_die(name, ETCDLOCK_ROBUST, 0, NULL);
    snprintf(mark, sizeof mark, "%s.robust", name);
    party p = party_open(name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_uint_eq(etcdctl_count(mark), 1);
    etcdctl("del", mark, NULL);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_uint_eq(etcdctl_count(mark), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

/* A recursive holder is told once; the mark goes with the last unlock. */
START_TEST(recursive)
{
    const char *name = live_name("a");
    (void)lock_and_die(name, ETCDLOCK_ROBUST | ETCDLOCK_RECURSIVE, 0, NULL);
    party p = open_with(name, ETCDLOCK_ROBUST | ETCDLOCK_RECURSIVE, 0, NULL);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), EOWNERDEAD);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_consistent(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_uint_eq(etcdctl_count(name), 3); /* entry, record, mark */
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_uint_eq(etcdctl_count(name), 0);
    party_close(&p);
}
END_TEST

/* ---- the delay */

enum { DELAY_MS = 1500 };

/* After a death the lock is held only when the delay is over; after an unlock at once. */
START_TEST(delay)
{
    const char *name = live_name("a");
    (void)lock_and_die(name, 0, DELAY_MS, NULL);
    party p = open_with(name, 0, DELAY_MS, NULL);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_ge(live_now_ms() - began_ms, DELAY_MS);
    live_within(began_ms, DELAY_MS + 500);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    live_within(began_ms, 500);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

static bool can_lock(void *arg)
{
    int error = etcdlock_mutex_trylock(arg);
    ck_assert_msg(error == 0 || error == EBUSY || error == EOWNERDEAD, "%d", error);
    return error != EBUSY;
}

/* Whoever only tries is told that the lock is busy until the delay, counted from its first try, is over; so
 * is one who waits for less than that. Nothing is left of any of them. */
START_TEST(delay_and_tries)
{
    const char *name = live_name("a");
    (void)lock_and_die(name, ETCDLOCK_ROBUST, DELAY_MS, NULL);
    party p = open_with(name, ETCDLOCK_ROBUST, DELAY_MS, NULL);
    char folder[600];
    snprintf(folder, sizeof folder, "%s/", name);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), EBUSY);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 200), ETIMEDOUT);
    party_await_queue(&p, name, 0);
    ck_assert_uint_eq(etcdctl_count(folder), 0);
    ck_assert(live_wait_until(can_lock, p.mutex, 5000));
    ck_assert_int_ge(live_now_ms() - began_ms, DELAY_MS);
    live_within(began_ms, DELAY_MS + 500);
    repair(&p);
}
END_TEST

/* A wait for the end of the delay ends as any other: by cancel, or with the entry. The death is not forgotten
 * by that. */
START_TEST(delay_given_up)
{
    const char *name = live_name("a");
    caller waiter;
    etcdctl_key key;
    (void)lock_and_die(name, ETCDLOCK_ROBUST, 20000, NULL);
    party p = open_with(name, ETCDLOCK_ROBUST, 20000, NULL);
    caller_start(&waiter, p.mutex, -1);
    party_await_queue(&p, name, 1);
    ck_assert(!caller_is_done(&waiter, 300));
    ck_assert_int_eq(etcdlock_mutex_cancel(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, 10000), ECANCELED);
    ck_assert_int_eq(caller_end(&waiter), 0);
    party_await_queue(&p, name, 0);
    caller_start(&waiter, p.mutex, -1);
    party_await_queue(&p, name, 1);
    ck_assert(!caller_is_done(&waiter, 300));
    char folder[600];
    snprintf(folder, sizeof folder, "%s/", name);
    ck_assert_uint_eq(etcdctl_keys(folder, &key, 1), 1);
    etcdctl("del", key.key, NULL);
    ck_assert_int_eq(caller_result(&waiter, 10000), ETCDLOCK_EENTRY);
    ck_assert_int_eq(caller_end(&waiter), 0);
    party_close(&p);
    p = open_robust(name);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), EOWNERDEAD);
    repair(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("robust", &cases, 60);
    tcase_add_test(cases, told);
    tcase_add_test(cases, told_by_callback);
    tcase_add_test(cases, not_told);
    tcase_add_test(cases, waiters_told);
    tcase_add_test(cases, dies_as_well);
    tcase_add_test(cases, deleted);
    tcase_add_test(cases, unreadable);
    tcase_add_test(cases, nothing_to_repair);
    tcase_add_test(cases, odd_options);
    tcase_add_test(cases, plain);
    tcase_add_test(cases, recursive);
    tcase_add_test(cases, delay);
    tcase_add_test(cases, delay_and_tries);
    tcase_add_test(cases, delay_given_up);
    return live_run(suite);
}
