/* A worker that is no lock: the same writes and watches by way of the transport alone. Nothing that is built
 * on them can be quicker, unless it puts several into one transaction.
 *
 * `distinct`: each contender puts a key and deletes it. `contended`: a ring; each contender has a key,
 * watches that of the one before it, and when that is deleted deletes its own, then puts it again. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/direct.h"
#include "bench/worker.h"

enum { KEY_ROOM = 256, PATIENCE_NS = 1000000000 };

typedef struct writer {
    el_call call; /* first: it is found by its address */
    el_transport *t;
    char key[KEY_ROOM];
    bool is_there; /* the key */
    bool is_busy;
    int64_t began_us;
    void (*written)(struct writer *w);
    void *arg;
} writer;

static void take(el_call *call, const el_status *status, const el_answer *answer)
{
    writer *w = (writer *)call;
    (void)answer;
    if (status->code == EL_CANCELLED) return;
    if (status->code != EL_OK) worker_give_up(w->key, status->message);
    w->is_busy = false;
    w->is_there = !w->is_there;
    w->written(w);
}

/* Puts the key if it is not there, else deletes it. */
static void write_key(writer *w)
{
    el_span key = {w->key, strlen(w->key)};
    el_op op = {.kind = EL_OP_PUT, .put = {.key = key}};
    if (w->is_there) op = (el_op){.kind = EL_OP_DELETE, .del = {.key = key}};
    el_request request = {.verb = EL_TXN, .txn = {.success = &op, .n_success = 1}};
    w->call = (el_call){.lane = EL_LANE_IO, .done = take};
    w->call.deadline_ns = w->t->now_ns(w->t) + PATIENCE_NS;
    w->is_busy = true;
    w->t->call(w->t, &w->call, &request);
}

static void name_key(char key[KEY_ROOM], const worker_job *job, int number)
{
    snprintf(key, KEY_ROOM, "%s-%d", job->name, number);
}

/* ---- put and delete --------------------------------------------------------------------------------- */

typedef struct cycler {
    writer w;
    const worker_job *job;
    worker_report *report;
    bool *is_open; /* until "go" a cycle is one to get warm, and the last */
} cycler;

static void cycle_on(writer *w)
{
    cycler *c = w->arg;
    if (w->is_there) {
        write_key(w);
        return;
    }
    int64_t now_us = clock_us();
    if (!*c->is_open) return;
    samples_add(&c->report->done, now_us, now_us - w->began_us);
    if (now_us >= c->job->end_us) return;
    w->began_us = now_us;
    write_key(w);
}

static bool is_any_busy(const cycler *cyclers, int n)
{
    for (int i = 0; i < n; i++)
        if (cyclers[i].w.is_busy) return true;
    return false;
}

static void start_all(cycler *cyclers, int n)
{
    for (int i = 0; i < n; i++) {
        cyclers[i].w.began_us = clock_us();
        write_key(&cyclers[i].w);
    }
    while (is_any_busy(cyclers, n))
        direct_turn(cyclers[0].w.t, INT64_MAX / 1000);
}

static void run_distinct(worker_job *job, worker_report *reports)
{
    cycler *cyclers = calloc((size_t)job->contenders, sizeof *cyclers);
    el_transport *t = direct_open(job->endpoints);
    bool is_open = false;
    if (!cyclers) worker_give_up("memory", "is short");
    for (int i = 0; i < job->contenders; i++) {
        cycler *c = &cyclers[i];
        *c = (cycler){.job = job, .report = &reports[i], .is_open = &is_open};
        c->w.t = t;
        c->w.written = cycle_on;
        c->w.arg = c;
        name_key(c->w.key, job, job->first + i);
    }
    start_all(cyclers, job->contenders);
    worker_await_go(job);
    is_open = true;
    start_all(cyclers, job->contenders);
    direct_close(t);
    free(cyclers);
}

/* ---- the ring --------------------------------------------------------------------------------------- */

typedef struct ring_link {
    writer w;
    el_watch_stream stream;
    pthread_t thread;
    const worker_job *job;
    worker_report *report;
    int number;
    bool is_watching;
    bool is_due;    /* the one before has let go */
    int64_t put_us; /* when it came into the queue, if this were one */
} ring_link;

static void pass_on(ring_link *l)
{
    if (!l->is_due || !l->w.is_there || l->w.is_busy) return;
    l->is_due = false;
    write_key(&l->w);
}

static void after_write(writer *w)
{
    ring_link *l = w->arg;
    if (w->is_there) {
        pass_on(l);
        return;
    }
    l->put_us = clock_us();
    write_key(w);
}

static void on_message(el_watch_stream *stream, const el_watch_message *message)
{
    ring_link *l = (ring_link *)((char *)stream - offsetof(ring_link, stream));
    if (message->canceled) worker_give_up("watch", message->reason);
    if (message->created) l->is_watching = true;
    for (size_t i = 0; i < message->n_events; i++) {
        if (!message->events[i].deleted) continue;
        int64_t now_us = clock_us();
        samples_add(&l->report->done, now_us, now_us - l->put_us);
        l->is_due = true;
    }
    pass_on(l);
}

static void on_closed(el_watch_stream *stream, const el_status *status)
{
    (void)stream;
    if (status->code != EL_CANCELLED) worker_give_up("watch", status->message);
}

static void open_link(ring_link *l, const worker_job *job, int number)
{
    char before[KEY_ROOM];
    l->job = job;
    l->number = number;
    l->w.t = direct_open(job->endpoints);
    l->w.written = after_write;
    l->w.arg = l;
    l->stream = (el_watch_stream){.lane = EL_LANE_IO, .message = on_message, .closed = on_closed};
    name_key(l->w.key, job, number);
    name_key(before, job, (number + job->total - 1) % job->total);
    write_key(&l->w);
    l->w.t->watch_open(l->w.t, &l->stream);
    l->w.t->watch_create(l->w.t, &l->stream, 1, (el_span){before, strlen(before)}, 0, true);
    while (!l->is_watching || !l->w.is_there)
        direct_turn(l->w.t, INT64_MAX / 1000);
}

static void *pass_round(void *arg)
{
    ring_link *l = arg;
    l->put_us = clock_us();
    if (l->number == 0) {
        l->is_due = true;
        pass_on(l);
    }
    while (clock_us() < l->job->end_us)
        direct_turn(l->w.t, l->job->end_us);
    return NULL;
}

static void run_ring(worker_job *job, worker_report *reports)
{
    ring_link *links = calloc((size_t)job->contenders, sizeof *links);
    if (!links) worker_give_up("memory", "is short");
    for (int i = 0; i < job->contenders; i++) {
        links[i].report = &reports[i];
        open_link(&links[i], job, job->first + i);
    }
    worker_await_go(job);
    for (int i = 0; i < job->contenders; i++)
        if (pthread_create(&links[i].thread, NULL, pass_round, &links[i]))
            worker_give_up("pthread_create", "no thread to be had");
    for (int i = 0; i < job->contenders; i++)
        pthread_join(links[i].thread, NULL);
    for (int i = 0; i < job->contenders; i++)
        direct_close(links[i].w.t);
    free(links);
}

int main(int argc, char **argv)
{
    worker_job job = worker_parse(argc, argv);
    worker_report *reports = calloc((size_t)job.contenders, sizeof *reports);
    if (!reports) worker_give_up("memory", "is short");
    if (strcmp(job.mode, "contended") == 0)
        run_ring(&job, reports);
    else
        run_distinct(&job, reports);
    worker_tell(&job, reports);
    for (int i = 0; i < job.contenders; i++)
        samples_free(&reports[i].done);
    free(reports);
    return EXIT_SUCCESS;
}
