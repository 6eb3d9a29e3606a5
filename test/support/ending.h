/* How an asynchronous operation ended, and where that was told. */
#ifndef TEST_ENDING_H
#define TEST_ENDING_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "support/live.h"

typedef struct end {
    etcdlock_mutex *mutex;
    int error;
    uint64_t token;
    char message[200];
    pthread_t thread;
    pid_t tid;
    atomic_int n;
} end;

/* The callback; arg is an `end`. */
void end_take(etcdlock_mutex *mutex, int error, uint64_t token, void *arg);

/* The error of an operation, which must end once, and within the time. */
int end_await(end *e, int64_t ms);

/* A party whose mutex belongs to the handle. */
party open_owned(const char *name, int64_t ttl_s);

#endif
