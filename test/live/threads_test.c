/* Threads and processes that share a mutex: exact counts under contention. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "support/child.h"
#include "support/etcdctl.h"
#include "support/live.h"

enum { THREADS = 8, ROUNDS = 25 };

/* What the mutex protects: plain on purpose. */
typedef struct shared {
    etcdlock_mutex *mutex;
    int count;
    int inside;
    uint64_t last_token;
} shared;

typedef struct worker {
    pthread_t thread;
    shared *all;
    etcdlock_mutex *mutex;
    int way; /* how it locks */
} worker;

static int lock_somehow(etcdlock_mutex *mutex, int way)
{
    if (way % 3 == 1) return etcdlock_mutex_lock_for(mutex, 20000);
    if (way % 3 == 0) return etcdlock_mutex_lock(mutex);
    int error;
    do
        error = etcdlock_mutex_trylock(mutex);
    while (error == EBUSY);
    return error;
}

static void *work(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < ROUNDS; i++) {
        ck_assert_int_eq(lock_somehow(w->mutex, w->way), 0);
        uint64_t token = etcdlock_mutex_token(w->mutex);
        ck_assert_int_eq(w->all->inside++, 0);
        ck_assert_uint_gt(token, w->all->last_token);
        w->all->last_token = token;
        w->all->count++;
        w->all->inside--;
        ck_assert_int_eq(etcdlock_mutex_unlock(w->mutex), 0);
    }
    return NULL;
}

static void run_workers(shared *all, worker *workers)
{
    for (int i = 0; i < THREADS; i++) {
        workers[i].all = all;
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
    ck_assert_int_eq(all->count, THREADS * ROUNDS);
}

/* Transactions that come together go to etcd together, or each alone: nobody may see a difference. */
static void group_or_not(int is_alone)
{
    ck_assert_int_eq(setenv("ETCDLOCK_GROUP_MAX", is_alone ? "1" : "", 1), 0);
}

/* Threads on one handle exclude each other, and every increment counts. */
START_TEST(one_handle)
{
    group_or_not(_i);
    party p = party_open(live_name("a"), 0);
    shared all = {0};
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++)
        workers[i] = (worker){.mutex = p.mutex, .way = 0};
    run_workers(&all, workers);
    party_close(&p);
}
END_TEST

/* So do threads with handles of their own on one session. */
START_TEST(own_handles)
{
    group_or_not(_i);
    const char *name = live_name("a");
    party p = party_open(name, 0);
    shared all = {0};
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++)
        workers[i] = (worker){.mutex = party_mutex(&p, name, 0), .way = i % 2};
    run_workers(&all, workers);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(etcdlock_mutex_destroy(workers[i].mutex), 0);
    party_close(&p);
}
END_TEST

/* So do threads with clients of their own, which lock in different ways. */
START_TEST(own_clients)
{
    group_or_not(_i);
    const char *name = live_name("a");
    party parties[THREADS];
    shared all = {0};
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        parties[i] = party_open(name, 0);
        workers[i] = (worker){.mutex = parties[i].mutex, .way = i == 5 ? 2 : i % 2};
    }
    run_workers(&all, workers);
    for (int i = 0; i < THREADS; i++)
        party_close(&parties[i]);
}
END_TEST

typedef struct job {
    const char *name;
    int *counter; /* in memory that the processes share */
} job;

static void count_up(child *parent, void *arg)
{
    const job *j = arg;
    party p = party_open(j->name, 0);
    child_receive(parent);
    for (int i = 0; i < ROUNDS; i++) {
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
        int seen = __atomic_load_n(j->counter, __ATOMIC_RELAXED);
        sched_yield();
        __atomic_store_n(j->counter, seen + 1, __ATOMIC_RELAXED);
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    }
    party_close(&p);
}

/* Processes exclude each other. */
START_TEST(processes)
{
    group_or_not(_i);
    enum { PROCESSES = 4 };
    child children[PROCESSES];
    job j = {.name = live_name("a")};
    j.counter = mmap(NULL, sizeof *j.counter, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(j.counter, MAP_FAILED);
    for (int i = 0; i < PROCESSES; i++)
        child_start(&children[i], count_up, &j);
    for (int i = 0; i < PROCESSES; i++)
        child_send(&children[i], 1);
    for (int i = 0; i < PROCESSES; i++)
        child_end(&children[i]);
    ck_assert_int_eq(*j.counter, PROCESSES * ROUNDS);
    munmap(j.counter, sizeof *j.counter);
}
END_TEST

static void hold(child *parent, void *arg)
{
    party p = party_open(arg, 2);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    child_send(parent, (int64_t)etcdlock_mutex_token(p.mutex));
    child_receive(parent);
}

/* A holder that is killed is followed by the next one when its lease has expired, with a higher token. */
START_TEST(holder_killed)
{
    const char *name = live_name("a");
    child holder;
    child_start(&holder, hold, (void *)(uintptr_t)name);
    int64_t token = child_receive(&holder);
    party p = party_open(name, 0);
    ck_assert_int_eq(kill(holder.pid, SIGKILL), 0);
    ck_assert_int_eq(child_status(&holder), SIGKILL);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 15000), 0);
    ck_assert_uint_gt(etcdlock_mutex_token(p.mutex), (uint64_t)token);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

static void hold_frozen(child *parent, void *arg)
{
    party p = party_open(arg, 2);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    child_send(parent, (int64_t)etcdlock_mutex_token(p.mutex));
    ck_assert_int_eq(raise(SIGSTOP), 0);
    /* The deadline counts, whatever the library's threads have had the time to notice. */
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 0), ETCDLOCK_ESESSION);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ETCDLOCK_ESESSION);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    ck_assert_int_eq(etcdlock_session_close(p.session), ETCDLOCK_ESESSION);
    ck_assert_int_eq(etcdlock_client_close(p.client), 0);
}

/* A holder that was stopped past its time to live knows on its first step afterwards that it lost. */
START_TEST(holder_frozen)
{
    const char *name = live_name("a");
    child holder;
    child_start(&holder, hold_frozen, (void *)(uintptr_t)name);
    int64_t token = child_receive(&holder);
    party p = party_open(name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 15000), 0);
    ck_assert_uint_gt(etcdlock_mutex_token(p.mutex), (uint64_t)token);
    ck_assert_int_eq(kill(holder.pid, SIGCONT), 0);
    child_end(&holder);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 0), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("threads", &cases, 60);
    tcase_add_loop_test(cases, one_handle, 0, 2);
    tcase_add_loop_test(cases, own_handles, 0, 2);
    tcase_add_loop_test(cases, own_clients, 0, 2);
    tcase_add_loop_test(cases, processes, 0, 2);
    tcase_add_test(cases, holder_killed);
    tcase_add_test(cases, holder_frozen);
    return live_run(suite);
}
