/* The blocking calls with real threads over the simulated etcd in real time: what ThreadSanitizer is run on.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/client.h"
#include "core/options.h"
#include "etcdlock.h"
#include "support/runner.h"
#include "support/sim.h"

enum { CLIENTS = 3, THREADS = 4, ROUNDS = 60, SPEED = 20 };

static void free_options(void *owner)
{
    el_options_free(owner);
    el_free(owner);
}

static etcdlock_client *open_client(sim *s)
{
    etcdlock_client_options code = ETCDLOCK_CLIENT_OPTIONS_INIT;
    /* SPEED times slower in real time: a machine that stands still for a second makes nobody late. */
    el_client_settings settings = {
        .dial_timeout_ns = 2 * SPEED * EL_S, .command_timeout_ns = 5 * SPEED * EL_S, .is_threaded = true};
    etcdlock_client *client;
    el_failure failure;
    code.endpoints = "127.0.0.1:1";
    el_options *options = el_alloc(sizeof(*options));
    ck_assert_int_eq(el_options_resolve(options, &code, &failure), 0);
    ck_assert_int_eq(el_client_new(&client, sim_client_new(s), &settings), 0);
    client->owner = options;
    client->free_owner = free_options;
    return client;
}

static sim *open_sim(void)
{
    sim_options options = {.seed = 3, .members = 3, .realtime = true, .speed = SPEED};
    return sim_new(&options);
}

static int open_session(etcdlock_session **session, etcdlock_client *client)
{
    etcdlock_session_options options = ETCDLOCK_SESSION_OPTIONS_INIT;
    options.ttl_s = 5 * SPEED;
    return etcdlock_session_open(session, client, &options);
}

typedef struct worker {
    pthread_t thread;
    etcdlock_mutex *mutex;
    int *counter; /* protected by the mutex and by nothing else */
    int failures;
} worker;

static void *count(void *argument)
{
    worker *w = argument;
    for (int i = 0; i < ROUNDS; i++) {
        if (etcdlock_mutex_lock(w->mutex)) {
            w->failures++;
            continue;
        }
        if (etcdlock_mutex_token(w->mutex) == 0) w->failures++;
        (*w->counter)++;
        if (etcdlock_mutex_unlock(w->mutex)) w->failures++;
    }
    return NULL;
}

/* Threads of several clients, on shared and on own handles, never hold one mutex at the same time. */
START_TEST(threads_exclude_each_other)
{
    sim *s = open_sim();
    etcdlock_client *clients[CLIENTS];
    etcdlock_session *sessions[CLIENTS];
    etcdlock_mutex *shared[CLIENTS], *own[CLIENTS];
    worker workers[CLIENTS * THREADS];
    int counter = 0;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = open_client(s);
        ck_assert_int_eq(open_session(&sessions[i], clients[i]), 0);
        ck_assert_int_eq(etcdlock_mutex_new(&shared[i], sessions[i], "count", NULL), 0);
        ck_assert_int_eq(etcdlock_mutex_new(&own[i], sessions[i], "count", NULL), 0);
    }
    for (int i = 0; i < CLIENTS * THREADS; i++) {
        workers[i] =
            (worker){.mutex = i % THREADS ? shared[i / THREADS] : own[i / THREADS], .counter = &counter};
        pthread_create(&workers[i].thread, NULL, count, &workers[i]);
    }
    for (int i = 0; i < CLIENTS * THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        ck_assert_int_eq(workers[i].failures, 0);
    }
    ck_assert_int_eq(counter, CLIENTS * THREADS * ROUNDS);
    for (int i = 0; i < CLIENTS; i++) {
        ck_assert_int_eq(etcdlock_mutex_destroy(shared[i]), 0);
        ck_assert_int_eq(etcdlock_mutex_destroy(own[i]), 0);
        ck_assert_int_eq(etcdlock_session_close(sessions[i]), 0);
        ck_assert_int_eq(etcdlock_client_close(clients[i]), 0);
    }
    sim_free(s);
    ck_assert_int_eq(el_alloc_alive(), 0);
}
END_TEST

typedef struct user {
    pthread_t thread;
    etcdlock_session *session;
    atomic_int *stop;
    int odd; /* an error that is not among the expected ones */
} user;

static int try_out(etcdlock_mutex *mutex, unsigned choice)
{
    switch (choice % 4) {
    case 0:
        return etcdlock_mutex_lock(mutex);
    case 1:
        return etcdlock_mutex_trylock(mutex);
    case 2:
        return etcdlock_mutex_lock_for(mutex, 5);
    default:
        (void)etcdlock_mutex_cancel(mutex);
        return EBUSY;
    }
}

static bool is_expected(int error)
{
    return error == 0 || error == EBUSY || error == ETIMEDOUT || error == ECANCELED;
}

static void *use(void *argument)
{
    user *u = argument;
    etcdlock_mutex *mutex;
    if (etcdlock_mutex_new(&mutex, u->session, "close", NULL)) return NULL;
    for (unsigned i = 0; !atomic_load(u->stop); i++) {
        int error = try_out(mutex, i);
        if (!is_expected(error)) u->odd = error;
        if (error == 0) {
            error = etcdlock_mutex_unlock(mutex);
            if (!is_expected(error)) u->odd = error;
        }
        if (error == ECANCELED && i % 4 == 0) break;
    }
    while (etcdlock_mutex_destroy(mutex) == EBUSY)
        (void)etcdlock_mutex_unlock(mutex);
    return NULL;
}

/* A client closed in the middle of everything wakes all that wait, joins its threads, and leaks nothing. */
START_TEST(close_in_the_middle)
{
    for (int round = 0; round < 30; round++) {
        sim *s = open_sim();
        atomic_int stop = 0;
        user users[THREADS];
        etcdlock_client *client = open_client(s);
        etcdlock_session *session;
        ck_assert_int_eq(open_session(&session, client), 0);
        for (int i = 0; i < THREADS; i++) {
            users[i] = (user){.session = session, .stop = &stop};
            pthread_create(&users[i].thread, NULL, use, &users[i]);
        }
        usleep(
            (useconds_t)(rand() % 20000)); /* any moment will do: it is where the close falls that varies */
        ck_assert_int_eq(etcdlock_client_close(client), 0);
        atomic_store(&stop, 1);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(users[i].thread, NULL);
            ck_assert_int_eq(users[i].odd, 0);
        }
        (void)etcdlock_session_close(session);
        sim_free(s);
        ck_assert_int_eq(el_alloc_alive(), 0);
    }
}
END_TEST

static void *wait_for_lock(void *argument)
{
    (void)!etcdlock_mutex_lock(argument);
    return NULL;
}

/* A thread that is cancelled while it waits leaves the queue, and the handle stays usable. */
START_TEST(cancelled_thread_leaves_the_queue)
{
    sim *s = open_sim();
    etcdlock_client *client = open_client(s);
    etcdlock_session *session;
    etcdlock_mutex *mutex;
    ck_assert_int_eq(open_session(&session, client), 0);
    ck_assert_int_eq(etcdlock_mutex_new(&mutex, session, "cancel", NULL), 0);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
        pthread_create(&thread, NULL, wait_for_lock, mutex);
        usleep((useconds_t)(rand() % 5000));
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
    }
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(mutex), 0);
    ck_assert_int_eq(etcdlock_session_close(session), 0);
    ck_assert_int_eq(etcdlock_client_close(client), 0);
    sim_free(s);
    ck_assert_int_eq(el_alloc_alive(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("threads_sim");
    TCase *all = tcase_create("threads");
    tcase_set_timeout(all, 300);
    tcase_add_test(all, threads_exclude_each_other);
    tcase_add_test(all, close_in_the_middle);
    tcase_add_test(all, cancelled_thread_leaves_the_queue);
    suite_add_tcase(suite, all);
    return runner_run(suite);
}
