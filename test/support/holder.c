#include "support/holder.h"

#include <check.h>
#include <poll.h>
#include <string.h>

#include "support/live.h"

enum { LOOK_MS = 10 };

/* Until when the lock is good for sure: the clock is read first. */
static int64_t valid_until_ns(const holder *h)
{
    int64_t now_ns = oracle_now_ns();
    return now_ns + etcdlock_mutex_remaining_ms(h->mutex) * INT64_C(1000000);
}

static void hold(holder *h)
{
    int64_t until_ns = valid_until_ns(h);
    uint64_t token = etcdlock_mutex_token(h->mutex);
    if (h->history && token) oracle_enter(h->history, h->name, token, until_ns);
    h->token = token;
    h->entered_ms = live_now_ms();
    h->has_returned = true;
    while (token && !h->may_leave) {
        poll(NULL, 0, LOOK_MS);
        int64_t now_until_ns = valid_until_ns(h);
        if (etcdlock_mutex_token(h->mutex) != token) {
            int64_t past_ms = (oracle_now_ns() - until_ns) / 1000000;
            h->lost_ms = live_now_ms() - (past_ms > 0 ? past_ms : 0);
            h->loss = etcdlock_mutex_ensure(h->mutex, 0); /* last: others wait for it */
            break;
        }
        if (h->history && now_until_ns != until_ns) oracle_still(h->history, h->name, token, now_until_ns);
        until_ns = now_until_ns;
    }
    if (h->history && token) oracle_leave(h->history, h->name, token, until_ns, h->loss != 0);
    h->unlock_result = etcdlock_mutex_unlock(h->mutex);
}

static void *run(void *arg)
{
    holder *h = arg;
    h->result = etcdlock_mutex_lock(h->mutex);
    if (h->result == 0) hold(h);
    h->has_returned = true;
    return NULL;
}

void holder_start(holder *h, etcdlock_mutex *mutex, const char *name, const oracle *history)
{
    memset(h, 0, sizeof *h);
    h->mutex = mutex;
    h->name = name;
    h->history = history;
    ck_assert_int_eq(pthread_create(&h->thread, NULL, run, h), 0);
}

static bool has_returned(void *arg)
{
    return ((holder *)arg)->has_returned;
}

static bool is_lost(void *arg)
{
    return ((holder *)arg)->loss != 0;
}

bool holder_is_in(holder *h, int64_t ms)
{
    return live_wait_until(has_returned, h, ms) && h->result == 0;
}

bool holder_is_lost(holder *h, int64_t ms)
{
    return live_wait_until(is_lost, h, ms);
}

int holder_end(holder *h)
{
    h->may_leave = true;
    ck_assert_int_eq(pthread_join(h->thread, NULL), 0);
    return h->result ? h->result : h->unlock_result;
}
