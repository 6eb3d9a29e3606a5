/* The figures of a slice. A hand-over is a grant to another contender than the one before; it took the time
 * since that one's own grant, which is all there is where a holder lets go at once. */
#ifndef BENCH_FIGURES_H
#define BENCH_FIGURES_H

#include "bench/squad.h"

typedef enum figure {
    FIGURE_CYCLE_P50,    /* us */
    FIGURE_CYCLE_P99,    /* us */
    FIGURE_RATE,         /* cycles or grants a second */
    FIGURE_HANDOVERS,    /* a second */
    FIGURE_HANDOVER_P50, /* ms */
    FIGURE_HANDOVER_P99, /* ms */
    FIGURE_LONGEST_WAIT, /* ms, from the lock call to the grant */
    FIGURES,
} figure;

/* NAN where the slice has no sample for it. */
double figure_of(const slice *s, figure which);

/* The longest time without a grant, begin and end of the slice counted, in ms. */
double figure_longest_gap_ms(const slice *s);

/* Sorts the numbers; n may be 0 (NAN), part is from 0 to 1. */
double figure_percentile(double *numbers, size_t n, double part);

const char *figure_name(figure which);
const char *figure_unit(figure which);
bool figure_is_time(figure which); /* less is better */

#endif
