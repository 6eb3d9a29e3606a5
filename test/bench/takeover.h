/* How long a lock stands still when its holder is killed. */
#ifndef BENCH_TAKEOVER_H
#define BENCH_TAKEOVER_H

#include "bench/contest.h"

void takeover_run(bench *b);

#endif
