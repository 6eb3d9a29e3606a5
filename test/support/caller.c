#include "support/caller.h"

#include <check.h>
#include <errno.h>
#include <time.h>

#include "support/live.h"

static void *run(void *arg)
{
    caller *c = arg;
    c->result =
        c->limit_ms < 0 ? etcdlock_mutex_lock(c->mutex) : etcdlock_mutex_lock_for(c->mutex, c->limit_ms);
    c->returned_ms = live_now_ms();
    bool holds = c->result == 0 || c->result == EOWNERDEAD;
    if (holds) c->token = etcdlock_mutex_token(c->mutex);
    sem_post(&c->returned);
    if (!holds) return NULL;
    while (sem_wait(&c->may_unlock)) {
    }
    c->unlock_result = etcdlock_mutex_unlock(c->mutex);
    return NULL;
}

void caller_start(caller *c, etcdlock_mutex *mutex, int64_t limit_ms)
{
    *c = (caller){.mutex = mutex, .limit_ms = limit_ms};
    ck_assert_int_eq(sem_init(&c->returned, 0, 0), 0);
    ck_assert_int_eq(sem_init(&c->may_unlock, 0, 0), 0);
    ck_assert_int_eq(pthread_create(&c->thread, NULL, run, c), 0);
}

bool caller_is_done(caller *c, int64_t ms)
{
    struct timespec until;
    int error;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    do
        error = sem_clockwait(&c->returned, CLOCK_MONOTONIC, &until);
    while (error && errno == EINTR);
    if (!error) sem_post(&c->returned);
    return !error;
}

int caller_result(caller *c, int64_t ms)
{
    ck_assert_msg(caller_is_done(c, ms), "the lock call has not returned within %lld ms", (long long)ms);
    return c->result;
}

int caller_end(caller *c)
{
    sem_post(&c->may_unlock);
    ck_assert_int_eq(pthread_join(c->thread, NULL), 0);
    sem_destroy(&c->returned);
    sem_destroy(&c->may_unlock);
    return c->unlock_result;
}
