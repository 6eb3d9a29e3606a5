#include "bench/worker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NAME_ROOM = 256, STACK_BYTES = 256 * 1024, PAUSE_NS = 10000000 };

static char complaint[256];
static atomic_flag has_complained = ATOMIC_FLAG_INIT;

void worker_complain(const char *what, const char *why)
{
    if (!atomic_flag_test_and_set(&has_complained))
        snprintf(complaint, sizeof complaint, "%s: %s", what, why);
}

_Noreturn void worker_give_up(const char *what, const char *why)
{
    fprintf(stderr, "bench worker %d: %s: %s\n", (int)getpid(), what, why);
    exit(EXIT_FAILURE);
}

/* ---- what bench says and hears ---------------------------------------------------------------------- */

worker_job worker_parse(int argc, char **argv)
{
    if (argc != 8) worker_give_up("arguments", "this program is started by bench");
    worker_job job = {.mode = argv[1], .endpoints = argv[2], .name = argv[3]};
    job.contenders = atoi(argv[4]);
    job.first = atoi(argv[5]);
    job.total = atoi(argv[6]);
    job.ttl_s = atoi(argv[7]);
    if (job.contenders < 1 || job.first < 0 || job.total < job.contenders || job.ttl_s < 1)
        worker_give_up("arguments", "out of range");
    return job;
}

void worker_await_go(worker_job *job)
{
    char line[64] = "";
    long long end_us = 0;
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) exit(EXIT_SUCCESS); /* bench has ended */
    if (sscanf(line, "go %lld", &end_us) != 1) worker_give_up("not understood", line);
    job->end_us = end_us;
}

static void print_numbers(const char *key, const int64_t *numbers, size_t n)
{
    printf(",\"%s\":[", key);
    for (size_t i = 0; i < n; i++)
        printf("%s%lld", i ? "," : "", (long long)numbers[i]);
    putchar(']');
}

/* A text of ours or of a server's, as JSON has it. */
static void print_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        putchar((unsigned char)*text < ' ' ? ' ' : *text);
    }
    putchar('"');
}

void worker_tell(const worker_job *job, const worker_report *reports)
{
    printf("{\"complaint\":");
    print_text(complaint);
    printf(",\"contenders\":[");
    for (int i = 0; i < job->contenders; i++) {
        const worker_report *r = &reports[i];
        printf("%s{\"number\":%d,\"errors\":%d,\"losses\":%d", i ? "," : "", job->first + i, r->errors,
               r->losses);
        print_numbers("at_us", r->done.at_us, r->done.n);
        print_numbers("span_us", r->done.span_us, r->done.n);
        putchar('}');
    }
    printf("]}\n");
    fflush(stdout);
    while (getchar() != EOF)
        continue;
}

/* ---- the modes -------------------------------------------------------------------------------------- */

typedef struct contender {
    pthread_t thread;
    const worker_job *job;
    const lock_system *system;
    void *self;
    worker_report *report;
} contender;

/* False: this contender is out. */
static bool note_failure(contender *c, int status)
{
    struct timespec pause = {.tv_nsec = PAUSE_NS};
    if (status == WORKER_LOST) {
        c->report->losses++;
        return false;
    }
    c->report->errors++;
    nanosleep(&pause, NULL);
    return true;
}

static void *cycle(void *arg)
{
    contender *c = arg;
    bool is_contended = strcmp(c->job->mode, "contended") == 0;
    for (int64_t began_us; (began_us = clock_us()) < c->job->end_us;) {
        int status = c->system->lock(c->self);
        int64_t granted_us = clock_us();
        if (status == 0 && is_contended) samples_add(&c->report->done, granted_us, granted_us - began_us);
        if (status == 0) status = c->system->unlock(c->self);
        if (status == 0 && !is_contended) {
            int64_t over_us = clock_us();
            samples_add(&c->report->done, over_us, over_us - began_us);
        }
        if (status != 0 && !note_failure(c, status)) break;
    }
    return NULL;
}

static void try_held(contender *c)
{
    for (int64_t began_us; (began_us = clock_us()) < c->job->end_us;) {
        int status = c->system->try_lock(c->self);
        int64_t over_us = clock_us();
        if (status == WORKER_BUSY)
            samples_add(&c->report->done, over_us, over_us - began_us);
        else if (!note_failure(c, status))
            break;
    }
}

static void wait_once(contender *c)
{
    int64_t began_us = clock_us();
    int status = c->system->lock(c->self);
    int64_t granted_us = clock_us();
    if (status == 0)
        samples_add(&c->report->done, granted_us, granted_us - began_us);
    else
        (void)note_failure(c, status);
}

static void run_threads(contender *contenders, int n)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (int i = 0; i < n; i++)
        if (pthread_create(&contenders[i].thread, &attributes, cycle, &contenders[i]))
            worker_give_up("pthread_create", "no thread to be had");
    for (int i = 0; i < n; i++)
        pthread_join(contenders[i].thread, NULL);
    pthread_attr_destroy(&attributes);
}

static void run(worker_job *job, contender *contenders)
{
    bool is_try = strcmp(job->mode, "try") == 0, is_hold = strcmp(job->mode, "hold") == 0;
    contender *first = &contenders[0];
    if ((is_try || is_hold) && first->system->lock(first->self) != 0)
        worker_give_up("the holder's lock", complaint);
    worker_await_go(job);
    if (is_try)
        try_held(&contenders[1]);
    else if (strcmp(job->mode, "wait") == 0)
        wait_once(first);
    else if (!is_hold)
        run_threads(contenders, job->contenders);
}

int worker_main(int argc, char **argv, const lock_system *system)
{
    worker_job job = worker_parse(argc, argv);
    worker_report *reports = calloc((size_t)job.contenders, sizeof *reports);
    contender *contenders = calloc((size_t)job.contenders, sizeof *contenders);
    bool is_distinct = strcmp(job.mode, "distinct") == 0;
    if (!reports || !contenders) worker_give_up("memory", "is short");
    for (int i = 0; i < job.contenders; i++) {
        char name[NAME_ROOM];
        snprintf(name, sizeof name, is_distinct ? "%s-%d" : "%s", job.name, job.first + i);
        contenders[i] = (contender){.job = &job, .system = system, .report = &reports[i]};
        contenders[i].self = system->contender_open(&job, job.first + i, name);
    }
    run(&job, contenders);
    worker_tell(&job, reports);
    for (int i = 0; i < job.contenders; i++) {
        system->contender_close(contenders[i].self);
        samples_free(&reports[i].done);
    }
    system->close();
    free(contenders);
    free(reports);
    return EXIT_SUCCESS;
}
