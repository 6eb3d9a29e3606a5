/* The transport by itself, without anything of the library above it: what etcd and gRPC take anyway. */
#ifndef BENCH_DIRECT_H
#define BENCH_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

/* To "host:port,host:port". Exits if it cannot. A transport here belongs to one thread. */
el_transport *direct_open(const char *endpoints);
void direct_close(el_transport *t);

/* Delivers what comes until this moment of CLOCK_MONOTONIC or until one thing has come. */
void direct_turn(el_transport *t, int64_t until_us);

/* The store's revision now, linearizable. Exits if there is no answer. */
int64_t direct_revision(el_transport *t);

/* How many keys begin so. */
int64_t direct_count(el_transport *t, const char *prefix);

/* The leader as the member at this endpoint sees it; 0: it sees none, or does not answer within the time. */
uint64_t direct_leader(el_transport *t, unsigned endpoint, int64_t limit_ms);

#endif
