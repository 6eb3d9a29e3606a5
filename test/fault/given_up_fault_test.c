/* Waits that end without the lock, by time, by cancellation, under a storm of signals, at any moment: nothing
 * of them is left in the queue, and nobody holds without knowing it. */
/* cluster: 1 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/proxy.h"
#include "support/through.h"

static proxy px;
static unsigned seed;

static void begin(void)
{
    seed = 1;
    proxy_start(&px, live_endpoint(0));
}

static void finish(void)
{
    proxy_stop(&px);
}

static void pause_us(unsigned us)
{
    if (us) ck_assert_int_eq(usleep(us), 0);
}

static unsigned random_below(unsigned limit)
{
    return (unsigned)rand_r(&seed) % limit;
}

/* ---- answers that stop to come while the wait goes on */

enum { BEFORE, IN_BETWEEN, AFTER, MOMENTS, PATIENCE_MS = 300 };

/* Begins the wait of a, and from that moment on a hears no more. */
static void wait_in_silence(int moment, caller *waiter, const party *a, const party *seer, const char *name)
{
    if (moment == BEFORE) proxy_drop_replies(&px);
    caller_start(waiter, a->mutex, PATIENCE_MS);
    if (moment == IN_BETWEEN) pause_us(random_below(4000));
    if (moment == AFTER) party_await_queue(seer, name, 2);
    if (moment != BEFORE) proxy_drop_replies(&px);
}

/* (B16) The answers of a timed wait are lost, from before, in the middle of, or after its entering, and the
 * holder leaves in or after the silence: it is told of the deadline, and the next one outwaits what it left.
 */
START_TEST(timed_out_in_silence)
{
    const char *name = live_name("a");
    party a = party_through(proxy_endpoint(&px), name, 10, 0), holder = party_open(name, 0);
    party c = party_open(name, 0);
    for (int round = 0; round < 6; round++) {
        caller waiter, heir;
        bool leaves_early = round % 2;
        ck_assert_int_eq(etcdlock_mutex_lock(holder.mutex), 0);
        int64_t began_ms = live_now_ms();
        wait_in_silence(_i, &waiter, &a, &holder, name);
        caller_start(&heir, c.mutex, -1);
        if (leaves_early) {
            pause_us(50000); /* both have entered, unless the silence was first */
            ck_assert_int_eq(etcdlock_mutex_unlock(holder.mutex), 0);
        }
        ck_assert_int_eq(caller_result(&waiter, 5000), ETIMEDOUT);
        ck_assert_int_ge(waiter.returned_ms - began_ms, PATIENCE_MS);
        live_within(began_ms, PATIENCE_MS + 100);
        ck_assert_int_eq(caller_end(&waiter), 0);
        proxy_pass(&px);
        began_ms = live_now_ms();
        if (!leaves_early) ck_assert_int_eq(etcdlock_mutex_unlock(holder.mutex), 0);
        ck_assert_int_eq(caller_result(&heir, 10000), 0);
        live_within(began_ms, 2000);
        party_await_queue(&c, name, 1);
        ck_assert_int_eq(caller_end(&heir), 0);
    }
    party_close(&a);
    party_close(&holder);
    party_close(&c);
}
END_TEST

/* ---- threads that are cancelled */

typedef struct attempt {
    etcdlock_mutex *mutex;
    bool has_returned;
    int result;
} attempt;

/* Between the return of the lock call and the next line nothing is a cancellation point. */
static void *lock_once(void *arg)
{
    attempt *t = arg;
    t->result = etcdlock_mutex_lock(t->mutex);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    t->has_returned = true;
    if (t->result == 0) t->result = etcdlock_mutex_unlock(t->mutex);
    return NULL;
}

/* (B16) A thread is cancelled at any moment of its lock call: on a free lock, in the queue, or as its turn
 * comes. Either it held and has unlocked, or it has left the queue. */
START_TEST(thread_cancelled)
{
    const char *name = live_name("a");
    party a = party_open(name, 0), holder = party_open(name, 0);
    int cancelled = 0;
    for (int round = 0; round < 90; round++) {
        attempt t = {.mutex = a.mutex};
        pthread_t thread;
        void *end;
        bool is_held = round % 3 > 0, leaves = round % 3 == 2;
        if (is_held) ck_assert_int_eq(etcdlock_mutex_lock(holder.mutex), 0);
        ck_assert_int_eq(pthread_create(&thread, NULL, lock_once, &t), 0);
        pause_us(random_below(leaves ? 8000 : 3000));
        if (leaves) {
            ck_assert_int_eq(etcdlock_mutex_unlock(holder.mutex), 0);
            pause_us(random_below(1000));
        }
        ck_assert_int_eq(pthread_cancel(thread), 0);
        ck_assert_int_eq(pthread_join(thread, &end), 0);
        ck_assert(t.has_returned == (end == NULL));
        ck_assert_int_eq(t.result, 0);
        if (end) cancelled++;
        int64_t began_ms = live_now_ms();
        if (is_held && !leaves) ck_assert_int_eq(etcdlock_mutex_unlock(holder.mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_lock(holder.mutex), 0);
        live_within(began_ms, 1000);
        ck_assert_int_eq(etcdlock_mutex_unlock(holder.mutex), 0);
    }
    ck_assert_int_gt(cancelled, 30);
    party_close(&a);
    party_close(&holder);
}
END_TEST

/* ---- signals */

static atomic_int signals_taken;

static void count_signal(int number)
{
    (void)number;
    signals_taken++;
}

typedef struct storm {
    pthread_t thread;
    pthread_t target;
    atomic_bool is_over;
} storm;

static void *blow(void *arg)
{
    storm *s = arg;
    while (!s->is_over) {
        pthread_kill(s->target, SIGUSR1);
        pause_us(200);
    }
    return NULL;
}

static void storm_start(storm *s, pthread_t target)
{
    struct sigaction action = {.sa_handler = count_signal}; /* without SA_RESTART */
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    s->target = target;
    s->is_over = false;
    ck_assert_int_eq(pthread_create(&s->thread, NULL, blow, s), 0);
}

static void storm_end(storm *s)
{
    s->is_over = true;
    ck_assert_int_eq(pthread_join(s->thread, NULL), 0);
}

/* (B16) Thousands of signals interrupt the waiting thread: its wait ends at its deadline or with its turn,
 * not sooner and not later, and locking and unlocking go on as without them. */
START_TEST(storm_of_signals)
{
    const char *name = live_name("a");
    party a = party_open(name, 0), holder = party_open(name, 0);
    caller waiter;
    storm s;
    ck_assert_int_eq(etcdlock_mutex_lock(holder.mutex), 0);
    int64_t began_ms = live_now_ms();
    caller_start(&waiter, a.mutex, 1000);
    storm_start(&s, waiter.thread);
    ck_assert(!caller_is_done(&waiter, 900));
    ck_assert_int_eq(caller_result(&waiter, 5000), ETIMEDOUT);
    storm_end(&s);
    ck_assert_int_ge(waiter.returned_ms - began_ms, 1000);
    live_within(began_ms, 1000);
    ck_assert_int_eq(caller_end(&waiter), 0);
    caller_start(&waiter, a.mutex, 5000);
    storm_start(&s, waiter.thread);
    party_await_queue(&holder, name, 2);
    began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_unlock(holder.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, 5000), 0);
    live_within(began_ms, 500);
    storm_end(&s);
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_gt(signals_taken, 1000);
    storm_start(&s, pthread_self());
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(etcdlock_mutex_lock(a.mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_trylock(a.mutex), EBUSY);
        ck_assert_int_eq(etcdlock_mutex_unlock(a.mutex), 0);
    }
    storm_end(&s);
    party_close(&a);
    party_close(&holder);
}
END_TEST

/* ---- the end of the wait and the grant in the same moment */

/* What a wait said is true: it holds, alone, or nothing of it is left. */
static void expect_truth(const party *a, const party *other, const char *name, int result, int failure)
{
    ck_assert_msg(result == 0 || result == failure, "%d", result);
    if (result == 0) {
        ck_assert_uint_gt(etcdlock_mutex_token(a->mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_trylock(other->mutex), EBUSY);
        ck_assert_int_eq(etcdlock_mutex_unlock(a->mutex), 0);
    } else {
        ck_assert_uint_eq(etcdlock_mutex_token(a->mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_unlock(a->mutex), EPERM);
        int64_t began_ms = live_now_ms();
        ck_assert_int_eq(etcdlock_mutex_lock(other->mutex), 0);
        live_within(began_ms, 500);
        ck_assert_int_eq(etcdlock_mutex_unlock(other->mutex), 0);
        party_await_queue(other, name, 0);
    }
}

typedef struct deed {
    const party *p;
    unsigned after_us;
    int result;
} deed;

static void *unlock_later(void *arg)
{
    deed *d = arg;
    pause_us(d->after_us);
    d->result = etcdlock_mutex_unlock(d->p->mutex);
    return NULL;
}

static void *cancel_later(void *arg)
{
    deed *d = arg;
    pause_us(d->after_us);
    d->result = etcdlock_mutex_cancel(d->p->mutex);
    return NULL;
}

/* The handle owns the lock, so that a thread can release it. */
static void own_by_handle(party *p, const char *name)
{
    ck_assert_int_eq(etcdlock_mutex_destroy(p->mutex), 0);
    p->mutex = party_mutex(p, name, ETCDLOCK_HANDLE_OWNED);
}

/* (B16) The deadline of a wait, or its cancellation (second run), meets the grant within fractions of a
 * millisecond: success means held, failure means gone. */
START_TEST(ends_as_it_is_granted)
{
    enum { DEADLINE_MS = 20 };
    const char *name = live_name("a");
    bool by_cancel = _i;
    party a = party_open(name, 0), holder = party_open(name, 0), other = party_open(name, 0);
    own_by_handle(&holder, name);
    unsigned grant_us = DEADLINE_MS * 1000 - 1000;
    int granted = 0;
    for (int round = 0; round < 150; round++) {
        deed leave = {.p = &holder, .after_us = grant_us - 100 + random_below(200)};
        deed cancel = {.p = &a, .after_us = DEADLINE_MS * 1000};
        pthread_t leaver, canceller;
        ck_assert_int_eq(etcdlock_mutex_lock(holder.mutex), 0);
        ck_assert_int_eq(pthread_create(&leaver, NULL, unlock_later, &leave), 0);
        if (by_cancel) ck_assert_int_eq(pthread_create(&canceller, NULL, cancel_later, &cancel), 0);
        int result = by_cancel ? etcdlock_mutex_lock(a.mutex) : etcdlock_mutex_lock_for(a.mutex, DEADLINE_MS);
        ck_assert_int_eq(pthread_join(leaver, NULL), 0);
        if (by_cancel) ck_assert_int_eq(pthread_join(canceller, NULL), 0);
        ck_assert_int_eq(leave.result, 0);
        expect_truth(&a, &other, name, result, by_cancel ? ECANCELED : ETIMEDOUT);
        if (result == 0) granted++;
        grant_us += result == 0 ? 100 : -100u; /* to stay where both are about as likely */
    }
    ck_assert_int_gt(granted, 10);
    ck_assert_int_lt(granted, 140);
    party_close(&a);
    party_close(&holder);
    party_close(&other);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("given_up", &cases, 60);
    tcase_add_checked_fixture(cases, begin, finish);
    tcase_add_loop_test(cases, timed_out_in_silence, 0, MOMENTS);
    tcase_add_test(cases, thread_cancelled);
    tcase_add_test(cases, storm_of_signals);
    tcase_add_loop_test(cases, ends_as_it_is_granted, 0, 2);
    return live_run(suite);
}
