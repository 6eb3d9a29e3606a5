/* Asynchronous calls in a program's own loop: callbacks run where and when it dispatches them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/ending.h"
#include "support/etcdctl.h"

/* OF_GRPC: by so many threads its pool may grow on its own. */
enum { MANY = 500, OF_GRPC = 6 };

/* The handle can be destroyed in its last callback, and not before. */
static void destroy_in_callback(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    end *e = arg;
    (void)token;
    e->error = error ? error : etcdlock_mutex_destroy(mutex);
    atomic_fetch_add(&e->n, 1);
}

START_TEST(destroyed)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0);
    end locked = {0}, gone = {0};
    ck_assert_int_ge(etcdlock_client_fd(p.client), 0); /* so that the callbacks wait */
    ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, end_take, &locked), 0);
    party_await_queue(&p, name, 1);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), EBUSY);
    ck_assert(live_readable(etcdlock_client_fd(p.client), 5000));
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, destroy_in_callback, &gone), 0);
    ck_assert(live_readable(etcdlock_client_fd(p.client), 5000));
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), EBUSY); /* its callback has not begun */
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
    ck_assert_int_eq(end_await(&gone, 0), 0);
    p.mutex = NULL;
    party_close(&p);
}
END_TEST

typedef struct rival {
    etcdlock_mutex *mutex;
    atomic_int tid;
    int destroy; /* what it returned */
    pthread_t thread;
    end again;
} rival;

static void *destroy_meanwhile(void *arg)
{
    rival *r = arg;
    atomic_store(&r->tid, gettid());
    r->destroy = etcdlock_mutex_destroy(r->mutex);
    return NULL;
}

static bool is_asleep(void *arg)
{
    rival *r = arg;
    char path[64], state = ' ';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&r->tid));
    FILE *file = atomic_load(&r->tid) ? fopen(path, "re") : NULL;
    if (!file) return false;
    if (fscanf(file, "%*d %*s %c", &state) != 1) state = ' ';
    fclose(file);
    return state == 'S';
}

static void lock_again(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    rival *r = arg;
    (void)token;
    if (error || pthread_create(&r->thread, NULL, destroy_meanwhile, r)) abort();
    if (!live_wait_until(is_asleep, r, 5000)) abort();
    if (etcdlock_mutex_lock_async(mutex, end_take, &r->again)) abort();
}

/* A destroy that waits for a callback to return is refused if that callback begins something. */
START_TEST(destroyed_while_begun)
{
    party p = open_owned(live_name("a"), 0);
    rival r = {.mutex = p.mutex, .destroy = -1};
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, lock_again, &r), 0);
    ck_assert_int_eq(end_await(&r.again, 10000), 0);
    ck_assert_int_eq(pthread_join(r.thread, NULL), 0);
    ck_assert_int_eq(r.destroy, EBUSY);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

/* ---- the program's loop
 * ------------------------------------------------------------------------------------------ */

static bool is_task_gone(void *path)
{
    return access(path, F_OK) != 0;
}

/* With the descriptor, callbacks run in dispatch on the caller's thread, and none of the library's. */
START_TEST(dispatched)
{
    party p = open_owned(live_name("a"), 0);
    end locked = {0}, again = {0};
    char path[64];
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, end_take, &locked), 0);
    ck_assert_int_eq(end_await(&locked, 5000), 0); /* on the client's thread */
    ck_assert(!pthread_equal(locked.thread, pthread_self()));
    snprintf(path, sizeof path, "/proc/self/task/%d", (int)locked.tid);
    ck_assert_int_eq(access(path, F_OK), 0);
    int fd = etcdlock_client_fd(p.client);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(etcdlock_client_fd(p.client), fd);
    ck_assert(
        live_wait_until(is_task_gone, path, 5000)); /* the kernel lists it a moment longer than it runs */
    ck_assert(!live_readable(fd, 0));
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, end_take, &again), 0);
    ck_assert(live_readable(fd, 5000));
    ck_assert_int_eq(atomic_load(&again.n), 0);
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
    ck_assert_int_eq(end_await(&again, 0), 0);
    ck_assert(pthread_equal(again.thread, pthread_self()));
    ck_assert(!live_readable(fd, 0));
    party_close(&p);
}
END_TEST

typedef struct nested {
    const party *p;
    int dispatch, close, destroy;
    end *next;
} nested;

static void misuse(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    nested *n = arg;
    (void)error;
    (void)token;
    n->dispatch = etcdlock_client_dispatch(n->p->client);
    n->close = etcdlock_client_close(n->p->client);
    if (etcdlock_mutex_unlock_async(mutex, end_take, n->next)) abort();
    /* It ends before this callback does, and is for the next dispatch all the same. */
    party_await_queue(n->p, live_name("a"), 0);
    n->destroy = etcdlock_mutex_destroy(mutex);
}

/* Inside a callback, dispatch and close are refused; what ends meanwhile is for the next dispatch. */
START_TEST(nested_calls)
{
    party p = open_owned(live_name("a"), 0);
    end unlocked = {0};
    nested n = {.p = &p, .next = &unlocked};
    int fd = etcdlock_client_fd(p.client);
    ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, misuse, &n), 0);
    ck_assert(live_readable(fd, 5000));
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
    ck_assert_int_eq(n.dispatch, EDEADLK);
    ck_assert_int_eq(n.close, EDEADLK);
    ck_assert_int_eq(n.destroy, EBUSY); /* its unlock has not been told */
    ck_assert_int_eq(atomic_load(&unlocked.n), 0);
    ck_assert(live_readable(fd, 5000));
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
    ck_assert_int_eq(end_await(&unlocked, 0), 0);
    party_close(&p);
}
END_TEST

/* What waits for a dispatch when the client is closed is told by close. */
START_TEST(close_dispatches)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0), other = open_owned(name, 0);
    end waits[2] = {{0}};
    ck_assert_int_ge(etcdlock_client_fd(other.client), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(etcdlock_mutex_lock_async(other.mutex, end_take, &waits[i]), 0);
    party_await_queue(&p, name, 3);
    ck_assert_int_eq(etcdlock_client_close(other.client), 0);
    other.client = NULL;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(end_await(&waits[i], 0), ECANCELED);
        ck_assert(pthread_equal(waits[i].thread, pthread_self()));
    }
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

static int count_threads(void)
{
    char line[128];
    int n = -1;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Threads: %d", &n) == 1) break;
    if (file) fclose(file);
    return n;
}

/* One loop, one session, many locks held and waited for: no thread and no connection more than for one. */
START_TEST(many)
{
    const char *prefix = live_name("many");
    char name[128];
    party p = open_owned(prefix, 0);
    etcdlock_session *second = party_session(&p, 0);
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    etcdlock_mutex **mutexes = calloc(2 * MANY, sizeof(*mutexes));
    end *ends = calloc(2 * MANY, sizeof(*ends)), unlocked = {0};
    int fd = etcdlock_client_fd(p.client);
    options.flags = ETCDLOCK_HANDLE_OWNED;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0); /* all connections are there from here on */
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    int threads = count_threads() + OF_GRPC;
    for (int i = 0; i < 2 * MANY; i++) {
        snprintf(name, sizeof name, "%s/%d", prefix, i % MANY);
        ck_assert_int_eq(etcdlock_mutex_new(&mutexes[i], i < MANY ? p.session : second, name, &options), 0);
        ck_assert_int_eq(etcdlock_mutex_lock_async(mutexes[i], end_take, &ends[i]), 0);
    }
    int granted = 0, n_ended = 0;
    for (int64_t until_ms = live_now_ms() + 30000; n_ended < 2 * MANY && live_now_ms() < until_ms;) {
        ck_assert_int_le(count_threads(), threads);
        (void)live_readable(fd, 100);
        ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
        n_ended = 0;
        for (int i = 0; i < 2 * MANY; i++) {
            int n = atomic_load(&ends[i].n);
            n_ended += n;
            if (n != 1 || ends[i].token == 0) continue;
            ck_assert_int_eq(ends[i].error, 0);
            ck_assert_int_eq(atomic_load(&ends[i < MANY ? i + MANY : i - MANY].n) == 1 &&
                                 ends[i < MANY ? i + MANY : i - MANY].token != 0,
                             0); /* only one of the two holds */
            ends[i].token = 0;
            granted++;
            ck_assert_int_eq(etcdlock_mutex_unlock_async(mutexes[i], end_take, &unlocked), 0);
        }
    }
    ck_assert_int_eq(granted, 2 * MANY);
    while (atomic_load(&unlocked.n) < 2 * MANY) {
        ck_assert(live_readable(fd, 10000));
        ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
        ck_assert_int_eq(unlocked.error, 0);
    }
    for (int i = 0; i < 2 * MANY; i++)
        ck_assert_int_eq(etcdlock_mutex_destroy(mutexes[i]), 0);
    ck_assert_uint_eq(etcdctl_count(prefix), 0);
    ck_assert_int_eq(etcdlock_session_close(second), 0);
    party_close(&p);
    free(mutexes);
    free(ends);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("async_loop", &cases, 60);
    tcase_add_test(cases, destroyed);
    tcase_add_test(cases, destroyed_while_begun);
    tcase_add_test(cases, dispatched);
    tcase_add_test(cases, nested_calls);
    tcase_add_test(cases, close_dispatches);
    tcase_add_test(cases, many);
    return live_run(suite);
}
