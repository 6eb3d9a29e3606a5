/* A worker of mode `distinct` that locks without blocking: all its contenders are served by one thread, which
 * runs the callbacks from an event loop of its own. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/worker.h"
#include "etcdlock.h"
#include "etcdlock/async.h"

enum { NAME_ROOM = 256 };

typedef struct contender {
    etcdlock_mutex *mutex;
    const worker_job *job;
    worker_report *report;
    int *running;
    int64_t began_us;
} contender;

static void begin(contender *c);

static void fail(contender *c, int error)
{
    worker_complain("asynchronous call", etcdlock_strerror(error));
    if (error == ETCDLOCK_ESESSION || error == ETCDLOCK_EENTRY)
        c->report->losses++;
    else
        c->report->errors++;
    --*c->running;
}

static void on_unlocked(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    contender *c = arg;
    (void)mutex, (void)token;
    if (error) {
        fail(c, error);
        return;
    }
    int64_t over_us = clock_us();
    samples_add(&c->report->done, over_us, over_us - c->began_us);
    begin(c);
}

static void on_locked(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    contender *c = arg;
    (void)token;
    if (!error) error = etcdlock_mutex_unlock_async(mutex, on_unlocked, c);
    if (error) fail(c, error);
}

static void begin(contender *c)
{
    c->began_us = clock_us();
    if (c->began_us >= c->job->end_us) {
        --*c->running;
        return;
    }
    int error = etcdlock_mutex_lock_async(c->mutex, on_locked, c);
    if (error) fail(c, error);
}

static void serve(etcdlock_client *client, const int *running)
{
    struct pollfd ready = {.fd = etcdlock_client_fd(client), .events = POLLIN};
    if (ready.fd < 0) worker_give_up("descriptor", etcdlock_error_message());
    while (*running > 0)
        if (poll(&ready, 1, -1) > 0 && etcdlock_client_dispatch(client))
            worker_give_up("dispatch", etcdlock_error_message());
}

static void run(worker_job *job, contender *contenders, worker_report *reports, etcdlock_client *client,
                etcdlock_session *session)
{
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    int running = job->contenders;
    options.flags = ETCDLOCK_HANDLE_OWNED;
    for (int i = 0; i < job->contenders; i++) {
        char name[NAME_ROOM];
        snprintf(name, sizeof name, "%s-%d", job->name, job->first + i);
        contenders[i] = (contender){.job = job, .report = &reports[i], .running = &running};
        if (etcdlock_mutex_new(&contenders[i].mutex, session, name, &options))
            worker_give_up(name, etcdlock_error_message());
    }
    (void)etcdlock_client_fd(client);
    worker_await_go(job);
    for (int i = 0; i < job->contenders; i++)
        begin(&contenders[i]);
    serve(client, &running);
    for (int i = 0; i < job->contenders; i++)
        (void)etcdlock_mutex_destroy(contenders[i].mutex);
}

int main(int argc, char **argv)
{
    etcdlock_client_options options = ETCDLOCK_CLIENT_OPTIONS_INIT;
    etcdlock_client *client;
    etcdlock_session *session;
    worker_job job = worker_parse(argc, argv);
    worker_report *reports = calloc((size_t)job.contenders, sizeof *reports);
    contender *contenders = calloc((size_t)job.contenders, sizeof *contenders);
    if (!reports || !contenders || strcmp(job.mode, "distinct") != 0)
        worker_give_up("arguments", "no memory, or another mode than distinct");
    options.endpoints = job.endpoints;
    if (etcdlock_client_open(&client, &options) || etcdlock_session_open(&session, client, NULL))
        worker_give_up("session", etcdlock_error_message());
    run(&job, contenders, reports, client, session);
    worker_tell(&job, reports);
    for (int i = 0; i < job.contenders; i++)
        samples_free(&reports[i].done);
    (void)etcdlock_session_close(session);
    (void)etcdlock_client_close(client);
    free(contenders);
    free(reports);
    return EXIT_SUCCESS;
}
