/* Threads of one process that share a session, and handles: the session's lease names every entry, and yet
 * each of them has a place of its own. test/live/mutex_test.c has EDEADLK, EPERM and the recursive count. */
#include <pthread.h>
#include <stdio.h>

#include "support/live.h"

enum { THREADS = 8, ROUNDS = 625 };

/* What the mutex protects: plain on purpose. */
typedef struct shared {
    int count;
    uint64_t last_token;
} shared;

typedef struct worker {
    pthread_t thread;
    etcdlock_mutex *mutex;
    shared *all;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < ROUNDS; i++) {
        ck_assert_int_eq(etcdlock_mutex_lock(w->mutex), 0);
        uint64_t token = etcdlock_mutex_token(w->mutex);
        ck_assert_uint_gt(token, w->all->last_token);
        w->all->last_token = token;
        w->all->count++;
        ck_assert_int_eq(etcdlock_mutex_unlock(w->mutex), 0);
    }
    return NULL;
}

/* Eight threads on one session count to 5,000, with a handle each and then all on one handle: no step is
 * lost, and the tokens rise from one to the next (B20). */
START_TEST(exact_count)
{
    const char *name = live_name("a");
    party p = party_open(name, 0);
    shared all = {0};
    worker workers[THREADS];
    bool own_handles = _i == 0;
    int64_t began_ms = live_now_ms();
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.mutex = own_handles ? party_mutex(&p, name, 0) : p.mutex, .all = &all};
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
    ck_assert_int_eq(all.count, THREADS * ROUNDS);
    printf("%s: %d steps in %lld ms\n", own_handles ? "own handles" : "one handle", all.count,
           (long long)(live_now_ms() - began_ms));
    for (int i = 0; own_handles && i < THREADS; i++)
        ck_assert_int_eq(etcdlock_mutex_destroy(workers[i].mutex), 0);
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("shared_session", &cases, 180);
    tcase_add_loop_test(cases, exact_count, 0, 2);
    return live_run(suite);
}
