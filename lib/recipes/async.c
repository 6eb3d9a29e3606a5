/* The asynchronous calls: each begins an operation and leaves its end to the notifier. */
#include "etcdlock/async.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/alloc.h"
#include "core/client.h"
#include "core/process.h"
#include "recipes/dropin.h"
#include "recipes/mutex.h"

/* One operation, from its call until its callback has begun. */
typedef struct operation {
    el_notice notice;
    el_mutex *mutex;
    etcdlock_callback *callback;
    void *arg;
    int error;
    uint64_t token;
    char *text; /* the message; NULL: none, or no memory for it */
    bool is_timed;
} operation;

static void free_operation(operation *o)
{
    el_free(o->text);
    el_free(o);
}

/* ---- its end
 * ----------------------------------------------------------------------------------------------------- */

static void run_callback(el_notice *notice)
{
    operation *o = EL_CONTAINER(notice, operation, notice);
    el_client *client = o->mutex->client;
    pthread_mutex_lock(&client->lock);
    etcdlock_mutex *shown = o->mutex->shown;
    o->mutex->n_operations--; /* from here on the callback may destroy the handle */
    pthread_mutex_unlock(&client->lock);
    if (o->error) el_publish_new(o->error, "%s", o->text ? o->text : etcdlock_strerror(o->error));
    o->callback(shown, o->error, o->token, o->arg);
    free_operation(o);
}

static void post(operation *o, const el_failure *failure, uint64_t token)
{
    if (!o->callback) {
        o->mutex->n_operations--;
        free_operation(o);
        return;
    }
    o->error = o->is_timed ? el_timed_error(failure->error) : failure->error;
    o->token = token;
    if (failure->error) o->text = el_strdup(failure->text);
    o->notice.run = run_callback;
    o->notice.subject = o->mutex;
    int error = el_notifier_post(&o->mutex->client->notifier, &o->notice);
    /* There is somebody to run it since the operation began, and it stops only after the last has ended. */
    assert(!error);
    (void)error;
}

static void ended(el_hold *hold, const el_failure *failure)
{
    operation *o = hold->user;
    el_failure told = *failure;
    hold->user = NULL;
    if (hold->state == EL_HOLD_HELD) el_hold_tell_death(hold, &told);
    post(o, &told, hold->state == EL_HOLD_HELD ? hold->token : 0);
}

/* ---- its beginning
 * ----------------------------------------------------------------------------------------------- */

/* Finds the mutex and takes its client's lock; NULL with the failure filled in. */
static el_mutex *enter(etcdlock_mutex *handle, const char *call, el_failure *failure)
{
    el_mutex *mutex = NULL;
    failure->error = 0;
    if (handle && el_dropin_is(handle)) {
        el_fail(failure, EINVAL, "%s: a drop-in mutex belongs to threads: make one with HANDLE_OWNED", call);
        return NULL;
    }
    if (el_dropin_resolve(handle, false, &mutex, failure)) return NULL;
    if (el_client_enter(mutex->client)) {
        el_fail(failure, ETCDLOCK_EFORKED, "%s: the mutex was made before fork() and belongs to the parent",
                call);
        return NULL;
    }
    if (mutex->flags & ETCDLOCK_HANDLE_OWNED) return mutex;
    el_client_leave(mutex->client);
    el_fail(failure, EINVAL, "%s: the mutex belongs to threads: make it with ETCDLOCK_HANDLE_OWNED", call);
    return NULL;
}

/* NULL with the failure filled in. */
static operation *new_operation(el_mutex *mutex, const char *call, etcdlock_callback *callback, void *arg,
                                el_failure *failure)
{
    int error = callback ? el_notifier_ready(&mutex->client->notifier) : 0;
    operation *o = error ? NULL : el_alloc(sizeof(*o));
    if (!o) {
        el_fail(failure, error ? error : ENOMEM, "%s: %s", call,
                !error            ? "out of memory"
                : error == EAGAIN ? "no thread could be started for callbacks"
                                  : "the client is closed");
        return NULL;
    }
    o->mutex = mutex;
    o->callback = callback;
    o->arg = arg;
    mutex->n_operations++;
    return o;
}

static void withdraw_operation(operation *o)
{
    o->mutex->n_operations--;
    free_operation(o);
}

static int begin_lock(etcdlock_mutex *handle, const char *call, el_enter_mode mode, int64_t limit_ns,
                      etcdlock_callback *callback, void *arg)
{
    el_failure failure;
    el_hold *hold;
    if (!callback) return el_publish_new(EINVAL, "%s: callback is NULL", call);
    el_mutex *mutex = enter(handle, call, &failure);
    if (!mutex) return el_publish(&failure);
    el_client *client = mutex->client;
    operation *o = new_operation(mutex, call, callback, arg, &failure);
    if (o) {
        o->is_timed = mode == EL_ENTER_WAIT && limit_ns != INT64_MAX;
        int64_t deadline_ns = el_mutex_deadline(client, &mode, limit_ns);
        int error = el_mutex_begin(mutex, &hold, el_process_thread(), mode, deadline_ns, ended, o, &failure);
        if (error) {
            if (o->is_timed) failure.error = el_timed_error(error);
            withdraw_operation(o);
        }
    }
    el_client_leave(client);
    return el_publish(&failure);
}

int etcdlock_mutex_lock_async(etcdlock_mutex *mutex, etcdlock_callback *callback, void *arg)
{
    return begin_lock(mutex, "lock_async", EL_ENTER_WAIT, INT64_MAX, callback, arg);
}

int etcdlock_mutex_trylock_async(etcdlock_mutex *mutex, etcdlock_callback *callback, void *arg)
{
    return begin_lock(mutex, "trylock_async", EL_ENTER_TRY, INT64_MAX, callback, arg);
}

int etcdlock_mutex_lock_for_async(etcdlock_mutex *mutex, int64_t ms, etcdlock_callback *callback, void *arg)
{
    return begin_lock(mutex, "lock_for_async", EL_ENTER_WAIT, el_limit_of_ms(ms), callback, arg);
}

int etcdlock_mutex_unlock_async(etcdlock_mutex *handle, etcdlock_callback *callback, void *arg)
{
    el_failure failure;
    bool is_over;
    el_mutex *mutex = enter(handle, "unlock_async", &failure);
    if (!mutex) return el_publish(&failure);
    el_client *client = mutex->client;
    operation *o = new_operation(mutex, "unlock_async", callback, arg, &failure);
    if (o) {
        int error = el_mutex_begin_unlock(mutex, el_process_thread(), ended, o, &is_over, &failure);
        assert(error || !is_over); /* only a recursive lock is unlocked at once */
        if (error) withdraw_operation(o);
    }
    el_client_leave(client);
    return el_publish(&failure);
}

/* ---- the program's own loop
 * -------------------------------------------------------------------------------------- */

static int enter_client(etcdlock_client *client, const char *call)
{
    if (!client) return el_publish_new(EINVAL, "%s: client is NULL", call);
    if (el_client_enter(client))
        return el_publish_new(ETCDLOCK_EFORKED, "%s: the client belongs to the parent process", call);
    return 0;
}

int etcdlock_client_fd(etcdlock_client *client)
{
    int error;
    if (enter_client(client, "client_fd")) return -1;
    client->references++; /* it may be closed meanwhile */
    int fd = el_notifier_poll(&client->notifier, &error);
    client->references--;
    el_client_leave(client);
    if (fd < 0)
        el_publish_new(error, "client_fd: %s",
                       error == EDEADLK ? "called from a callback on the client's own thread"
                                        : etcdlock_strerror(error));
    return fd;
}

int etcdlock_client_dispatch(etcdlock_client *client)
{
    if (enter_client(client, "client_dispatch")) return client ? ETCDLOCK_EFORKED : EINVAL;
    int cancel_state = el_client_cancel_state(); /* the callbacks' own calls change it */
    client->references++;                        /* a callback may give up the last other one */
    int error = el_notifier_dispatch(&client->notifier);
    client->references--;
    el_client_leave(client);
    pthread_setcancelstate(cancel_state, NULL);
    if (!error) return 0;
    return el_publish_new(error, "client_dispatch: %s",
                          error == EDEADLK ? "called from inside a callback"
                          : error == EBUSY ? "another thread is in it"
                                           : "ask for etcdlock_client_fd first");
}
