/* A hot lock while the leader of three members is killed: the longest time without a grant, and who believed
 * to have lost what he had not. */
#ifndef BENCH_LEADER_KILL_H
#define BENCH_LEADER_KILL_H

#include "bench/contest.h"

void leader_kill_run(bench *b);

#endif
