#include "support/ending.h"

#include <string.h>
#include <unistd.h>

void end_take(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    end *e = arg;
    e->mutex = mutex;
    e->error = error;
    e->token = token;
    e->thread = pthread_self();
    e->tid = gettid();
    strncpy(e->message, error ? etcdlock_error_message() : "", sizeof e->message - 1);
    atomic_fetch_add(&e->n, 1);
}

static bool has_ended(void *arg)
{
    return atomic_load(&((end *)arg)->n) > 0;
}

int end_await(end *e, int64_t ms)
{
    ck_assert(live_wait_until(has_ended, e, ms));
    ck_assert_int_eq(atomic_load(&e->n), 1);
    return e->error;
}

party open_owned(const char *name, int64_t ttl_s)
{
    party p = party_open(name, ttl_s);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    p.mutex = party_mutex(&p, name, ETCDLOCK_HANDLE_OWNED);
    return p;
}
