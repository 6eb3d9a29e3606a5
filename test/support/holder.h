/* A thread that locks, writes into the history for how long it may rely on the lock, and goes when it is told
 * to or when it has lost it. */
#ifndef TEST_HOLDER_H
#define TEST_HOLDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "etcdlock.h"
#include "support/oracle.h"

typedef struct holder {
    pthread_t thread;
    etcdlock_mutex *mutex;
    const char *name;
    const oracle *history; /* NULL: none */
    atomic_bool may_leave;
    atomic_bool has_returned; /* the lock call */
    atomic_int result;        /* of it */
    atomic_int loss;          /* why it is held no longer; 0: it is, or was left */
    _Atomic int64_t entered_ms;
    _Atomic int64_t lost_ms; /* when it was lost: noticed, or its last deadline, whichever came first */
    _Atomic uint64_t token;
    int unlock_result;
} holder;

void holder_start(holder *h, etcdlock_mutex *mutex, const char *name, const oracle *history);

/* The lock call has returned 0 within the time. */
bool holder_is_in(holder *h, int64_t ms);
/* It was lost within the time. */
bool holder_is_lost(holder *h, int64_t ms);

/* Waits for the lock call, lets the thread unlock and joins it; the error of lock, or of unlock, or 0. */
int holder_end(holder *h);

#endif
