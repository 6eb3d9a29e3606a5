/* The session of a torture client and the mutexes made from it: one at a time, used by all threads of the
 * process, replaced as a whole when the session was lost. */
#ifndef TORTURE_GENERATION_H
#define TORTURE_GENERATION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "etcdlock.h"
#include "support/oracle.h"
#include "torture/tale.h"

enum { MOST_THREADS = 8 };

typedef struct generation {
    etcdlock_session *session;
    /* The threads share the first row; with asynchronous calls, where a handle's holds belong to no thread,
     * each has one of its own. */
    etcdlock_mutex *mutexes[MOST_THREADS][LOCKS];
    int64_t lease;
    int users; /* threads in it, and one while it is the current one */
} generation;

/* What a client process has. */
typedef struct torture_client {
    int slot;
    int ttl_s;
    int threads;
    uint64_t seed;
    const char *folder;
    const char *endpoints;
    etcdlock_client *client;
    oracle history;
    atomic_bool finish;
} torture_client;

/* The current one, opened if there is none, for use until generation_put; NULL: told to finish meanwhile. */
generation *generation_get(torture_client *c);
/* What thread `number` locks by. */
etcdlock_mutex *generation_mutex(const torture_client *c, const generation *g, int number, int lock);
/* over: its session is lost, nobody is to get it any more. */
void generation_put(torture_client *c, generation *g, bool over);
/* Closes the current one; no thread uses any. */
void generation_end(torture_client *c);

/* Notes a result that must not be, with the line in which it was seen. */
void odd(const torture_client *c, int line, int code);

#endif
