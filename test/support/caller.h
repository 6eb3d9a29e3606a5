/* A thread that makes one lock call, keeps the lock until it is told to unlock, and remembers what the calls
 * returned. */
#ifndef TEST_CALLER_H
#define TEST_CALLER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "etcdlock.h"

typedef struct caller {
    pthread_t thread;
    etcdlock_mutex *mutex;
    int64_t limit_ms; /* of lock_for; negative: lock */
    sem_t returned;
    sem_t may_unlock;
    int result;
    int unlock_result;
    uint64_t token;
    int64_t returned_ms; /* when the lock call returned */
} caller;

/* Begins lock, or lock_for if limit_ms is not negative. */
void caller_start(caller *c, etcdlock_mutex *mutex, int64_t limit_ms);

/* True as soon as the lock call has returned, false after the time. */
bool caller_is_done(caller *c, int64_t ms);

/* The result of the lock call; fails the case if it does not return within the time. */
int caller_result(caller *c, int64_t ms);

/* Lets it unlock if it holds, joins the thread, and returns what unlock said, or 0. */
int caller_end(caller *c);

#endif
