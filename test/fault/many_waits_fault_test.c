/* Waits by the ten thousand, one after the other, and by the thousand at once: what they cost is given back,
 * on this side and in etcd. */
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/etcdctl.h"
#include "support/gateway.h"
#include "support/live.h"

/* A sanitizer keeps freed memory and a shadow of it: its figures say nothing about ours. */
enum { WAITS = 20000, THREADS = 16, WAIT_MS = 3, WARM_UP = 2000, CONCURRENT = 2000, STACK = 512 * 1024 };
enum {
    GROWTH_KB = 4096,
    RENEWAL_CONNECTIONS = 2,
    PER_WAITER_KB = 16,
    STREAMS_MAX = 4,
    DESCRIPTORS_MAX = 8,
    KEPT_MS = 15000
};

static bool is_memory_ours(void)
{
    const char *config = getenv("CONFIG");
    return !config || !config[0] || !__builtin_strcmp(config, "release");
}

static long rss_kb(void)
{
    long pages = 0, resident = 0;
    malloc_trim(0);
    FILE *file = fopen("/proc/self/statm", "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%ld %ld", &pages, &resident), 2);
    fclose(file);
    return resident * 4;
}

static int count_descriptors(void)
{
    int n = 0;
    DIR *listing = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(listing);
    while (readdir(listing))
        n++;
    closedir(listing);
    return n;
}

typedef struct cost {
    double watchers, streams;
    int descriptors;
    long kb;
} cost;

static cost measure(const char *when)
{
    cost c = {gateway_metric("etcd_debugging_mvcc_watcher_total"),
              gateway_metric("etcd_debugging_mvcc_watch_stream_total"), count_descriptors(), rss_kb()};
    printf("%s: %.0f watches, %.0f watch streams, %d descriptors, %ld kB\n", when, c.watchers, c.streams,
           c.descriptors, c.kb);
    fflush(stdout);
    return c;
}

/* ---- one after the other ------------------------------------------------------------------------------- */

typedef struct job {
    etcdlock_mutex *mutex;
    atomic_int left;
} job;

static void *time_out(void *arg)
{
    job *j = arg;
    while (atomic_fetch_sub(&j->left, 1) > 0)
        ck_assert_int_eq(etcdlock_mutex_lock_for(j->mutex, WAIT_MS), ETIMEDOUT);
    return NULL;
}

static void run_waits(etcdlock_mutex *mutex, int n)
{
    pthread_t threads[THREADS];
    job j = {.mutex = mutex, .left = n};
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, time_out, &j), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}

static bool has_few_watchers(void *limit)
{
    return gateway_metric("etcd_debugging_mvcc_watcher_total") <= *(double *)limit;
}

/* 20,000 waits that time out, in 16 threads: no watch, stream, descriptor or memory grows with their number,
 * and the watches that are kept for a while go (B56). */
START_TEST(timed_out)
{
    const char *name = live_name("a");
    party holder = party_open(name, 0), p = party_open(name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(holder.mutex), 0);
    cost idle = measure("before");
    run_waits(p.mutex, WARM_UP);
    cost before = measure("after 2,000 waits");
    int64_t began_ms = live_now_ms();
    run_waits(p.mutex, WAITS);
    cost after = measure("after 20,000 more");
    printf("%d waits of %d ms in %lld ms\n", WAITS, WAIT_MS, (long long)(live_now_ms() - began_ms));
    ck_assert_int_le(after.descriptors, before.descriptors + RENEWAL_CONNECTIONS);
    ck_assert_int_le((int)after.streams, (int)before.streams);
    if (is_memory_ours()) ck_assert_int_le(after.kb - before.kb, GROWTH_KB);
    ck_assert_uint_eq(gateway_count(name), 1);
    double limit = idle.watchers + 1; /* the holder watches its own entry */
    ck_assert(live_wait_until(has_few_watchers, &limit, KEPT_MS));
    ck_assert_int_eq(etcdlock_mutex_unlock(holder.mutex), 0);
    party_close(&holder);
    party_close(&p);
}
END_TEST

/* ---- at once ------------------------------------------------------------------------------------------- */

static pthread_barrier_t start;
static atomic_int n_cancelled, n_granted;

static void *wait_long(void *mutex)
{
    pthread_barrier_wait(&start);
    int error = etcdlock_mutex_lock(mutex);
    if (error == ECANCELED) {
        n_cancelled++;
    } else {
        ck_assert_int_eq(error, 0);
        n_granted++;
        ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
    }
    return NULL;
}

static void await_count(const char *name, size_t n)
{
    int64_t until_ms = live_now_ms() + 60000;
    while (gateway_count(name) != n)
        ck_assert_msg(live_now_ms() < until_ms, "never %zu in the queue", n);
}

/* 2,000 threads wait at once in one process: over a few streams and connections, for a few kilobytes each.
 * Half are cancelled, the others get their turn one after the other (B56). */
START_TEST(at_once)
{
    static pthread_t threads[CONCURRENT];
    const char *name = live_name("a");
    party holder = party_open(name, 0), p = party_open(name, 0);
    etcdlock_mutex *second = party_mutex(&p, name, 0);
    pthread_attr_t small;
    pthread_attr_init(&small);
    ck_assert_int_eq(pthread_attr_setstacksize(&small, STACK), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(holder.mutex), 0);
    ck_assert_int_eq(pthread_barrier_init(&start, NULL, CONCURRENT + 1), 0);
    for (int i = 0; i < CONCURRENT; i++)
        ck_assert_int_eq(pthread_create(&threads[i], &small, wait_long, i % 2 ? p.mutex : second), 0);
    pthread_attr_destroy(&small);
    cost before = measure("2,000 idle threads");
    pthread_barrier_wait(&start);
    await_count(name, CONCURRENT + 1);
    cost during = measure("2,000 waiting");
    ck_assert_int_le(during.descriptors - before.descriptors, DESCRIPTORS_MAX);
    ck_assert_int_le((int)during.streams, STREAMS_MAX);
    if (is_memory_ours()) ck_assert_int_le((during.kb - before.kb) / CONCURRENT, PER_WAITER_KB);
    ck_assert_int_eq(etcdlock_mutex_cancel(second), 0);
    await_count(name, CONCURRENT / 2 + 1);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_unlock(holder.mutex), 0);
    for (int i = 0; i < CONCURRENT; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    printf("%d cancelled, %d granted in %lld ms\n", n_cancelled, n_granted,
           (long long)(live_now_ms() - began_ms));
    ck_assert_int_eq(n_cancelled, CONCURRENT / 2);
    ck_assert_int_eq(n_granted, CONCURRENT / 2);
    double limit = before.watchers;
    ck_assert(live_wait_until(has_few_watchers, &limit, KEPT_MS));
    measure("after");
    pthread_barrier_destroy(&start);
    ck_assert_int_eq(etcdlock_mutex_destroy(second), 0);
    party_close(&holder);
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("many_waits", &cases, 180);
    tcase_add_test(cases, timed_out);
    tcase_add_test(cases, at_once);
    return live_run(suite);
}
