/* The cases in the order in which they are run. */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include "bench/contest.h"

/* Runs those of them that are named, separated by commas; NULL: all that this size of cluster has. False: a
 * name that there is not. */
bool cases_run(bench *b, const char *only);

#endif
