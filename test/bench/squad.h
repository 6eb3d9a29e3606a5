/* The processes of one slice: a number of workers of one system that start together and are told to stop at
 * the same moment. */
#ifndef BENCH_SQUAD_H
#define BENCH_SQUAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum { SQUAD_MOST = 16 };

typedef struct squad_order {
    const char *program;
    const char *mode; /* of test/bench/worker.h */
    const char *endpoints;
    const char *name; /* of the lock */
    int processes;
    int contenders; /* in all of them; a multiple of `processes` */
    int ttl_s;
} squad_order;

typedef struct squad {
    int n;
    struct {
        pid_t pid;
        FILE *from;
        int to;
    } members[SQUAD_MOST];
} squad;

/* One cycle or grant. */
typedef struct sample {
    int64_t at_us;
    int64_t span_us;
    int contender;
} sample;

/* What all the workers together did, in the order of time. */
typedef struct slice {
    sample *all;
    size_t n;
    int64_t begin_us; /* samples from before it, while the workers got warm, are left out, */
    int64_t end_us;   /* and so are those from after it */
    int errors;
    int losses;
    char complaint[200];
} slice;

/* Returns when all are ready; exits if one of them is not. */
void squad_start(squad *s, const squad_order *order);
/* Lets them work until then. */
void squad_go(squad *s, int64_t end_us);
/* Waits for what they tell. begin_us and end_us bound the samples that count. */
void squad_collect(squad *s, slice *out, int64_t begin_us, int64_t end_us);
/* Lets them end, and waits for it. */
void squad_dismiss(squad *s);
/* SIGKILL to all; they are gone afterwards. */
void squad_kill(squad *s);

void slice_free(slice *s);

#endif
