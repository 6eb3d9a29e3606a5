/* Ten thousand locks waited for by one process: what a waiter costs, and how long it takes to serve them all.
 */
#ifndef BENCH_WAITERS_H
#define BENCH_WAITERS_H

#include "bench/contest.h"

void waiters_run(bench *b);

#endif
