/* Closing a session, or the whole client, in the midst of calls of other threads, at any point of them: each
 * call returns, and nothing is used after its end. Meant for the sanitizers, too. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/etcdctl.h"
#include "support/live.h"
#include "support/proxy.h"

enum { THREADS = 5, SESSION_ROUNDS = 1500, CLIENT_ROUNDS = 500, CONNECT_ROUNDS = 200, CLOSE_LIMIT_MS = 1000 };

/* One thread that makes one kind of call again and again until it is told that all is closed. */
typedef struct worker {
    pthread_t thread;
    etcdlock_mutex *mutex;
    int kind;
    int last; /* the result that ended it */
    atomic_uint *n_calls;
} worker;

static int lock_and_unlock(etcdlock_mutex *mutex, int error)
{
    return error ? error : etcdlock_mutex_unlock(mutex);
}

static int make_call(const worker *w)
{
    switch (w->kind) {
    case 0:
        return lock_and_unlock(w->mutex, etcdlock_mutex_trylock(w->mutex));
    case 1:
        return lock_and_unlock(w->mutex, etcdlock_mutex_lock_for(w->mutex, 1));
    case 2: {
        int error = etcdlock_mutex_lock(w->mutex);
        if (error) return error;
        int ensured = etcdlock_mutex_ensure(w->mutex, 8000); /* it may have to renew for that */
        error = etcdlock_mutex_unlock(w->mutex);
        return error ? error : ensured;
    }
    default:
        return lock_and_unlock(w->mutex, etcdlock_mutex_lock(w->mutex));
    }
}

/* What a call may return while nothing is closed yet. */
static bool is_usual(int error)
{
    return error == 0 || error == EBUSY || error == ETIMEDOUT;
}

static void *work(void *arg)
{
    worker *w = arg;
    do {
        w->last = make_call(w);
        ++*w->n_calls;
    } while (is_usual(w->last));
    return NULL;
}

static void start_workers(worker *workers, party *p, const char *name, atomic_uint *n_calls)
{
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.mutex = party_mutex(p, name, 0), .kind = i, .n_calls = n_calls};
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
}

/* The handles outlive what was closed. */
static void end_workers(worker *workers)
{
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
        ck_assert_msg(workers[i].last == ECANCELED, "kind %d ended with %d", workers[i].kind,
                      workers[i].last);
        ck_assert_int_eq(etcdlock_mutex_lock(workers[i].mutex), ECANCELED);
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(etcdlock_mutex_destroy(workers[i].mutex), 0);
}

static void pause_at_random(unsigned *seed)
{
    usleep((useconds_t)(rand_r(seed) % 8000));
}

/* The session is closed in the midst of calls, 1,500 times: each of them ends with ECANCELED, and the close
 * takes no time (B31). */
START_TEST(session)
{
    const char *name = live_name("a");
    party p = party_open(live_name("b"), 0);
    etcdlock_session *kept = p.session;
    unsigned seed = 1;
    atomic_uint n_calls = 0;
    int64_t slowest_ms = 0;
    for (int round = 0; round < SESSION_ROUNDS; round++) {
        worker workers[THREADS];
        p.session = party_session(&p, 10);
        start_workers(workers, &p, name, &n_calls);
        pause_at_random(&seed);
        int64_t began_ms = live_now_ms();
        ck_assert_int_eq(etcdlock_session_close(p.session), 0);
        int64_t took_ms = live_now_ms() - began_ms;
        if (took_ms > slowest_ms) slowest_ms = took_ms;
        end_workers(workers);
    }
    printf("%d sessions closed amid %u calls, the slowest close %lld ms\n", SESSION_ROUNDS, n_calls,
           (long long)slowest_ms);
    live_within(live_now_ms() - slowest_ms, CLOSE_LIMIT_MS);
    p.session = kept;
    party_close(&p);
}
END_TEST

/* The same with the client, and gRPC with it, since it is the only one (B31). */
START_TEST(client)
{
    const char *name = live_name("a");
    unsigned seed = 2;
    atomic_uint n_calls = 0;
    int64_t slowest_ms = 0;
    for (int round = 0; round < CLIENT_ROUNDS; round++) {
        worker workers[THREADS];
        party p = party_open(name, 10);
        start_workers(workers, &p, name, &n_calls);
        pause_at_random(&seed);
        int64_t began_ms = live_now_ms();
        ck_assert_int_eq(etcdlock_client_close(p.client), 0);
        int64_t took_ms = live_now_ms() - began_ms;
        if (took_ms > slowest_ms) slowest_ms = took_ms;
        end_workers(workers);
        ck_assert_int_eq(etcdlock_session_close(p.session), 0);
        ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    }
    printf("%d clients closed amid %u calls, the slowest close %lld ms\n", CLIENT_ROUNDS, n_calls,
           (long long)slowest_ms);
    live_within(live_now_ms() - slowest_ms, CLOSE_LIMIT_MS);
}
END_TEST

typedef struct opening {
    etcdlock_client *client;
    etcdlock_session *session;
    int error;
} opening;

static void *open_session(void *arg)
{
    opening *o = arg;
    etcdlock_session_options options = ETCDLOCK_SESSION_OPTIONS_INIT;
    options.ttl_s = 2;
    o->error = etcdlock_session_open(&o->session, o->client, &options);
    return NULL;
}

/* A client that has begun to connect; before that its handle could not be closed safely by another thread. */
typedef struct arrival {
    proxy *etcd;
    uint64_t before;
} arrival;

static bool has_connected(void *arg)
{
    const arrival *a = arg;
    return proxy_accepted(a->etcd) > a->before;
}

static bool are_leases_gone(void *arg)
{
    (void)arg;
    return etcdctl_count_leases() == 0;
}

/* The client is closed while its first session is being opened, from before the connection is there to after
 * the lease is granted: a session, or ECANCELED. A lease that was on its way is said to be unknown, and gone
 * with its time (B31). */
START_TEST(connecting)
{
    unsigned seed = 3;
    int n_opened = 0, n_unknown = 0;
    proxy etcd;
    proxy_start(&etcd, live_endpoint(0));
    for (int round = 0; round < CONNECT_ROUNDS; round++) {
        etcdlock_client_options options = live_options();
        opening o = {0};
        pthread_t thread;
        options.endpoints = proxy_endpoint(&etcd);
        proxy_hold(&etcd, PROXY_BOTH);
        arrival next = {&etcd, proxy_accepted(&etcd)};
        ck_assert_int_eq(etcdlock_client_open(&o.client, &options), 0);
        ck_assert_int_eq(pthread_create(&thread, NULL, open_session, &o), 0);
        ck_assert(live_wait_until(has_connected, &next, 5000));
        if (round % 4) proxy_pass(&etcd);
        usleep((useconds_t)(rand_r(&seed) % 4000));
        int64_t began_ms = live_now_ms();
        int closed = etcdlock_client_close(o.client);
        live_within(began_ms, CLOSE_LIMIT_MS);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_msg(closed == 0 || closed == ETCDLOCK_EUNKNOWN, "client_close: %d", closed);
        if (closed) n_unknown++;
        ck_assert_msg(o.error == 0 || o.error == ECANCELED, "session_open: %d", o.error);
        if (!o.error) n_opened++;
        ck_assert_int_eq(etcdlock_session_close(o.session), 0);
        proxy_pass(&etcd);
    }
    printf("%d clients closed while connecting: %d sessions had been opened, %d leases unknown\n",
           CONNECT_ROUNDS, n_opened, n_unknown);
    ck_assert(live_wait_until(are_leases_gone, NULL, 10000));
    proxy_stop(&etcd);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("close_race", &cases, 240);
    tcase_add_test(cases, session);
    tcase_add_test(cases, client);
    tcase_add_test(cases, connecting);
    return live_run(suite);
}
