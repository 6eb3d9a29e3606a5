/* The drop-in form: static mutexes and the client and session that a process makes for them by itself. Each
 * case uses it in children, as that client lives until the process ends. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/child.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/stranger.h"

/* The name must be a constant; the prefix from the environment makes it the case's own. */
static etcdlock_mutex_t lock = ETCDLOCK_MUTEX_INITIALIZER("drop-in");
static etcdlock_mutex_t recursive_lock = ETCDLOCK_RECURSIVE_MUTEX_INITIALIZER("drop-in");

static void run(child_function *function, void *arg)
{
    child c;
    child_start(&c, function, arg);
    child_end(&c);
}

static void use_all_calls(child *parent, void *arg)
{
    (void)parent, (void)arg;
    errno = 77;
    ck_assert_int_eq(etcdlock_mutex_unlock(&lock), EPERM);
    ck_assert_uint_eq(etcdlock_mutex_token(&lock), 0);
    ck_assert_int_eq(etcdlock_mutex_cancel(&lock), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(&lock), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(&lock), EDEADLK);
    ck_assert_int_eq(etcdlock_mutex_trylock(&lock), EBUSY);
    ck_assert_uint_ne(etcdlock_mutex_token(&lock), 0);
    ck_assert_int_eq(etcdlock_mutex_ensure(&lock, 100), 0);
    ck_assert_int_gt(etcdlock_mutex_remaining_ms(&lock), 100);
    ck_assert_int_ge(etcdlock_mutex_lost_fd(&lock), 0);
    ck_assert_uint_eq(etcdctl_count(live_name("drop-in/")), 1);
    ck_assert_int_eq(etcdlock_mutex_lock_for(&recursive_lock, 50), ETIMEDOUT); /* another handle, same lock */
    ck_assert_int_eq(etcdlock_mutex_destroy(&lock), EBUSY);
    ck_assert_int_eq(etcdlock_mutex_unlock(&lock), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(&recursive_lock), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(&recursive_lock), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(&recursive_lock), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(&lock), EBUSY);
    ck_assert_int_eq(etcdlock_mutex_unlock(&recursive_lock), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(&lock), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(&recursive_lock), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(&lock), 0); /* static: there again */
    ck_assert_int_eq(etcdlock_mutex_unlock(&lock), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(&lock), 0);
}

/* All calls take a static mutex, from the first one on. */
START_TEST(all_calls)
{
    live_set_environment();
    run(use_all_calls, NULL);
}
END_TEST

static void init_and_destroy(child *parent, void *arg)
{
    (void)parent, (void)arg;
    char name[] = "copied";
    etcdlock_mutex_t mutex;
    ck_assert_int_eq(etcdlock_mutex_init(&mutex, name), 0);
    name[0] = 'X';
    ck_assert_int_eq(etcdlock_mutex_lock(&mutex), 0);
    ck_assert_uint_eq(etcdctl_count(live_name("copied/")), 1);
    ck_assert_int_eq(etcdlock_mutex_destroy(&mutex), EBUSY);
    ck_assert_int_eq(etcdlock_mutex_unlock(&mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(&mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(&mutex), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_init(&mutex, name), 0); /* and never used */
    ck_assert_int_eq(etcdlock_mutex_destroy(&mutex), 0);
}

/* init copies the name; destroy ends the mutex, used or not. */
START_TEST(init)
{
    live_set_environment();
    run(init_and_destroy, NULL);
}
END_TEST

static void hold_until_told(child *parent, void *arg)
{
    (void)arg;
    child_receive(parent);
    ck_assert_int_eq(etcdlock_mutex_lock(&lock), 0);
    child_send(parent, (int64_t)etcdlock_mutex_token(&lock));
    child_receive(parent);
    ck_assert_int_eq(etcdlock_mutex_unlock(&lock), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(&lock), EBUSY); /* the other one has it, or comes next */
    child_send(parent, 0);
}

/* Two processes with the same static mutex exclude each other. */
START_TEST(two_processes)
{
    live_set_environment();
    child one, two;
    child_start(&one, hold_until_told, NULL);
    child_start(&two, hold_until_told, NULL);
    party p = party_open("drop-in", 0); /* with the prefix from the environment */
    child_send(&one, 1);
    int64_t first = child_receive(&one);
    child_send(&two, 1);
    party_await_queue(&p, "drop-in", 2);
    child_send(&one, 1);
    ck_assert_int_gt(child_receive(&two), first);
    ck_assert_int_eq(child_receive(&one), 0);
    child_end(&one);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 100), ETIMEDOUT);
    ck_assert_int_eq(kill(two.pid, SIGKILL), 0); /* no unlock, no exit handler: the lease must expire */
    ck_assert_int_eq(child_status(&two), SIGKILL);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 20000), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

static void lose_session(child *parent, void *arg)
{
    (void)arg;
    etcdctl_key key;
    ck_assert_int_eq(etcdlock_mutex_lock(&lock), 0);
    uint64_t token = etcdlock_mutex_token(&lock);
    int fd = etcdlock_mutex_lost_fd(&lock);
    ck_assert_uint_eq(etcdctl_keys(live_name("drop-in/"), &key, 1), 1);
    int64_t lease = key.lease;
    ck_assert(etcdctl_revoke(lease));
    ck_assert(live_readable(fd, 5000));
    ck_assert_uint_eq(etcdlock_mutex_token(&lock), 0);
    int error = etcdlock_mutex_unlock(&lock);
    ck_assert_msg(error == ETCDLOCK_ESESSION || error == ETCDLOCK_EENTRY, "%d", error);
    /* The entry's end may be known before the session's. */
    do
        error = etcdlock_mutex_lock(&lock);
    while (error == ETCDLOCK_ESESSION);
    ck_assert_int_eq(error, 0);
    ck_assert_uint_gt(etcdlock_mutex_token(&lock), token);
    ck_assert_uint_eq(etcdctl_keys(live_name("drop-in/"), &key, 1), 1);
    ck_assert_int_ne(key.lease, lease);
    ck_assert_int_eq(etcdlock_mutex_unlock(&lock), 0);
    child_send(parent, 0);
}

/* After its session was lost, the next lock goes through a new one. */
START_TEST(session_lost)
{
    live_set_environment();
    setenv("ETCDLOCK_TTL", "3", 1);
    child c;
    child_start(&c, lose_session, NULL);
    child_receive(&c);
    child_end(&c);
}
END_TEST

static void exit_holding(child *parent, void *arg)
{
    (void)parent, (void)arg;
    ck_assert_int_eq(etcdlock_mutex_lock(&lock), 0);
    ck_assert_uint_eq(etcdctl_count(live_name("drop-in/")), 1);
}

/* A process that exits while it holds takes its key and its lease with it at once. */
START_TEST(exit_while_holding)
{
    live_set_environment();
    setenv("ETCDLOCK_TTL", "60", 1);
    run(exit_holding, NULL);
    ck_assert_uint_eq(etcdctl_count(live_name("")), 0);
}
END_TEST

static void lock_of_nobody(child *parent, void *arg)
{
    (void)parent, (void)arg;
    ck_assert_int_eq(etcdlock_mutex_lock(&lock), ETCDLOCK_EUNREACHABLE);
    ck_assert_int_eq(etcdlock_mutex_trylock(&lock), ETCDLOCK_EUNREACHABLE);
    ck_assert_int_eq(etcdlock_mutex_unlock(&lock), EPERM);
}

/* Without an etcd a lock fails with an error, or with ETCDLOCK_ON_ERROR=abort ends the program. */
START_TEST(abort_on_error)
{
    child c;
    live_set_environment();
    setenv("ETCDCTL_ENDPOINTS", stranger_nobody(), 1);
    setenv("ETCDCTL_COMMAND_TIMEOUT", "500ms", 1);
    run(lock_of_nobody, NULL);
    setenv("ETCDLOCK_ON_ERROR", "abort", 1);
    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr)); /* what it prints is for people */
    child_start(&c, lock_of_nobody, NULL);
    int status = child_status(&c);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status 0x%x", (unsigned)status);
}
END_TEST

static void expected_errors(child *parent, void *arg)
{
    (void)parent, (void)arg;
    ck_assert_int_eq(etcdlock_mutex_unlock(&lock), EPERM);
    ck_assert_int_eq(etcdlock_mutex_lock(&lock), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(&lock), EDEADLK);
    ck_assert_int_eq(etcdlock_mutex_trylock(&lock), EBUSY);
    ck_assert_int_eq(etcdlock_mutex_lock_for(&recursive_lock, 20), ETIMEDOUT);
    ck_assert_int_eq(etcdlock_mutex_timedlock(&lock, NULL), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_unlock(&lock), 0);
}

/* Errors that a pthread program expects abort nothing. */
START_TEST(no_abort)
{
    live_set_environment();
    setenv("ETCDLOCK_ON_ERROR", "abort", 1);
    run(expected_errors, NULL);
}
END_TEST

static void *add(void *count)
{
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(etcdlock_mutex_lock(&lock), 0);
        ++*(int *)count;
        ck_assert_int_eq(etcdlock_mutex_unlock(&lock), 0);
    }
    return NULL;
}

static void race_to_the_first_call(child *parent, void *arg)
{
    (void)parent, (void)arg;
    pthread_t threads[6];
    int count = 0;
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add, &count), 0);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(count, 6 * 20);
    ck_assert_int_eq(etcdlock_mutex_destroy(&lock), 0);
}

/* Threads may make the first call at the same time: they share one session. */
START_TEST(first_call_of_many)
{
    live_set_environment();
    size_t leases = etcdctl_count_leases();
    run(race_to_the_first_call, NULL);
    ck_assert_uint_eq(etcdctl_count_leases(), leases);
}
END_TEST

static void *lock_cancelled(void *arg)
{
    (void)arg;
    pthread_cancel(pthread_self()); /* takes effect at the first cancellation point */
    ck_abort_msg("lock %d", etcdlock_mutex_lock(&lock));
    return NULL;
}

static void lock_after_cancelled(child *parent, void *arg)
{
    (void)parent, (void)arg;
    pthread_t thread;
    void *result;
    ck_assert_int_eq(pthread_create(&thread, NULL, lock_cancelled, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    ck_assert_int_eq(etcdlock_mutex_lock(&lock), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(&lock), 0);
}

/* A thread cancelled in the first call, which reads the configuration file, leaves the mutexes usable. */
START_TEST(first_call_cancelled)
{
    char path[] = "/tmp/etcdlock-test-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "{}", 2), 2);
    close(fd);
    live_set_environment();
    setenv("ETCDLOCK_CONFIG", path, 1);
    run(lock_after_cancelled, NULL);
    unlink(path);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("dropin", &cases, 40);
    tcase_add_test(cases, all_calls);
    tcase_add_test(cases, init);
    tcase_add_test(cases, two_processes);
    tcase_add_test(cases, session_lost);
    tcase_add_test(cases, exit_while_holding);
    tcase_add_test(cases, abort_on_error);
    tcase_add_test(cases, no_abort);
    tcase_add_test(cases, first_call_of_many);
    tcase_add_test(cases, first_call_cancelled);
    return live_run(suite);
}
