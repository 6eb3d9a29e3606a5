/* The blocking calls of the mutex: each begins an operation, and waits for its end. */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "core/backoff.h"
#include "core/client.h"
#include "core/key.h"
#include "core/process.h"
#include "recipes/dropin.h"
#include "recipes/mutex.h"

enum { LABEL_MAX = 256, LOCK_DELAY_MAX_MS = 3600000 };

/* ---- waiting
 * ------------------------------------------------------------------------------------------------ */

typedef struct waiter {
    pthread_cond_t changed;
    bool is_done;
    el_failure failure;
    bool had_place; /* in the queue, before it failed */
    el_mutex *mutex;
    el_hold *hold;
    el_client *client;
} waiter;

static void wake(el_hold *hold, const el_failure *failure)
{
    waiter *w = hold->user;
    w->is_done = true;
    w->failure = *failure;
    w->had_place = hold->contender->place.create_revision != 0;
    /* Not when the thread has woken up: by then it may have lost it. */
    if (hold->state == EL_HOLD_HELD) el_hold_tell_death(hold, &w->failure);
    pthread_cond_signal(&w->changed);
}

/* Not if another thread has unlocked what was granted meanwhile, or is about to. */
static bool is_still_ours(const waiter *w)
{
    for (el_list *link = w->mutex->holds.next; link != &w->mutex->holds; link = link->next) {
        const el_hold *hold = EL_CONTAINER(link, el_hold, link);
        if (hold == w->hold) return hold->user == w;
    }
    return false;
}

/* The thread is cancelled while it waits: its place in the queue must not outlive it. */
static void give_up(void *argument)
{
    waiter *w = argument;
    if (is_still_ours(w)) el_hold_abandon(w->hold);
    w->mutex->n_operations--;
    pthread_cond_destroy(&w->changed);
    el_client_leave(w->client);
}

/* Until it has returned the mutex cannot be destroyed, whatever becomes of the hold. */
static void await(waiter *w)
{
    int inside;
    w->mutex->n_operations++;
    pthread_cleanup_push(give_up, w);
    pthread_setcancelstate(el_client_cancel_state(), &inside);
    /* The wait below looks for a cancellation only if it has to sleep. */
    pthread_testcancel();
    while (!w->is_done)
        pthread_cond_wait(&w->changed, &w->client->lock);
    pthread_setcancelstate(inside, NULL);
    pthread_cleanup_pop(0);
    w->mutex->n_operations--;
}

static int forked(el_failure *failure)
{
    return el_fail(failure, ETCDLOCK_EFORKED,
                   "the mutex was made before fork() and belongs to the parent: make one in the child");
}

/* Finds the mutex and takes its client's lock. */
static int enter(etcdlock_mutex *handle, bool may_open, el_mutex **out, el_failure *failure)
{
    failure->error = 0;
    int error = el_dropin_resolve(handle, may_open, out, failure);
    if (error) return error;
    return el_client_enter((*out)->client) ? forked(failure) : 0;
}

/* ---- lock
 * ------------------------------------------------------------------------------------------------------ */

int64_t el_mutex_deadline(const el_client *client, el_enter_mode *mode, int64_t limit_ns)
{
    if (limit_ns <= 0) *mode = EL_ENTER_TRY;
    if (*mode == EL_ENTER_TRY) limit_ns = client->command_timeout_ns;
    return limit_ns == INT64_MAX ? INT64_MAX : el_now(client) + limit_ns;
}

int el_timed_error(int error)
{
    bool is_late = error == EBUSY || error == ETCDLOCK_EUNREACHABLE || error == ETCDLOCK_EUNKNOWN;
    return is_late ? ETIMEDOUT : error;
}

/* One try at it; the outcome is in w->failure. */
static void lock_once(waiter *w, etcdlock_mutex *handle, el_enter_mode mode, int64_t limit_ns)
{
    el_mutex *mutex;
    *w = (waiter){.is_done = false};
    if (enter(handle, true, &mutex, &w->failure)) return;
    w->mutex = mutex;
    w->client = mutex->client;
    int64_t deadline_ns = el_mutex_deadline(w->client, &mode, limit_ns);
    pthread_cond_init(&w->changed, NULL);
    int error = el_mutex_begin(mutex, &w->hold, el_process_thread(), mode, deadline_ns, wake, w, &w->failure);
    if (!error && w->hold) await(w);
    pthread_cond_destroy(&w->changed);
    el_client_leave(w->client);
}

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * EL_S + now.tv_nsec;
}

static int lock(etcdlock_mutex *handle, const char *call, el_enter_mode mode, int64_t limit_ns)
{
    waiter w;
    /* Once a call has ended the handle may be destroyed; one of the drop-in form is the program's own. */
    etcdlock_mutex *dropin = handle && el_dropin_is(handle) ? handle : NULL;
    bool is_timed = mode == EL_ENTER_WAIT && limit_ns != INT64_MAX;
    int64_t began_ns = monotonic_ns();
    lock_once(&w, handle, mode, limit_ns);
    /* The session of the process had been lost without anybody knowing: the next try opens a new one. A place
     * that was lost while it was waited in is not silently exchanged for a later one. */
    if (w.failure.error == ETCDLOCK_ESESSION && !w.had_place && dropin) {
        if (is_timed) limit_ns -= monotonic_ns() - began_ns;
        lock_once(&w, dropin, mode, limit_ns);
    }
    if (is_timed) w.failure.error = el_timed_error(w.failure.error);
    return el_dropin_judge(dropin, call, &w.failure);
}

int etcdlock_mutex_lock(etcdlock_mutex *mutex)
{
    return lock(mutex, "lock", EL_ENTER_WAIT, INT64_MAX);
}

int etcdlock_mutex_trylock(etcdlock_mutex *mutex)
{
    return lock(mutex, "trylock", EL_ENTER_TRY, INT64_MAX);
}

int64_t el_limit_of_ms(int64_t ms)
{
    if (ms < 0) return 0;
    return ms < INT64_MAX / EL_MS / 4 ? ms * EL_MS : INT64_MAX;
}

int etcdlock_mutex_lock_for(etcdlock_mutex *mutex, int64_t ms)
{
    return lock(mutex, "lock_for", EL_ENTER_WAIT, el_limit_of_ms(ms));
}

static int lock_until(etcdlock_mutex *mutex, const char *call, clockid_t clock,
                      const struct timespec *abs_time)
{
    struct timespec now;
    if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME)
        return el_publish_new(
            EINVAL, "%s: clock %d is not supported: use CLOCK_REALTIME, CLOCK_MONOTONIC or CLOCK_BOOTTIME",
            call, (int)clock);
    if (!abs_time || abs_time->tv_nsec < 0 || abs_time->tv_nsec >= EL_S)
        return el_publish_new(EINVAL, "%s: the deadline is %s", call,
                              abs_time ? "malformed: tv_nsec must be 0 to 999999999" : "NULL");
    clock_gettime(clock, &now);
    /* Before the difference is taken: that of a point long ago may not have the room. */
    if (abs_time->tv_sec < now.tv_sec) return lock(mutex, call, EL_ENTER_WAIT, 0);
    int64_t seconds = abs_time->tv_sec - now.tv_sec;
    if (seconds > INT64_MAX / EL_S / 4) return lock(mutex, call, EL_ENTER_WAIT, INT64_MAX);
    int64_t limit_ns = seconds * EL_S + (abs_time->tv_nsec - now.tv_nsec);
    return lock(mutex, call, EL_ENTER_WAIT, limit_ns > 0 ? limit_ns : 0);
}

int etcdlock_mutex_timedlock(etcdlock_mutex *mutex, const struct timespec *abs_realtime)
{
    return lock_until(mutex, "timedlock", CLOCK_REALTIME, abs_realtime);
}

int etcdlock_mutex_clocklock(etcdlock_mutex *mutex, clockid_t clock, const struct timespec *abs_time)
{
    return lock_until(mutex, "clocklock", clock, abs_time);
}

/* ---- unlock, cancel
 * ---------------------------------------------------------------------------------------------- */

int etcdlock_mutex_unlock(etcdlock_mutex *handle)
{
    el_mutex *mutex;
    waiter w = {.is_done = false};
    bool is_over;
    const etcdlock_mutex *dropin = handle && el_dropin_is(handle) ? handle : NULL;
    if (enter(handle, false, &mutex, &w.failure)) return el_dropin_judge(dropin, "unlock", &w.failure);
    w.client = mutex->client;
    int error = el_mutex_begin_unlock(mutex, el_process_thread(), wake, &w, &is_over, &w.failure);
    if (!error && !is_over) {
        /* As pthread_mutex_unlock this is no cancellation point: a thread that ends must have unlocked. */
        pthread_cond_init(&w.changed, NULL);
        mutex->n_operations++;
        while (!w.is_done)
            pthread_cond_wait(&w.changed, &w.client->lock);
        mutex->n_operations--;
        pthread_cond_destroy(&w.changed);
    }
    el_client_leave(w.client);
    return el_dropin_judge(dropin, "unlock", &w.failure);
}

int etcdlock_mutex_cancel(etcdlock_mutex *handle)
{
    el_mutex *mutex;
    el_failure failure;
    int error = enter(handle, false, &mutex, &failure);
    if (error == EPERM) return 0; /* never used: nobody waits */
    if (error) return el_publish(&failure);
    el_mutex_cancel_waits(mutex);
    el_client_leave(mutex->client);
    return 0;
}

/* ---- making and destroying
 * ---------------------------------------------------------------------------------------- */

/* Takes those of a program that was compiled with an older version, which are shorter; and of a newer one, if
 * it says nothing there that is not known here. */
static int take_options(etcdlock_mutex_options *out, const etcdlock_mutex_options *given, el_failure *failure)
{
    enum { SIZE_MAX_KNOWN = 4096 };
    *out = (etcdlock_mutex_options)ETCDLOCK_MUTEX_OPTIONS_INIT;
    if (!given) return 0;
    if (given->size < offsetof(etcdlock_mutex_options, label) || given->size > SIZE_MAX_KNOWN)
        return el_fail(failure, EINVAL, "mutex options: size is %zu: start from ETCDLOCK_MUTEX_OPTIONS_INIT",
                       given->size);
    const char *bytes = (const char *)given;
    for (size_t i = sizeof(*out); i < given->size; i++) {
        if (bytes[i])
            return el_fail(failure, EINVAL,
                           "mutex options: made for a newer version of the library, byte %zu is not known",
                           i);
    }
    memcpy(out, given, given->size < sizeof(*out) ? given->size : sizeof(*out));
    return 0;
}

static int check_options(const etcdlock_mutex_options *options, el_failure *failure)
{
    if (options->flags & ~(unsigned)(ETCDLOCK_RECURSIVE | ETCDLOCK_HANDLE_OWNED | ETCDLOCK_ROBUST))
        return el_fail(failure, EINVAL, "mutex options: flags 0x%x are not known", options->flags);
    if ((options->flags & ETCDLOCK_RECURSIVE) && (options->flags & ETCDLOCK_HANDLE_OWNED))
        return el_fail(
            failure, EINVAL,
            "mutex options: RECURSIVE counts for a thread, HANDLE_OWNED knows no threads: choose one");
    if (options->lock_delay_ms < 0 || options->lock_delay_ms > LOCK_DELAY_MAX_MS)
        return el_fail(failure, EINVAL, "mutex options: lock_delay_ms is %lld: use 0 to %d",
                       (long long)options->lock_delay_ms, LOCK_DELAY_MAX_MS);
    if (options->label && strlen(options->label) > LABEL_MAX)
        return el_fail(failure, EINVAL, "mutex options: the label has more than %d bytes", LABEL_MAX);
    return 0;
}

int etcdlock_mutex_new(etcdlock_mutex **out, etcdlock_session *session, const char *name,
                       const etcdlock_mutex_options *given)
{
    etcdlock_mutex_options options;
    el_failure failure = {0};
    el_mutex *mutex;
    if (out) *out = NULL;
    if (!out || !session) return el_publish_new(EINVAL, "mutex_new: %s is NULL", out ? "session" : "out");
    if (el_name_check(name, &failure) || take_options(&options, given, &failure) ||
        check_options(&options, &failure))
        return el_publish(&failure);
    if (el_client_enter(session->client)) return el_publish_new(forked(&failure), "%s", failure.text);
    int error = session->phase == EL_SESSION_OVER && session->over_error == ECANCELED ? ECANCELED : 0;
    if (!error) error = el_mutex_make(&mutex, session, name, &options);
    el_client_leave(session->client);
    if (error)
        return el_publish_new(error, "mutex_new %s: %s", name,
                              error == ENOMEM ? "out of memory" : "the session is closed");
    *out = &mutex->handle;
    return 0;
}

int etcdlock_mutex_destroy(etcdlock_mutex *handle)
{
    el_failure failure = {0};
    if (!handle) return 0;
    if (el_dropin_is(handle)) return el_dropin_destroy(handle, &failure) ? el_publish(&failure) : 0;
    el_mutex *mutex = handle->state;
    if (!mutex) return el_publish_new(EINVAL, "mutex_destroy: the mutex is not initialised");
    el_client *client = mutex->client;
    if (el_client_enter(client)) return el_publish_new(forked(&failure), "%s", failure.text);
    bool is_busy = el_mutex_is_busy(mutex);
    if (!is_busy) {
        el_notifier_await(&client->notifier, mutex);
        is_busy = el_mutex_is_busy(mutex); /* the callback may have begun something */
    }
    if (!is_busy) el_mutex_free(mutex);
    el_client_leave(client);
    return is_busy ? el_publish_new(EBUSY,
                                    "mutex_destroy: the mutex is locked or waited on: unlock or cancel first")
                   : 0;
}
