/* Clocks that a test shifts under a running program, by way of the preloaded clock_shim.so.
 *
 * The shim's deadlines follow: a wait until a time of a shifted clock ends when that clock would say so, by
 * the shift at its beginning. What the kernel itself dates (files, packets) and CLOCK_MONOTONIC are not
 * shifted. */
#ifndef TEST_CLOCK_SHIFT_H
#define TEST_CLOCK_SHIFT_H

#include <stdint.h>

/* Names the file of offsets to the shim. */
#define CLOCK_SHIFT_VARIABLE "ETCDLOCK_TEST_CLOCK_FILE"

/* The content of that file, mapped by both. */
typedef struct clock_offsets {
    _Atomic int64_t realtime_ns; /* added to CLOCK_REALTIME */
    _Atomic int64_t boottime_ns; /* added to CLOCK_BOOTTIME */
} clock_offsets;

typedef struct clock_shift {
    clock_offsets *offsets;
    char path[64];
} clock_shift;

/* Makes the file, with no shift. Aborts if it cannot. */
void clock_shift_start(clock_shift *shift);
void clock_shift_stop(clock_shift *shift);

/* For the child, between fork and exec: puts the shim (ETCDLOCK_TEST_CLOCK_SHIM) and the file into the
 * environment. */
void clock_shift_preload(const clock_shift *shift);

/* From now on; seconds, may be negative. */
void clock_shift_realtime(clock_shift *shift, int64_t s);
void clock_shift_boottime(clock_shift *shift, int64_t s);

#endif
