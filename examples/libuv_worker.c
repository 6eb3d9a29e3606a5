/* Many locks in one event loop: libuv, no thread of ours, no call that blocks.
 *
 *     libuv_worker [LOCKS [ROUNDS [WORK_MS]]]          100 locks, 3 rounds each, 20 ms of work in each
 *
 * Start several of them: each lock has one holder at a time among all. Ctrl-C ends it in good order. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <uv.h>

#include "etcdlock.h"

enum { LOCKS_MAX = 100000 };

typedef struct job {
    etcdlock_mutex *mutex;
    uv_timer_t work; /* stands for what is done under the lock */
    uint64_t token;  /* of the last hold */
    int rounds_left;
} job;

static struct {
    etcdlock_client *client;
    etcdlock_session *session;
    uv_poll_t callbacks;
    uv_signal_t interrupt;
    job *jobs;
    int n_jobs, n_busy, work_ms, holds, failures;
    int is_ending;
} app;

static void begin(job *j);

static void complain(const char *what, int error)
{
    fprintf(stderr, "libuv_worker: %s: %s (%s)\n", what, etcdlock_strerror(error), etcdlock_error_message());
    app.failures++;
}

static void finish(job *j)
{
    uv_close((uv_handle_t *)&j->work, NULL);
    if (--app.n_busy > 0) return;
    uv_close((uv_handle_t *)&app.callbacks, NULL);
    uv_close((uv_handle_t *)&app.interrupt, NULL);
}

static void unlocked(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    job *j = arg;
    (void)mutex;
    (void)token;
    if (error) complain("unlock", error);
    if (--j->rounds_left > 0 && !app.is_ending) {
        begin(j);
    } else {
        finish(j);
    }
}

static void worked(uv_timer_t *timer)
{
    job *j = timer->data;
    /* Here a real program would write, and show the resource its token. */
    int error = etcdlock_mutex_unlock_async(j->mutex, unlocked, j);
    if (!error) return;
    complain("unlock", error); /* lost meanwhile */
    finish(j);
}

static void locked(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    job *j = arg;
    (void)mutex;
    if (error) {
        if (error != ECANCELED) complain("lock", error);
        finish(j);
        return;
    }
    if (token <= j->token) {
        fprintf(stderr, "libuv_worker: token %llu after %llu\n", (unsigned long long)token,
                (unsigned long long)j->token);
        app.failures++;
    }
    j->token = token;
    app.holds++;
    uv_timer_start(&j->work, worked, (uint64_t)app.work_ms, 0);
}

static void begin(job *j)
{
    int error = etcdlock_mutex_lock_async(j->mutex, locked, j);
    if (!error) return;
    complain("lock", error);
    finish(j);
}

static void dispatch(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)events;
    if (status == 0) status = etcdlock_client_dispatch(app.client);
    if (status) complain("dispatch", status);
}

static void interrupted(uv_signal_t *signal, int number)
{
    (void)signal;
    (void)number;
    app.is_ending = 1;
    for (int i = 0; i < app.n_jobs; i++)
        (void)etcdlock_mutex_cancel(app.jobs[i].mutex); /* waits end with ECANCELED, holds go on to the end */
}

static int number(int argc, char **argv, int i, int fallback, int most)
{
    if (i >= argc) return fallback;
    char *end;
    long value = strtol(argv[i], &end, 10);
    if (*end || end == argv[i] || value < 1 || value > most) {
        fprintf(stderr, "usage: libuv_worker [LOCKS [ROUNDS [WORK_MS]]]: %s is not 1 to %d\n", argv[i], most);
        exit(2);
    }
    return (int)value;
}

static int open_all(void)
{
    int error = etcdlock_client_open(&app.client, NULL);
    if (!error) error = etcdlock_session_open(&app.session, app.client, NULL);
    int fd = error ? -1 : etcdlock_client_fd(app.client);
    if (error || fd < 0) {
        fprintf(stderr, "libuv_worker: %s\n", etcdlock_error_message());
        return -1;
    }
    uv_poll_init(uv_default_loop(), &app.callbacks, fd);
    uv_poll_start(&app.callbacks, UV_READABLE, dispatch);
    uv_signal_init(uv_default_loop(), &app.interrupt);
    uv_signal_start(&app.interrupt, interrupted, SIGINT);
    return 0;
}

static int make_job(job *j, int i, int rounds)
{
    char name[64];
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    options.flags = ETCDLOCK_HANDLE_OWNED;
    snprintf(name, sizeof name, "libuv-worker/%d", i);
    int error = etcdlock_mutex_new(&j->mutex, app.session, name, &options);
    if (error) return error;
    uv_timer_init(uv_default_loop(), &j->work);
    j->work.data = j;
    j->rounds_left = rounds;
    return 0;
}

int main(int argc, char **argv)
{
    app.n_jobs = number(argc, argv, 1, 100, LOCKS_MAX);
    int rounds = number(argc, argv, 2, 3, 1000000);
    app.work_ms = number(argc, argv, 3, 20, 3600000);
    app.jobs = calloc((size_t)app.n_jobs, sizeof(*app.jobs));
    if (!app.jobs || open_all()) return 1;
    for (int i = 0; i < app.n_jobs; i++) {
        if (make_job(&app.jobs[i], i, rounds)) {
            fprintf(stderr, "libuv_worker: %s\n", etcdlock_error_message());
            return 1;
        }
    }
    app.n_busy = app.n_jobs;
    for (int i = 0; i < app.n_jobs; i++)
        begin(&app.jobs[i]);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    for (int i = 0; i < app.n_jobs; i++)
        (void)etcdlock_mutex_destroy(app.jobs[i].mutex);
    if (etcdlock_session_close(app.session)) app.failures++;
    if (etcdlock_client_close(app.client)) app.failures++;
    uv_loop_close(uv_default_loop());
    printf("%d locks, %d holds, %d failures\n", app.n_jobs, app.holds, app.failures);
    free(app.jobs);
    return app.failures ? 1 : 0;
}
