/* What grows with the number of waiters, and with the history that etcd keeps of a lock. */
#ifndef BENCH_GROWTH_H
#define BENCH_GROWTH_H

#include "bench/contest.h"

/* The time of a hand-over with 2 to 512 waiters. */
void growth_of_waiters(bench *b);
/* The time of an uncontended cycle after 10,000 and 100,000 of them, without compaction. */
void growth_of_history(bench *b);

#endif
