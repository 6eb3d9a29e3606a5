/* fork(): the child of a process that uses the library never speaks for its parent. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/child.h"
#include "support/etcdctl.h"
#include "support/live.h"

static etcdlock_mutex_t lock = ETCDLOCK_MUTEX_INITIALIZER("drop-in");

/* The child leaves without the exit handlers of a parent that is full of threads. */
static void use_parents_handles(child *parent, void *arg)
{
    party *p = arg;
    etcdlock_session *session;
    etcdlock_mutex *mutex;
    etcdlock_queue *queue;
    char key[256];
    ck_assert_int_eq(etcdlock_mutex_lock(p->mutex), ETCDLOCK_EFORKED);
    ck_assert_int_eq(etcdlock_mutex_trylock(p->mutex), ETCDLOCK_EFORKED);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p->mutex, 10), ETCDLOCK_EFORKED);
    ck_assert_int_eq(etcdlock_mutex_unlock(p->mutex), ETCDLOCK_EFORKED);
    ck_assert_int_eq(etcdlock_mutex_cancel(p->mutex), ETCDLOCK_EFORKED);
    ck_assert_int_eq(etcdlock_mutex_ensure(p->mutex, 1), ETCDLOCK_EFORKED);
    ck_assert_int_eq(etcdlock_mutex_key(p->mutex, key, sizeof key), ETCDLOCK_EFORKED);
    ck_assert_uint_eq(etcdlock_mutex_token(p->mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_remaining_ms(p->mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lost_fd(p->mutex), -1);
    ck_assert_int_eq(etcdlock_mutex_new(&mutex, p->session, "a", NULL), ETCDLOCK_EFORKED);
    ck_assert_int_eq(etcdlock_queue_get(&queue, p->client, "a"), ETCDLOCK_EFORKED);
    ck_assert_int_eq(etcdlock_session_open(&session, p->client, NULL), ETCDLOCK_EFORKED);
    ck_assert_int_eq(etcdlock_session_get_state(p->session), ETCDLOCK_SESSION_LOST);
    ck_assert_int_eq(etcdlock_session_remaining_ms(p->session), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(p->mutex), ETCDLOCK_EFORKED);
    ck_assert_int_eq(etcdlock_session_close(p->session), ETCDLOCK_EFORKED);
    ck_assert_int_eq(etcdlock_client_close(p->client), ETCDLOCK_EFORKED);
    child_send(parent, 0);
    child_receive(parent);
    _exit(EXIT_SUCCESS);
}

/* Every function is EFORKED in the child, and the parent's lock stays what it was. */
START_TEST(handles)
{
    const char *name = live_name("a");
    party p = party_open(name, 4);
    child c;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    child_start(&c, use_parents_handles, &p);
    child_receive(&c);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), token);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 1000), 0);
    child_send(&c, 0);
    child_end(&c);
    live_await_renewals(p.session, p.mutex, 3); /* beyond the time to live */
    ck_assert_uint_eq(etcdctl_count(name), 1);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

static void lock_own(child *parent, void *arg)
{
    child_receive(parent);
    party p = party_open(arg, 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), EBUSY);
    child_send(parent, 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 20000), 0);
    child_send(parent, (int64_t)etcdlock_mutex_token(p.mutex));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    _exit(EXIT_SUCCESS);
}

/* A child that was forked before its parent opened a client opens its own and queues behind it. */
START_TEST(own_client)
{
    const char *name = live_name("a");
    child c;
    child_start(&c, lock_own, (void *)(uintptr_t)name);
    party p = party_open(name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    int64_t token = (int64_t)etcdlock_mutex_token(p.mutex);
    child_send(&c, 0);
    child_receive(&c);
    party_await_queue(&p, name, 2);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_gt(child_receive(&c), token);
    child_end(&c);
    party_close(&p);
}
END_TEST

static void fail_to_open(child *parent, void *arg)
{
    etcdlock_client_options options = live_options();
    etcdlock_client *client;
    (void)parent, (void)arg;
    ck_assert_int_eq(etcdlock_client_open(&client, &options), ETCDLOCK_EFORKED);
    ck_assert_ptr_null(client);
    ck_assert_ptr_nonnull(strstr(etcdlock_error_message(), "before it forked"));
    _exit(EXIT_SUCCESS);
}

/* A child whose parent had a client before is told that it cannot have one, instead of hanging in gRPC; also
 * when the parent has closed it meanwhile. */
START_TEST(late_child)
{
    party p = party_open(live_name("a"), 0);
    child c;
    child_start(&c, fail_to_open, NULL);
    child_end(&c);
    party_close(&p);
    child_start(&c, fail_to_open, NULL);
    child_end(&c);
}
END_TEST

static void use_parents_static(child *parent, void *arg)
{
    (void)arg;
    ck_assert_uint_eq(etcdlock_mutex_token(&lock), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(&lock), EPERM);
    ck_assert_int_eq(etcdlock_mutex_trylock(&lock), ETCDLOCK_EFORKED);
    ck_assert_int_eq(etcdlock_mutex_lock(&lock), ETCDLOCK_EFORKED);
    child_send(parent, 0);
    _exit(EXIT_SUCCESS);
}

static void lock_and_fork(child *parent, void *arg)
{
    (void)arg;
    child c;
    ck_assert_int_eq(etcdlock_mutex_lock(&lock), 0);
    int64_t token = (int64_t)etcdlock_mutex_token(&lock);
    child_start(&c, use_parents_static, NULL);
    child_receive(&c);
    child_end(&c);
    ck_assert_int_eq((int64_t)etcdlock_mutex_token(&lock), token);
    ck_assert_int_eq(etcdlock_mutex_unlock(&lock), 0);
    child_send(parent, 0);
}

/* A static mutex that the parent holds is not held by the child, which can do nothing with it. */
START_TEST(drop_in)
{
    child c;
    live_set_environment();
    child_start(&c, lock_and_fork, NULL);
    child_receive(&c);
    child_end(&c);
    ck_assert_uint_eq(etcdctl_count(live_name("")), 0);
}
END_TEST

static void exit_at_once(child *parent, void *arg)
{
    (void)parent, (void)arg;
    child_without_threads();
    exit(EXIT_SUCCESS);
}

static void fork_and_go_on(child *parent, void *arg)
{
    (void)parent, (void)arg;
    ck_assert_int_eq(etcdlock_mutex_lock(&lock), 0);
    for (int i = 0; i < 5; i++) {
        child c;
        child_start(&c, exit_at_once, NULL);
        child_end(&c);
    }
    ck_assert_int_eq(etcdlock_mutex_ensure(&lock, 100), 0);
    ck_assert_uint_eq(etcdctl_count(live_name("")), 1);
    ck_assert_int_eq(etcdlock_mutex_unlock(&lock), 0);
}

/* A child that exits without a word closes nothing of its parent's. */
START_TEST(silent_child)
{
    child c;
    live_set_environment();
    child_start(&c, fork_and_go_on, NULL);
    child_end(&c);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("fork", &cases, 40);
    tcase_add_test(cases, handles);
    tcase_add_test(cases, own_client);
    tcase_add_test(cases, late_child);
    tcase_add_test(cases, drop_in);
    tcase_add_test(cases, silent_child);
    return live_run(suite);
}
