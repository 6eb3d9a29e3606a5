/* fork(): the child of a process that uses the library never speaks for its parent, and can use its own. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/child.h"
#include "support/etcdctl.h"
#include "support/live.h"

static etcdlock_mutex_t lock = ETCDLOCK_MUTEX_INITIALIZER("drop-in");

static void set_environment(void)
{
    setenv("ETCDCTL_ENDPOINTS", getenv("ETCDLOCK_TEST_ENDPOINTS"), 1);
    setenv("ETCDLOCK_PREFIX", live_name(""), 1);
}

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
    party p = party_open(name, 2);
    child c;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    child_start(&c, use_parents_handles, &p);
    child_receive(&c);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), token);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 1000), 0);
    child_send(&c, 0);
    child_end(&c);
    int64_t began_ms = live_now_ms();
    while (live_now_ms() - began_ms < 2500) /* beyond the time to live: it is still renewed */
        ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 1000), 0);
    ck_assert_uint_eq(etcdctl_count(name), 1);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

static void lock_own(child *parent, void *arg)
{
    party p = party_open(arg, 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), EBUSY);
    child_send(parent, 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 20000), 0);
    child_send(parent, (int64_t)etcdlock_mutex_token(p.mutex));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    _exit(EXIT_SUCCESS);
}

/* A child opens a client of its own and queues behind its parent. */
START_TEST(own_client)
{
    const char *name = live_name("a");
    party p = party_open(name, 0);
    child c;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    int64_t token = (int64_t)etcdlock_mutex_token(p.mutex);
    child_start(&c, lock_own, (void *)(uintptr_t)name);
    child_receive(&c);
    party_await_queue(&p, name, 2);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_gt(child_receive(&c), token);
    child_end(&c);
    party_close(&p);
}
END_TEST

static void lock_in_grandchild(child *parent, void *arg)
{
    (void)arg;
    ck_assert_uint_eq(etcdlock_mutex_token(&lock), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(&lock), EPERM);
    ck_assert_int_eq(etcdlock_mutex_trylock(&lock), EBUSY);
    child_send(parent, 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for(&lock, 20000), 0);
    child_send(parent, (int64_t)etcdlock_mutex_token(&lock));
    ck_assert_int_eq(etcdlock_mutex_unlock(&lock), 0);
}

static void lock_and_fork(child *parent, void *arg)
{
    (void)arg;
    child c;
    ck_assert_int_eq(etcdlock_mutex_lock(&lock), 0);
    int64_t token = (int64_t)etcdlock_mutex_token(&lock);
    child_start(&c, lock_in_grandchild, NULL);
    child_receive(&c);
    ck_assert_int_eq((int64_t)etcdlock_mutex_token(&lock), token);
    ck_assert_int_eq(etcdlock_mutex_unlock(&lock), 0);
    ck_assert_int_gt(child_receive(&c), token);
    child_end(&c);
    child_send(parent, 0);
}

/* A static mutex that the parent holds is not held by the child, which can lock it in its turn. */
START_TEST(drop_in)
{
    child c;
    set_environment();
    child_start(&c, lock_and_fork, NULL);
    child_receive(&c);
    child_end(&c);
    ck_assert_uint_eq(etcdctl_count(live_name("")), 0);
}
END_TEST

static void exit_at_once(child *parent, void *arg)
{
    (void)parent, (void)arg;
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
    set_environment();
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
    tcase_add_test(cases, drop_in);
    tcase_add_test(cases, silent_child);
    return live_run(suite);
}
