/* Processes that check tokens against guards in files, are killed at random points, and are watched: no token
 * that was admitted may be forgotten, and none refused that is as high as all that were tried. */
#ifndef TEST_FENCE_CRASH_H
#define TEST_FENCE_CRASH_H

#include <stdbool.h>
#include <stdint.h>

typedef struct crash_plan {
    unsigned kills;
    uint64_t seed;
    const char *folder; /* for the stores; exists */
} crash_plan;

typedef struct crash_report {
    unsigned kills;
    unsigned in_call;   /* kills that hit a process inside of a call */
    unsigned stores;    /* files that were used up */
    unsigned left_over; /* half-made files that creators left */
    uint64_t admitted;
    uint64_t refused;
    uint64_t kept;    /* begun and ended */
    uint64_t largest; /* file, in bytes */
    char broken[400]; /* the first rule that was broken; "": none */
} crash_report;

/* True if all rules were kept. */
bool crash_run(const crash_plan *plan, crash_report *report);

#endif
