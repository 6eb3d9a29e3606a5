/* What one contender noted: when each of its cycles or grants was over, and how long it had taken. */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

typedef struct samples {
    int64_t *at_us; /* CLOCK_MONOTONIC: one clock for all processes of the machine */
    int64_t *span_us;
    size_t n;
    size_t room;
} samples;

/* Aborts where memory is short. */
void samples_add(samples *s, int64_t at_us, int64_t span_us);
void samples_free(samples *s);

int64_t clock_us(void);

#endif
