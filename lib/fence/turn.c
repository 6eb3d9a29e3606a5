#include "fence/turn.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

enum { NS_PER_S = 1000000000, NS_PER_MS = 1000000 };

struct el_fence_waiter {
    el_fence_waiter *next;
    const void *thread;
    pthread_cond_t granted;
};

int64_t el_fence_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t el_fence_deadline(int64_t ms)
{
    int64_t now = el_fence_now();
    if (ms < 0 || ms > (EL_FENCE_NEVER - now) / NS_PER_MS) return EL_FENCE_NEVER;
    return now + ms * NS_PER_MS;
}

const void *el_fence_self(void)
{
    static _Thread_local char self;
    return &self;
}

static void join(el_fence_turn *turn, el_fence_waiter *waiter)
{
    if (turn->last)
        turn->last->next = waiter;
    else
        turn->first = waiter;
    turn->last = waiter;
}

static void leave(el_fence_turn *turn, const el_fence_waiter *waiter)
{
    el_fence_waiter *before = NULL;
    for (el_fence_waiter *at = turn->first; at != waiter; at = at->next)
        before = at;
    if (before)
        before->next = waiter->next;
    else
        turn->first = waiter->next;
    if (turn->last == waiter) turn->last = before;
}

static int wait_until(pthread_cond_t *granted, pthread_mutex_t *mutex, int64_t deadline)
{
    if (deadline == EL_FENCE_NEVER) return pthread_cond_wait(granted, mutex);
    struct timespec until = {(time_t)(deadline / NS_PER_S), (long)(deadline % NS_PER_S)};
    return pthread_cond_clockwait(granted, mutex, CLOCK_MONOTONIC, &until);
}

int el_fence_turn_take(el_fence_turn *turn, pthread_mutex_t *mutex, int64_t deadline)
{
    const void *self = el_fence_self();
    if (!turn->owner) {
        turn->owner = self;
        return 0;
    }
    if (turn->owner == self) return EDEADLK;
    el_fence_waiter waiter = {NULL, self, PTHREAD_COND_INITIALIZER};
    join(turn, &waiter);
    int error = 0;
    while (turn->owner != self && !error)
        error = wait_until(&waiter.granted, mutex, deadline);
    /* Handed over in the moment in which the time ran out: it is ours all the same. */
    if (turn->owner == self)
        error = 0;
    else
        leave(turn, &waiter);
    pthread_cond_destroy(&waiter.granted);
    return error;
}

void el_fence_turn_pass(el_fence_turn *turn)
{
    assert(turn->owner == el_fence_self());
    el_fence_waiter *next = turn->first;
    turn->owner = next ? next->thread : NULL;
    if (!next) return;
    turn->first = next->next;
    if (!turn->first) turn->last = NULL;
    pthread_cond_signal(&next->granted);
}
