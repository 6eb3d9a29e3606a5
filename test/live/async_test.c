/* The asynchronous calls: every operation that began ends with one callback, on the thread that was asked
 * for. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/etcdctl.h"
#include "support/live.h"
#include "support/loss.h"

/* OF_GRPC: by so many its pool may grow on its own. */
enum { MANY = 500, OF_GRPC = 6 };

/* How an operation ended, and where that was told. */
typedef struct end {
    etcdlock_mutex *mutex;
    int error;
    uint64_t token;
    char message[200];
    pthread_t thread;
    pid_t tid;
    atomic_int n;
} end;

static void take(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    end *e = arg;
    e->mutex = mutex;
    e->error = error;
    e->token = token;
    e->thread = pthread_self();
    e->tid = gettid();
    strncpy(e->message, error ? etcdlock_error_message() : "", sizeof e->message - 1);
    atomic_fetch_add(&e->n, 1);
}

static bool has_ended(void *arg)
{
    return atomic_load(&((end *)arg)->n) > 0;
}

/* The error of an operation, which must end once and soon. */
static int await_end(end *e, int64_t ms)
{
    ck_assert(live_wait_until(has_ended, e, ms));
    ck_assert_int_eq(atomic_load(&e->n), 1);
    return e->error;
}

static party open_owned(const char *name, int64_t ttl_s)
{
    party p = party_open(name, ttl_s);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    p.mutex = party_mutex(&p, name, ETCDLOCK_HANDLE_OWNED);
    return p;
}

/* ---- lock, unlock
 * ------------------------------------------------------------------------------------------------ */

/* A lock is granted with its token, the handle holds it for all threads, the unlock removes the entry. */
START_TEST(lock_and_unlock)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0);
    end locked = {0}, unlocked = {0};
    ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, take, &locked), 0);
    ck_assert_int_eq(await_end(&locked, 5000), 0);
    ck_assert_ptr_eq(locked.mutex, p.mutex);
    ck_assert_uint_ne(locked.token, 0);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), locked.token);
    ck_assert(!pthread_equal(locked.thread, pthread_self()));
    ck_assert_uint_eq(etcdctl_count(name), 1);
    ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, take, &unlocked), 0);
    ck_assert_int_eq(await_end(&unlocked, 5000), 0);
    ck_assert_uint_eq(unlocked.token, 0);
    ck_assert_uint_eq(etcdctl_count(name), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, take, &unlocked), EPERM);
    party_close(&p);
}
END_TEST

/* Blocking and asynchronous calls mix on one handle; an unlock may be told to nobody. */
START_TEST(mixed)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0);
    end locked = {0};
    for (int i = 0; i < 20; i++) {
        atomic_store(&locked.n, 0);
        ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, take, &locked), 0);
        ck_assert_int_eq(await_end(&locked, 5000), 0);
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
        ck_assert_uint_gt(etcdlock_mutex_token(p.mutex), locked.token);
        ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, NULL, NULL), 0);
    }
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0); /* comes after all of these unlocks */
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_uint_eq(etcdctl_count(name), 0);
    party_close(&p);
}
END_TEST

/* Several calls on one handle each have a place of their own and hold in the order of the calls. */
START_TEST(in_order)
{
    enum { CALLS = 5 };
    const char *name = live_name("a");
    party p = open_owned(name, 0);
    end ends[CALLS] = {{0}};
    for (int i = 0; i < CALLS; i++)
        ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, take, &ends[i]), 0);
    party_await_queue(&p, name, CALLS);
    for (int i = 0; i < CALLS; i++) {
        ck_assert_int_eq(await_end(&ends[i], 5000), 0);
        if (i > 0) ck_assert_uint_gt(ends[i].token, ends[i - 1].token);
        for (int k = i + 1; k < CALLS; k++)
            ck_assert_int_eq(atomic_load(&ends[k].n), 0);
        ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), ends[i].token);
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    }
    party_close(&p);
}
END_TEST

/* A try of a held lock fails at once where the holder is of this process, and soon where it is not. */
START_TEST(try_held)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0), other = open_owned(name, 0);
    end mine = {0}, theirs = {0};
    ck_assert_int_eq(etcdlock_mutex_trylock_async(p.mutex, take, &mine), 0);
    ck_assert_int_eq(await_end(&mine, 5000), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock_async(p.mutex, take, &theirs), EBUSY);
    ck_assert_int_eq(etcdlock_mutex_lock_for_async(p.mutex, 0, take, &theirs), ETIMEDOUT);
    ck_assert_int_eq(etcdlock_mutex_trylock_async(other.mutex, take, &theirs), 0);
    ck_assert_int_eq(await_end(&theirs, 5000), EBUSY);
    ck_assert_uint_eq(theirs.token, 0);
    ck_assert_ptr_nonnull(strstr(theirs.message, name));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* A limited wait ends when its time is over, and leaves the queue. */
START_TEST(limited)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0), other = open_owned(name, 0);
    end waited = {0}, tried = {0};
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_lock_for_async(other.mutex, 300, take, &waited), 0);
    ck_assert_int_eq(await_end(&waited, 5000), ETIMEDOUT);
    ck_assert_int_ge(live_now_ms() - began_ms, 300);
    live_within(began_ms, 1000);
    ck_assert_int_eq(etcdlock_mutex_lock_for_async(other.mutex, 0, take, &tried), 0);
    ck_assert_int_eq(await_end(&tried, 5000), ETIMEDOUT);
    party_await_queue(&p, name, 1);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* ---- early ends
 * -------------------------------------------------------------------------------------------------- */

/* cancel ends every wait of the handle, and no hold. */
START_TEST(cancel)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0), other = open_owned(name, 0);
    end waits[3] = {{0}};
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(etcdlock_mutex_lock_async(other.mutex, take, &waits[i]), 0);
    party_await_queue(&p, name, 4);
    ck_assert_int_eq(etcdlock_mutex_cancel(other.mutex), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(await_end(&waits[i], 1000), ECANCELED);
    party_await_queue(&p, name, 1);
    ck_assert_uint_ne(etcdlock_mutex_token(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* Closing the session or the client ends the waits, each with one callback, before close returns or soon
 * after. */
START_TEST(closed)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0), other = open_owned(name, 0), last = open_owned(name, 0);
    end by_session = {0}, by_client = {0}, late = {0};
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_async(other.mutex, take, &by_session), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_async(last.mutex, take, &by_client), 0);
    party_await_queue(&p, name, 3);
    ck_assert_int_eq(etcdlock_session_close(other.session), 0);
    other.session = NULL;
    ck_assert_int_eq(await_end(&by_session, 1000), ECANCELED);
    ck_assert_int_eq(etcdlock_mutex_lock_async(other.mutex, take, &late), ECANCELED);
    ck_assert_int_eq(etcdlock_client_close(last.client), 0);
    last.client = NULL;
    ck_assert_int_eq(atomic_load(&by_client.n), 1);
    ck_assert_int_eq(by_client.error, ECANCELED);
    ck_assert_int_eq(etcdlock_mutex_lock_async(last.mutex, take, &late), ECANCELED);
    ck_assert_int_eq(etcdlock_session_close(last.session), 0);
    last.session = NULL;
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&other);
    party_close(&last);
    ck_assert_int_eq(atomic_load(&late.n), 0);
}
END_TEST

/* A wait whose entry an operator deletes ends with EENTRY; a hold that was lost is told by the unlock. */
START_TEST(lost)
{
    const char *name = live_name("a");
    party p = open_owned(name, 0), other = open_owned(name, 0);
    end waited = {0}, unlocked = {0};
    etcdctl_key keys[2];
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_async(other.mutex, take, &waited), 0);
    party_await_queue(&p, name, 2);
    ck_assert_uint_eq(etcdctl_keys(name, keys, 2), 2);
    etcdctl("del", keys[1].key, NULL);
    ck_assert_int_eq(await_end(&waited, 2000), ETCDLOCK_EENTRY);
    int fd = etcdlock_mutex_lost_fd(p.mutex);
    etcdctl("del", keys[0].key, NULL);
    ck_assert(live_readable(fd, 2000));
    ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, take, &unlocked), ETCDLOCK_EENTRY);
    ck_assert(!live_readable(fd, 0));
    ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, take, &unlocked), EPERM);
    party_close(&p);
    party_close(&other);
    ck_assert_int_eq(atomic_load(&unlocked.n), 0);
}
END_TEST

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
    ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, take, &locked), 0);
    party_await_queue(&p, name, 1);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), EBUSY);
    ck_assert(live_readable(etcdlock_client_fd(p.client), 2000));
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, destroy_in_callback, &gone), 0);
    ck_assert(live_readable(etcdlock_client_fd(p.client), 5000));
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), EBUSY); /* its callback has not begun */
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
    ck_assert_int_eq(await_end(&gone, 0), 0);
    p.mutex = NULL;
    party_close(&p);
}
END_TEST

/* ---- the program's loop
 * ------------------------------------------------------------------------------------------ */

/* With the descriptor, callbacks run in dispatch on the caller's thread, and none of the library's. */
START_TEST(dispatched)
{
    party p = open_owned(live_name("a"), 0);
    end locked = {0}, again = {0};
    char path[64];
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, take, &locked), 0);
    ck_assert_int_eq(await_end(&locked, 5000), 0); /* on the client's thread */
    ck_assert(!pthread_equal(locked.thread, pthread_self()));
    snprintf(path, sizeof path, "/proc/self/task/%d", (int)locked.tid);
    ck_assert_int_eq(access(path, F_OK), 0);
    int fd = etcdlock_client_fd(p.client);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(etcdlock_client_fd(p.client), fd);
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert(!live_readable(fd, 0));
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, take, &again), 0);
    ck_assert(live_readable(fd, 5000));
    ck_assert_int_eq(atomic_load(&again.n), 0);
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
    ck_assert_int_eq(await_end(&again, 0), 0);
    ck_assert(pthread_equal(again.thread, pthread_self()));
    ck_assert(!live_readable(fd, 0));
    party_close(&p);
}
END_TEST

typedef struct nested {
    etcdlock_client *client;
    int dispatch, close;
    end *next;
} nested;

static void misuse(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    nested *n = arg;
    (void)error;
    (void)token;
    n->dispatch = etcdlock_client_dispatch(n->client);
    n->close = etcdlock_client_close(n->client);
    if (etcdlock_mutex_unlock_async(mutex, take, n->next)) abort();
    /* Ends before this callback: for the next dispatch all the same. */
    while (etcdlock_mutex_destroy(mutex) == EBUSY && atomic_load(&n->next->n) == 0 &&
           etcdlock_mutex_token(mutex) != 0)
        usleep(1000);
}

/* Inside a callback, dispatch and close are refused; what ends meanwhile is for the next dispatch. */
START_TEST(nested_calls)
{
    party p = open_owned(live_name("a"), 0);
    end unlocked = {0};
    nested n = {.client = p.client, .next = &unlocked};
    int fd = etcdlock_client_fd(p.client);
    ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, misuse, &n), 0);
    ck_assert(live_readable(fd, 5000));
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
    ck_assert_int_eq(n.dispatch, EDEADLK);
    ck_assert_int_eq(n.close, EDEADLK);
    ck_assert_int_eq(atomic_load(&unlocked.n), 0);
    ck_assert(live_readable(fd, 5000));
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
    ck_assert_int_eq(await_end(&unlocked, 0), 0);
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
        ck_assert_int_eq(etcdlock_mutex_lock_async(other.mutex, take, &waits[i]), 0);
    party_await_queue(&p, name, 3);
    ck_assert_int_eq(etcdlock_client_close(other.client), 0);
    other.client = NULL;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(await_end(&waits[i], 0), ECANCELED);
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
    end *ends = calloc(2 * MANY, sizeof(*ends));
    int fd = etcdlock_client_fd(p.client);
    options.flags = ETCDLOCK_HANDLE_OWNED;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0); /* all connections are there from here on */
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    int threads = count_threads() + OF_GRPC;
    for (int i = 0; i < 2 * MANY; i++) {
        snprintf(name, sizeof name, "%s/%d", prefix, i % MANY);
        ck_assert_int_eq(etcdlock_mutex_new(&mutexes[i], i < MANY ? p.session : second, name, &options), 0);
        ck_assert_int_eq(etcdlock_mutex_lock_async(mutexes[i], take, &ends[i]), 0);
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
            ck_assert_int_eq(etcdlock_mutex_unlock_async(mutexes[i], NULL, NULL), 0);
        }
    }
    ck_assert_int_eq(granted, 2 * MANY);
    for (int i = 0; i < 2 * MANY; i++) {
        while (etcdlock_mutex_destroy(mutexes[i]) == EBUSY) /* its unlock is under way */
            usleep(1000);
    }
    ck_assert_uint_eq(etcdctl_count(prefix), 0);
    ck_assert_int_eq(etcdlock_session_close(second), 0);
    party_close(&p);
    free(mutexes);
    free(ends);
}
END_TEST

/* ---- wrong use
 * ------------------------------------------------------------------------------------------------ */

/* What cannot be begun says so at once, changes nothing, and calls nobody back. */
START_TEST(refused)
{
    static etcdlock_mutex_t dropin = ETCDLOCK_MUTEX_INITIALIZER("never-used");
    party p = party_open(live_name("a"), 0);
    etcdlock_mutex *owned = party_mutex(&p, live_name("b"), ETCDLOCK_HANDLE_OWNED);
    end e = {0};
    ck_assert_int_eq(etcdlock_mutex_lock_async(NULL, take, &e), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_lock_async(owned, NULL, &e), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, take, &e), EINVAL);
    ck_assert_ptr_nonnull(strstr(etcdlock_error_message(), "HANDLE_OWNED"));
    ck_assert_int_eq(etcdlock_mutex_trylock_async(&dropin, take, &e), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_lock_for_async(p.mutex, 1000, take, &e), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock_async(p.mutex, take, &e), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock_async(owned, NULL, NULL), EPERM);
    ck_assert_int_eq(etcdlock_client_fd(NULL), -1);
    ck_assert_int_eq(etcdlock_client_dispatch(NULL), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_destroy(owned), 0);
    party_close(&p);
    ck_assert_int_eq(atomic_load(&e.n), 0);
}
END_TEST

/* In a forked child all of them say EFORKED and touch nothing of the parent's. */
START_TEST(forked)
{
    party p = open_owned(live_name("a"), 0);
    end e = {0};
    int status;
    int fd = etcdlock_client_fd(p.client);
    ck_assert_int_ge(fd, 0);
    pid_t child = fork();
    if (child == 0) {
        bool is_right = etcdlock_mutex_lock_async(p.mutex, take, &e) == ETCDLOCK_EFORKED &&
                        etcdlock_mutex_unlock_async(p.mutex, NULL, NULL) == ETCDLOCK_EFORKED &&
                        etcdlock_client_fd(p.client) == -1 &&
                        etcdlock_client_dispatch(p.client) == ETCDLOCK_EFORKED;
        _exit(is_right ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(etcdlock_mutex_lock_async(p.mutex, take, &e), 0);
    ck_assert(live_readable(fd, 5000));
    ck_assert_int_eq(etcdlock_client_dispatch(p.client), 0);
    ck_assert_int_eq(await_end(&e, 0), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("async", &cases, 60);
    tcase_add_test(cases, lock_and_unlock);
    tcase_add_test(cases, mixed);
    tcase_add_test(cases, in_order);
    tcase_add_test(cases, try_held);
    tcase_add_test(cases, limited);
    tcase_add_test(cases, cancel);
    tcase_add_test(cases, closed);
    tcase_add_test(cases, lost);
    tcase_add_test(cases, destroyed);
    tcase_add_test(cases, dispatched);
    tcase_add_test(cases, nested_calls);
    tcase_add_test(cases, close_dispatches);
    tcase_add_test(cases, many);
    tcase_add_test(cases, refused);
    tcase_add_test(cases, forked);
    return live_run(suite);
}
