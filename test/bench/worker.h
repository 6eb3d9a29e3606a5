/* One process of a slice, of whichever system: bench starts it, it opens what it needs and says "ready"; told
 * "go END" it works until that moment, tells in one line of JSON what it did, and ends when its input does.
 *
 *     PROGRAM MODE ENDPOINTS NAME CONTENDERS FIRST TOTAL TTL_S
 *
 * Modes: `distinct`, each contender a lock of its own, a sample per cycle; `contended`, all one lock, a
 * sample per grant; `try`, contender 0 holds a lock and 1 tries to get it, a sample per try; `hold`, takes
 * the lock before it is ready, and keeps it; `wait`, one lock call. The peer in Go speaks the same. */
#ifndef BENCH_WORKER_H
#define BENCH_WORKER_H

#include <stdint.h>

#include "bench/samples.h"

typedef struct worker_job {
    const char *mode;
    const char *endpoints; /* of the servers of this system, separated by commas */
    const char *name;      /* of the lock, or what the names of all locks begin with */
    int contenders;        /* of this process */
    int first;             /* number of the first of them, counted over all processes */
    int total;             /* in all processes */
    int64_t ttl_s;
    int64_t end_us;
} worker_job;

/* What a system's functions return beside 0. */
enum {
    WORKER_BUSY = 1,  /* of a try: somebody holds it */
    WORKER_LOST = 2,  /* what was held, or the right to hold at all, had been lost */
    WORKER_ERROR = 3, /* worker_complain has said why */
};

typedef struct lock_system {
    /* Everything that a contender needs before the clock runs; exits if it cannot be had. */
    void *(*contender_open)(const worker_job *job, int number, const char *lock);
    int (*lock)(void *contender);
    int (*try_lock)(void *contender);
    int (*unlock)(void *contender);
    void (*contender_close)(void *contender);
    void (*close)(void); /* what the contenders shared */
} lock_system;

/* A whole worker. */
int worker_main(int argc, char **argv, const lock_system *system);

/* The parts, for a worker that is no lock. */
worker_job worker_parse(int argc, char **argv);
/* Says "ready" and waits; sets end_us. */
void worker_await_go(worker_job *job);

typedef struct worker_report {
    samples done;
    int errors;
    int losses;
} worker_report;

/* Prints the line, then waits for the end of input. */
void worker_tell(const worker_job *job, const worker_report *reports);

/* Keeps the first complaint of the process for the report. */
void worker_complain(const char *what, const char *why);
/* For what makes the whole slice worthless. */
_Noreturn void worker_give_up(const char *what, const char *why);

#endif
