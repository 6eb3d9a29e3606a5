#include "bench/growth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/ledger.h"

enum { SIZES = 5, MOST_ROUNDS = 25, NEAR = 1000 };

/* ---- waiters ---------------------------------------------------------------------------------------- */

void growth_of_waiters(bench *b)
{
    static const int sizes[SIZES] = {2, 8, 32, 128, 512};
    double ms[SIZES][MOST_ROUNDS], least = (double)NAN;
    int rounds = b->rounds < MOST_ROUNDS ? b->rounds : MOST_ROUNDS;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < SIZES; i++) {
            slice out;
            fprintf(stderr, "  growth-waiters, round %d of %d: %d waiters   \r", round + 1, rounds, sizes[i]);
            bench_slice(b, PARTY_OURS,
                        bench_order(b, PARTY_OURS, "contended", sizes[i] < 8 ? sizes[i] : 8, sizes[i]),
                        b->seconds, &out);
            ms[i][round] = figure_of(&out, FIGURE_HANDOVER_P50);
            slice_free(&out);
        }
    }
    for (int i = 0; i < SIZES; i++) {
        char measure[32];
        double p50 = figure_percentile(ms[i], (size_t)rounds, 0.5);
        if (i == 0) least = p50;
        snprintf(measure, sizeof measure, "p50 with %d", sizes[i]);
        ledger_add(&(ledger_row){.name = "growth-waiters",
                                 .measure = measure,
                                 .unit = "ms",
                                 .less_is_better = true,
                                 .ours = p50,
                                 .peer = i ? "ours with 2" : NULL,
                                 .peer_value = least});
    }
}

/* ---- history ---------------------------------------------------------------------------------------- */

/* The median of the cycles from number `first` on. */
static double median_from(const slice *s, size_t first)
{
    double spans[NEAR];
    size_t n = 0;
    for (size_t i = first; i < s->n && n < NEAR; i++)
        spans[n++] = (double)s->all[i].span_us;
    return figure_percentile(spans, n, 0.5);
}

void growth_of_history(bench *b)
{
    static const size_t ages[] = {10000, 100000};
    const size_t oldest = ages[sizeof ages / sizeof *ages - 1];
    slice out;
    fprintf(stderr, "  growth-history: how quick it is           \r");
    bench_slice(b, PARTY_OURS, bench_order(b, PARTY_OURS, "distinct", 1, 1), 1, &out);
    double seconds = (double)(oldest + 2 * NEAR) / (figure_of(&out, FIGURE_RATE) + 1) * 1.15;
    slice_free(&out);
    fprintf(stderr, "  growth-history: %zu cycles, about %.0f s  \r", oldest, seconds);
    bench_slice(b, PARTY_OURS, bench_order(b, PARTY_OURS, "distinct", 1, 1), seconds, &out);
    double young = median_from(&out, 0);
    for (size_t i = 0; i < sizeof ages / sizeof *ages; i++) {
        char measure[32];
        double old = median_from(&out, ages[i]);
        snprintf(measure, sizeof measure, "p50 after %zu", ages[i]);
        if (isnan(old)) {
            ledger_skip("growth-history", measure, "the machine was too busy to come so far");
            continue;
        }
        ledger_add(&(ledger_row){.name = "growth-history",
                                 .measure = measure,
                                 .unit = "us",
                                 .less_is_better = true,
                                 .ours = old,
                                 .peer = "ours at first",
                                 .peer_value = young});
    }
    slice_free(&out);
}
