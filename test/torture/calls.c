#include "torture/calls.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

enum { LOOP_MS = 50 };

/* One asynchronous call, while its thread waits for its end. */
typedef struct call {
    sem_t ended;
    int error;
    int times;
} call;

static pthread_t loop_thread;
static atomic_bool loop_ends;

call_way calls_way(const torture_client *c)
{
    static const call_way ways[] = {WAY_BLOCKING, WAY_CALLBACK, WAY_BLOCKING, WAY_LOOP};
    return ways[c->slot % 4];
}

static void *loop(void *arg)
{
    torture_client *c = arg;
    struct pollfd callbacks = {.fd = etcdlock_client_fd(c->client), .events = POLLIN};
    while (!atomic_load(&loop_ends)) {
        if (poll(&callbacks, 1, LOOP_MS) < 1) continue;
        int status = etcdlock_client_dispatch(c->client);
        if (status != 0) odd(c, __LINE__, status);
    }
    return NULL;
}

void calls_begin(torture_client *c)
{
    if (calls_way(c) != WAY_LOOP) return;
    if (etcdlock_client_fd(c->client) < 0) odd(c, __LINE__, errno);
    if (pthread_create(&loop_thread, NULL, loop, c) != 0) abort();
}

void calls_end(torture_client *c)
{
    if (calls_way(c) != WAY_LOOP) return;
    atomic_store(&loop_ends, true);
    pthread_join(loop_thread, NULL);
}

static void end(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    call *one = arg;
    (void)mutex;
    (void)token;
    one->error = error;
    if (++one->times > 1) abort();
    sem_post(&one->ended);
}

static void await(call *one)
{
    while (sem_wait(&one->ended) != 0)
        ;
}

static int begin(etcdlock_mutex *mutex, tale_call kind, int64_t asked_ms, call *one)
{
    switch (kind) {
    case CALL_TRY:
        return etcdlock_mutex_trylock_async(mutex, end, one);
    case CALL_LOCK:
        return etcdlock_mutex_lock_async(mutex, end, one);
    default:
        return etcdlock_mutex_lock_for_async(mutex, asked_ms, end, one);
    }
}

int calls_lock(torture_client *c, etcdlock_mutex *mutex, tale_call kind, int64_t asked_ms)
{
    if (calls_way(c) == WAY_BLOCKING) {
        switch (kind) {
        case CALL_TRY:
            return etcdlock_mutex_trylock(mutex);
        case CALL_LOCK:
            return etcdlock_mutex_lock(mutex);
        default:
            return etcdlock_mutex_lock_for(mutex, asked_ms);
        }
    }
    call one = {.error = 0};
    sem_init(&one.ended, 0, 0);
    int status = begin(mutex, kind, asked_ms, &one);
    if (status == 0) {
        await(&one);
        status = one.error;
    }
    sem_destroy(&one.ended);
    return status;
}

int calls_unlock(torture_client *c, etcdlock_mutex *mutex)
{
    if (calls_way(c) == WAY_BLOCKING) return etcdlock_mutex_unlock(mutex);
    call one = {.error = 0};
    sem_init(&one.ended, 0, 0);
    int status = etcdlock_mutex_unlock_async(mutex, end, &one);
    if (status == 0) {
        await(&one);
        status = one.error;
    }
    sem_destroy(&one.ended);
    return status;
}
