#include "recipes/mutex.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <sys/eventfd.h>

#include "core/alloc.h"
#include "core/marker.h"
#include "core/value.h"

/* A loss on its way to the user's callback. */
typedef struct el_lost_notice {
    el_notice notice;
    el_list link;
    el_mutex *mutex;
    int error;
    uint64_t token;
} el_lost_notice;

/* ---- why a hold was lost
 * ---- */

/* A loss is never forgotten for want of memory, only its words. */
static const el_failure no_words[] = {{ECANCELED, "the session is closed"},
                                      {ETCDLOCK_EENTRY, "the lock's entry was deleted"},
                                      {ETCDLOCK_ESESSION, "the session is lost"}};
enum { NO_WORDS = sizeof(no_words) / sizeof(no_words[0]) };

static const el_failure *keep_failure(const el_failure *failure)
{
    el_failure *kept = el_alloc(sizeof(*kept));
    if (kept) {
        *kept = *failure;
        return kept;
    }
    int i = 0;
    while (i < NO_WORDS - 1 && no_words[i].error != failure->error)
        i++;
    return &no_words[i];
}

static void forget_failure(const el_failure *failure)
{
    bool is_constant = failure >= no_words && failure < no_words + NO_WORDS;
    if (!is_constant) el_free((void *)(uintptr_t)failure);
}

/* ---- making and freeing ---------------------------------------------------------------------------------
 */

int el_mutex_make(el_mutex **out, el_session *session, const char *name,
                  const etcdlock_mutex_options *options)
{
    el_mutex *mutex = el_alloc(sizeof(*mutex));
    if (!mutex) return ENOMEM;
    el_list_init(&mutex->holds);
    el_list_init(&mutex->notices);
    mutex->client = session->client;
    mutex->shown = &mutex->handle;
    mutex->handle.state = mutex;
    mutex->flags = options->flags;
    mutex->lock_delay_ns = options->lock_delay_ms * INT64_C(1000000);
    mutex->on_lost = options->on_lost;
    mutex->on_lost_arg = options->on_lost_arg;
    mutex->lost_fd = -1;
    mutex->name = el_strdup(name);
    mutex->label = el_strdup(options->label);
    mutex->queue = el_queue_get(session, name);
    if (!mutex->name || (options->label && !mutex->label) || !mutex->queue) {
        el_mutex_free(mutex);
        return ENOMEM;
    }
    *out = mutex;
    return 0;
}

bool el_mutex_is_busy(const el_mutex *mutex)
{
    if (mutex->n_operations > 0) return true;
    for (el_list *link = mutex->holds.next; link != &mutex->holds; link = link->next) {
        const el_hold *hold = EL_CONTAINER(link, el_hold, link);
        if (hold->state != EL_HOLD_LOST || hold->lost->error != ECANCELED) return true;
    }
    return false;
}

void el_mutex_free(el_mutex *mutex)
{
    for (el_list *link = el_list_take(&mutex->holds); link; link = el_list_take(&mutex->holds)) {
        el_hold *hold = EL_CONTAINER(link, el_hold, link);
        forget_failure(hold->lost);
        el_free(hold->notice);
        el_free(hold);
    }
    for (el_list *link = el_list_take(&mutex->notices); link; link = el_list_take(&mutex->notices)) {
        el_lost_notice *notice = EL_CONTAINER(link, el_lost_notice, link);
        el_notifier_withdraw(&mutex->client->notifier, &notice->notice);
        el_free(notice);
    }
    if (mutex->lost_fd >= 0) close(mutex->lost_fd);
    el_queue_unref(mutex->queue);
    el_free(mutex->label);
    el_free(mutex->name);
    el_free(mutex);
}

int el_mutex_rebind(el_mutex *mutex, el_session *session)
{
    if (mutex->queue->session == session) return 0;
    el_queue *queue = el_queue_get(session, mutex->name);
    if (!queue) return ENOMEM;
    el_queue_unref(mutex->queue);
    mutex->queue = queue;
    return 0;
}

/* ---- losses
 * ------------------------------------------------------------------------------------------------ */

static void run_lost(el_notice *notice)
{
    el_lost_notice *lost = EL_CONTAINER(notice, el_lost_notice, notice);
    el_mutex *mutex = lost->mutex;
    el_client *client = mutex->client;
    pthread_mutex_lock(&client->lock);
    el_list_remove(&lost->link);
    etcdlock_lost_function *on_lost = mutex->on_lost;
    etcdlock_mutex *shown = mutex->shown;
    void *argument = mutex->on_lost_arg;
    pthread_mutex_unlock(&client->lock);
    on_lost(shown, lost->error, lost->token, argument);
    el_free(lost);
}

static void tell_lost(el_hold *hold)
{
    el_lost_notice *lost = hold->notice;
    el_mutex *mutex = hold->mutex;
    hold->notice = NULL;
    if (mutex->lost_fd >= 0 && !mutex->is_fd_set) {
        (void)eventfd_write(mutex->lost_fd, 1);
        mutex->is_fd_set = true;
    }
    if (!lost) return;
    lost->notice.run = run_lost;
    lost->notice.subject = mutex;
    lost->mutex = mutex;
    lost->error = hold->lost->error;
    lost->token = hold->token;
    el_list_append(&mutex->notices, &lost->link);
    if (el_notifier_post(&mutex->client->notifier, &lost->notice)) {
        el_list_remove(&lost->link);
        el_free(lost);
    }
}

/* The descriptor is readable only while there is a loss that has not been answered by an unlock. */
static void calm_fd(el_mutex *mutex)
{
    if (!mutex->is_fd_set) return;
    for (el_list *link = mutex->holds.next; link != &mutex->holds; link = link->next) {
        if (EL_CONTAINER(link, el_hold, link)->state == EL_HOLD_LOST) return;
    }
    eventfd_t ignored;
    (void)eventfd_read(mutex->lost_fd, &ignored);
    mutex->is_fd_set = false;
}

/* ---- holds
 * ------------------------------------------------------------------------------------------------- */

static void free_hold(el_hold *hold)
{
    el_list_remove(&hold->link);
    calm_fd(hold->mutex);
    forget_failure(hold->lost);
    el_free(hold->notice);
    el_free(hold);
}

/* Tells whoever waits, for the last time, and frees the hold. */
static void finish(el_hold *hold, const el_failure *failure)
{
    hold->done(hold, failure);
    hold->contender = NULL;
    free_hold(hold);
}

static void contender_entered(void *owner, const el_failure *failure)
{
    el_hold *hold = owner;
    if (failure->error) {
        finish(hold, failure);
        return;
    }
    hold->state = EL_HOLD_HELD;
    hold->token = (uint64_t)hold->contender->place.create_revision;
    hold->done(hold, failure);
}

static void contender_lost(void *owner, const el_failure *failure)
{
    el_hold *hold = owner;
    hold->contender = NULL;
    hold->state = EL_HOLD_LOST;
    hold->lost = keep_failure(failure);
    if (failure->error != ECANCELED) tell_lost(hold); /* who closes the session knows */
}

static void contender_left(void *owner, const el_failure *failure)
{
    finish(owner, failure);
}

static const el_contender_owner calls = {contender_entered, contender_lost, contender_left};

el_hold *el_mutex_hold_of(const el_mutex *mutex, int64_t thread)
{
    bool any_thread = mutex->flags & ETCDLOCK_HANDLE_OWNED;
    for (el_list *link = mutex->holds.next; link != &mutex->holds; link = link->next) {
        el_hold *hold = EL_CONTAINER(link, el_hold, link);
        bool is_candidate = hold->state == EL_HOLD_HELD || hold->state == EL_HOLD_LOST;
        /* The oldest one first: where a lost and a later hold meet, an unlock is for the lost one. */
        if (is_candidate && (any_thread || hold->thread == thread)) return hold;
    }
    return NULL;
}

bool el_hold_is_good(const el_hold *hold)
{
    return hold->state == EL_HOLD_HELD && el_session_remaining_ns(hold->contender->session) > 0;
}

static char *write_value(const el_mutex *mutex, int64_t thread, size_t *size)
{
    char acquisition[EL_ACQUISITION_SIZE];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(acquisition, sizeof(acquisition), "%016" PRIx64, el_random(mutex->client));
    el_value value = {
        .host = mutex->client->host,
        .program = program_invocation_short_name,
        .label = mutex->label ? mutex->label : mutex->queue->session->label,
        .pid = getpid(),
        .thread = thread,
        .since_unix_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000,
        .acquisition = acquisition,
    };
    return el_value_write(&value, size);
}

static bool has_marker(const el_mutex *mutex)
{
    return mutex->flags & ETCDLOCK_ROBUST || mutex->lock_delay_ns > 0;
}

static int give_marker(const el_mutex *mutex, el_contender *contender)
{
    contender->marker =
        el_marker_new(&contender->place, mutex->flags & ETCDLOCK_ROBUST, mutex->lock_delay_ns);
    if (contender->marker) return 0;
    el_contender_abandon(contender);
    return ENOMEM;
}

static el_hold *make_hold(el_mutex *mutex, int64_t thread, int *error)
{
    el_hold *hold = el_alloc(sizeof(*hold));
    size_t size = 0;
    char *value = hold ? write_value(mutex, thread, &size) : NULL;
    *error = ENOMEM;
    if (!value) {
        el_free(hold);
        return NULL;
    }
    hold->mutex = mutex;
    hold->thread = thread;
    hold->depth = 1;
    if (mutex->on_lost) {
        hold->notice = el_alloc(sizeof(*hold->notice));
        if (!hold->notice) {
            el_free(value);
            el_free(hold);
            return NULL;
        }
    }
    *error = el_contender_new(&hold->contender, mutex->queue, value, size, &calls, hold);
    if (!*error && has_marker(mutex)) *error = give_marker(mutex, hold->contender);
    if (*error) {
        el_free(hold->notice);
        el_free(hold);
        return NULL;
    }
    el_list_append(&mutex->holds, &hold->link);
    return hold;
}

/* ---- lock
 * ---------------------------------------------------------------------------------------------------- */

/* What this process knows already. 0: ask etcd; -1: a recursion, held. */
static int answer_locally(el_mutex *mutex, int64_t thread, el_enter_mode mode, el_failure *failure)
{
    el_hold *mine = mutex->flags & ETCDLOCK_HANDLE_OWNED ? NULL : el_mutex_hold_of(mutex, thread);
    if (mine && (mutex->flags & ETCDLOCK_RECURSIVE)) {
        if (!el_hold_is_good(mine))
            return el_fail(failure, mine->lost ? mine->lost->error : ETCDLOCK_ESESSION,
                           "lock %s: this thread's hold was lost: unlock it first", mutex->name);
        if (mine->depth == UINT_MAX / 2)
            return el_fail(failure, EAGAIN, "lock %s: locked too many times", mutex->name);
        mine->depth++;
        return -1;
    }
    if (mine && mode == EL_ENTER_WAIT)
        return el_fail(failure, EDEADLK, "lock %s: this thread %s", mutex->name,
                       mine->state == EL_HOLD_LOST ? "held it and lost it: unlock it first"
                                                   : "holds it already");
    if (mode == EL_ENTER_WAIT) return 0;
    for (el_list *link = mutex->holds.next; link != &mutex->holds; link = link->next) {
        el_hold *hold = EL_CONTAINER(link, el_hold, link);
        if (el_hold_is_good(hold))
            return el_fail(failure, EBUSY, "lock %s is held by thread %" PRId64 " of this process",
                           mutex->name, hold->thread);
        if (hold->state == EL_HOLD_LOST && hold == mine)
            return el_fail(failure, EBUSY, "lock %s: this thread's hold was lost: unlock it first",
                           mutex->name);
    }
    return 0;
}

int el_mutex_begin(el_mutex *mutex, el_hold **out, int64_t thread, el_enter_mode mode, int64_t deadline_ns,
                   el_hold_function *done, void *user, el_failure *failure)
{
    el_session *session = mutex->queue->session;
    *out = NULL;
    int error = answer_locally(mutex, thread, mode, failure);
    if (error) return error < 0 ? 0 : error;
    if (!el_session_is_live(session))
        return el_fail(failure, session->over_error, "lock %s: the session is %s", mutex->name,
                       session->over_error == ECANCELED ? "closed" : "lost: open a new one");
    el_hold *hold = make_hold(mutex, thread, &error);
    if (!hold)
        return el_fail(failure, error, "lock %s: %s", mutex->name,
                       error == ENOMEM ? "out of memory" : "too many places in its queue");
    hold->done = done;
    hold->user = user;
    el_contender_enter(hold->contender, mode, deadline_ns);
    *out = hold;
    return 0;
}

/* ---- unlock, cancel
 * -------------------------------------------------------------------------------------------- */

int el_mutex_begin_unlock(el_mutex *mutex, int64_t thread, el_hold_function *done, void *user, bool *is_over,
                          el_failure *failure)
{
    *is_over = true;
    el_hold *hold = el_mutex_hold_of(mutex, thread);
    if (!hold)
        return el_fail(failure, EPERM, "unlock %s: not held by this %s", mutex->name,
                       mutex->flags & ETCDLOCK_HANDLE_OWNED ? "handle" : "thread");
    /* If the deadline has passed and no timer has said so yet, the hold becomes a lost one right here. */
    if (hold->state == EL_HOLD_HELD) el_session_check(hold->contender->session);
    bool is_good = hold->state == EL_HOLD_HELD;
    if (--hold->depth > 0) return is_good ? 0 : el_fail(failure, hold->lost->error, "%s", hold->lost->text);
    if (!is_good) {
        *failure = *hold->lost;
        free_hold(hold);
        return failure->error;
    }
    *is_over = false;
    hold->state = EL_HOLD_LEAVING;
    hold->done = done;
    hold->user = user;
    el_contender_leave(hold->contender, el_now(mutex->client) + mutex->client->command_timeout_ns);
    return 0;
}

void el_mutex_cancel_waits(el_mutex *mutex)
{
    /* In place: who is cancelled leaves the list and looks who else is in it. */
    for (el_list *link = mutex->holds.next, *next; link != &mutex->holds; link = next) {
        el_hold *hold = EL_CONTAINER(link, el_hold, link);
        next = link->next;
        if (hold->state == EL_HOLD_WAITING)
            el_contender_cancel(hold->contender, ECANCELED,
                                "the wait was cancelled by etcdlock_mutex_cancel");
    }
}

void el_hold_abandon(el_hold *hold)
{
    if (hold->contender) el_contender_abandon(hold->contender);
    free_hold(hold);
}
