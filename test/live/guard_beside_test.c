/* Guarded writes beside other contenders, by threads that share a hold, and with each kind of mutex. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/caller.h"
#include "support/child.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/written.h"

/* ---- beside others */

/* The record of a holder that writes is no contender: waiters come in at once, the queue does not show it,
 * and unlock leaves nothing. */
START_TEST(record_is_in_nobodys_way)
{
    const char *name = live_name("a"), *key = live_name("data");
    party p = open_held(name), other = party_open(name, 0), third = party_open(name, 0);
    caller waiter, last;
    etcdlock_queue *queue;
    ck_assert_int_eq(put_text(p.mutex, key, "x"), 0);
    ck_assert_uint_eq(etcdctl_count(name), 2);
    ck_assert_int_eq(etcdlock_mutex_trylock(other.mutex), EBUSY);
    ck_assert_int_eq(etcdlock_mutex_lock_for(other.mutex, 100), ETIMEDOUT);
    party_await_queue(&p, name, 1);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&p, name, 2);
    caller_start(&last, third.mutex, -1);
    party_await_queue(&p, name, 3);
    ck_assert_int_eq(put_text(p.mutex, key, "y"), 0);
    ck_assert_int_eq(etcdlock_queue_get(&queue, p.client, name), 0);
    ck_assert_uint_eq(etcdlock_queue_size(queue), 3);
    etcdlock_queue_free(queue);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, 5000), 0);
    ck_assert(!caller_is_done(&last, 100));
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_eq(caller_result(&last, 5000), 0);
    ck_assert_int_eq(caller_end(&last), 0);
    ck_assert_uint_eq(etcdctl_count(name), 0);
    etcdctl("del", key, NULL);
    party_close(&p);
    party_close(&other);
    party_close(&third);
}
END_TEST

/* etcdctl waits behind a holder that writes and gets in as it leaves; and we behind etcdctl, to write then.
 */
START_TEST(etcdctl_beside_us)
{
    const char *name = live_name("a"), *key = live_name("data");
    party p = open_held(name);
    etcdctl_holder holder;
    caller waiter;
    ck_assert_int_eq(put_text(p.mutex, key, "x"), 0);
    etcdctl_lock(&holder, name);
    party_await_queue(&p, name, 2);
    ck_assert_int_eq(put_text(p.mutex, key, "y"), 0);
    ck_assert(!etcdctl_holds(&holder, 300));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert(etcdctl_holds(&holder, 5000));
    caller_start(&waiter, p.mutex, -1);
    party_await_queue(&p, name, 2);
    ck_assert(!caller_is_done(&waiter, 200));
    etcdctl_unlock(&holder);
    ck_assert_int_eq(caller_result(&waiter, 5000), 0);
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    expect_value(p.mutex, key, "y");
    ck_assert_int_eq(etcdlock_mutex_delete(p.mutex, key), 0);
    unlock_and_close(&p);
}
END_TEST

/* ---- kinds of mutexes */

enum { WRITERS = 6, WRITES = 40 };

typedef struct writers {
    etcdlock_mutex *mutex;
    const char *key;
} writers;

static void *write_many(void *arg)
{
    const writers *w = arg;
    for (int i = 0; i < WRITES; i++)
        ck_assert_int_eq(put_text(w->mutex, w->key, "x"), 0);
    return NULL;
}

/* Threads that share a hold write by turns: every write is applied, none twice. */
START_TEST(threads_share_a_hold)
{
    const char *name = live_name("a");
    pthread_t threads[WRITERS];
    party p = party_open(name, 0);
    etcdlock_mutex *mutex = party_mutex(&p, name, ETCDLOCK_HANDLE_OWNED);
    writers w = {mutex, live_name("data")};
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
    int64_t before = etcdctl_revision();
    for (int i = 0; i < WRITERS; i++)
        pthread_create(&threads[i], NULL, write_many, &w);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(etcdctl_revision(), before + WRITERS * WRITES);
    ck_assert_int_eq(etcdlock_mutex_delete(mutex, w.key), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(mutex), 0);
    party_close(&p);
}
END_TEST

/* A recursive holder writes at any depth, until the last unlock. */
START_TEST(recursive)
{
    const char *name = live_name("a"), *key = live_name("data");
    party p = party_open(name, 0);
    etcdlock_mutex *mutex = party_mutex(&p, name, ETCDLOCK_RECURSIVE);
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
    ck_assert_int_eq(put_text(mutex, key, "inner"), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
    ck_assert_int_eq(put_text(mutex, key, "outer"), 0);
    expect_value(mutex, key, "outer");
    ck_assert_int_eq(etcdlock_mutex_delete(mutex, key), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
    ck_assert_int_eq(put_text(mutex, key, "x"), EPERM);
    ck_assert_int_eq(etcdlock_mutex_destroy(mutex), 0);
    party_close(&p);
}
END_TEST

static etcdlock_mutex_t static_lock = ETCDLOCK_MUTEX_INITIALIZER("drop-in");

static void use_drop_in(child *parent, void *arg)
{
    (void)parent, (void)arg;
    live_set_environment();
    ck_assert_int_eq(put_text(&static_lock, "data", "x"), EPERM);
    ck_assert_int_eq(etcdlock_mutex_lock(&static_lock), 0);
    ck_assert_int_eq(put_text(&static_lock, "data", "x"), 0);
    expect_stored(live_name("data"), "x");
    ck_assert_int_eq(etcdlock_mutex_delete(&static_lock, "data"), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(&static_lock), 0);
    ck_assert_uint_eq(etcdctl_count(live_name("drop-in")), 0);
}

/* The drop-in form writes as any other; before it was ever locked it is not held. */
START_TEST(drop_in)
{
    child c;
    child_start(&c, use_drop_in, NULL);
    child_end(&c);
}
END_TEST

static void write_in_child(child *parent, void *arg)
{
    (void)parent;
    ck_assert_int_eq(put_text(arg, live_name("data"), "x"), ETCDLOCK_EFORKED);
    _exit(EXIT_SUCCESS); /* what only the parent's threads point to is no leak */
}

/* A forked child does not write with what its parent holds. */
START_TEST(forked)
{
    child c;
    party p = open_held(live_name("a"));
    child_start(&c, write_in_child, p.mutex);
    child_end(&c);
    ck_assert_uint_eq(etcdctl_count(live_name("data")), 0);
    unlock_and_close(&p);
}
END_TEST

/* After the session was closed the calls say so. */
START_TEST(closed)
{
    const char *key = live_name("data");
    party p = open_held(live_name("a"));
    ck_assert_int_eq(put_text(p.mutex, key, "x"), 0);
    ck_assert_int_eq(etcdlock_session_close(p.session), 0);
    ck_assert_int_eq(put_text(p.mutex, key, "y"), ECANCELED);
    expect_stored(key, "x");
    etcdctl("del", key, NULL);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    ck_assert_int_eq(etcdlock_client_close(p.client), 0);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("guard_beside", &cases, 60);
    tcase_add_test(cases, record_is_in_nobodys_way);
    tcase_add_test(cases, etcdctl_beside_us);
    tcase_add_test(cases, threads_share_a_hold);
    tcase_add_test(cases, recursive);
    tcase_add_test(cases, drop_in);
    tcase_add_test(cases, forked);
    tcase_add_test(cases, closed);
    return live_run(suite);
}
