#include "recipes/dropin.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/key.h"
#include "core/options.h"
#include "core/process.h"
#include "etcdlock/client.h"
#include "etcdlock/session.h"

/* Marks a name that etcdlock_mutex_init has copied; beyond the flags that users may set. */
enum { OWN_NAME = 1 << 30 };

/* At exit nobody should have to wait long for an etcd that is away: the lease expires anyhow. */
static const int64_t exit_limit_ns = 1 * EL_S;

/* The client and session of this process. */
static struct {
    pthread_mutex_t lock;
    unsigned generation;
    etcdlock_client *client;
    etcdlock_session *session;
    el_failure failure;     /* of the last attempt to open them that failed */
    atomic_uint n_failures; /* how many did; read without the lock, too */
    bool is_exiting;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A child is given none of the parent's: what is forgotten here is the parent's to close. Another thread may
 * have held the lock at the fork. */
static void in_child(void)
{
    pthread_mutex_init(&shared.lock, NULL);
    shared.client = NULL;
    shared.session = NULL;
    shared.is_exiting = false;
}

static void at_exit(void)
{
    pthread_mutex_lock(&shared.lock);
    etcdlock_client *client = shared.generation == el_process_generation() ? shared.client : NULL;
    etcdlock_session *session = shared.session;
    shared.is_exiting = true;
    shared.client = NULL;
    shared.session = NULL;
    pthread_mutex_unlock(&shared.lock);
    if (!client) return;
    if (!el_client_enter(client)) {
        if (client->command_timeout_ns > exit_limit_ns) client->command_timeout_ns = exit_limit_ns;
        el_client_leave(client);
    }
    (void)etcdlock_client_close(client);
    (void)etcdlock_session_close(session);
}

static void set_up(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
    (void)atexit(at_exit);
}

/* ---- the session of the process
 * ------------------------------------------------------------------------------ */

static bool is_live(etcdlock_session *session)
{
    if (el_client_enter(session->client)) return false;
    bool live = el_session_is_live(session);
    el_client_leave(session->client);
    return live;
}

static int opened(int error, el_failure *failure)
{
    return error ? el_fail(failure, error, "%s", etcdlock_error_message()) : 0;
}

/* With shared.lock held, which other first callers wait for: they need the same session. */
static int open_session(el_failure *failure)
{
    if (shared.is_exiting) return el_fail(failure, ECANCELED, "the process is exiting");
    shared.generation = el_process_generation();
    if (!shared.client) {
        int error = opened(etcdlock_client_open(&shared.client, NULL), failure);
        if (error) return error;
    }
    if (shared.session && !is_live(shared.session)) {
        (void)etcdlock_session_close(shared.session);
        shared.session = NULL;
    }
    if (shared.session) return 0;
    return opened(etcdlock_session_open(&shared.session, shared.client, NULL), failure);
}

/* An attempt that failed while this call waited for the lock was made for it, too: one after the other, many
 * threads would wait for as many times as long. */
static int ensure_session(unsigned n_failures, el_failure *failure)
{
    if (n_failures != shared.n_failures && !(shared.session && is_live(shared.session))) {
        *failure = shared.failure;
        return failure->error;
    }
    int error = open_session(failure);
    if (error) {
        shared.failure = *failure;
        shared.n_failures++;
    }
    return error;
}

/* ---- what is behind a handle
 * ---------------------------------------------------------------------------------- */

bool el_dropin_is(const etcdlock_mutex *handle)
{
    return handle && handle->static_name;
}

/* NULL if there is none, or if it is the parent's. */
static el_mutex *behind(const etcdlock_mutex *handle)
{
    el_mutex *mutex = __atomic_load_n(&handle->state, __ATOMIC_ACQUIRE);
    return mutex && mutex->client->generation == el_process_generation() ? mutex : NULL;
}

static int bind_to_session(etcdlock_mutex *handle, unsigned n_failures, el_mutex **out, el_failure *failure)
{
    if (el_name_check(handle->static_name, failure)) return failure->error;
    int error = ensure_session(n_failures, failure);
    if (error) return error;
    el_mutex *mutex = behind(handle);
    if (el_client_enter(shared.client)) return el_fail(failure, ETCDLOCK_EFORKED, "forked while locking");
    if (mutex) {
        error = el_mutex_rebind(mutex, shared.session);
    } else {
        etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
        options.flags = handle->static_flags & ETCDLOCK_RECURSIVE;
        error = el_mutex_make(&mutex, shared.session, handle->static_name, &options);
        if (!error) mutex->shown = handle;
    }
    el_client_leave(shared.client);
    if (error) return el_fail(failure, error, "lock %s: out of memory", handle->static_name);
    __atomic_store_n(&handle->state, mutex, __ATOMIC_RELEASE);
    *out = mutex;
    return 0;
}

int el_dropin_resolve(etcdlock_mutex *handle, bool may_open, el_mutex **out, el_failure *failure)
{
    if (!handle) return el_fail(failure, EINVAL, "the mutex is NULL");
    if (!el_dropin_is(handle)) {
        *out = handle->state;
        return *out ? 0
                    : el_fail(failure, EINVAL,
                              "the mutex is not initialised: use etcdlock_mutex_new, or a static initialiser "
                              "with a name");
    }
    if (!may_open) {
        *out = behind(handle);
        return *out ? 0 : el_fail(failure, EPERM, "lock %s: not held by this process", handle->static_name);
    }
    int cancel_state;
    pthread_once(&once, set_up);
    unsigned n_failures = atomic_load(&shared.n_failures);
    /* A thread that was cancelled in here would keep the lock of all drop-in mutexes. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_mutex_lock(&shared.lock);
    int error = bind_to_session(handle, n_failures, out, failure);
    pthread_mutex_unlock(&shared.lock);
    pthread_setcancelstate(cancel_state, NULL);
    return error;
}

static bool is_expected(int error)
{
    static const int expected[] = {0, EBUSY, ETIMEDOUT, EDEADLK, EPERM, ECANCELED};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        if (expected[i] == error) return true;
    }
    return false;
}

static bool must_abort(void)
{
    pthread_mutex_lock(&shared.lock);
    const el_options *options = shared.client ? shared.client->owner : NULL;
    bool must = options && options->on_error == EL_ON_ERROR_ABORT;
    bool is_known = options != NULL;
    pthread_mutex_unlock(&shared.lock);
    if (is_known) return must;
    const char *text = secure_getenv("ETCDLOCK_ON_ERROR");
    return text && strcmp(text, "abort") == 0;
}

int el_dropin_judge(const etcdlock_mutex *handle, const char *call, const el_failure *failure)
{
    int error = el_publish(failure);
    if (is_expected(error) || !handle || !must_abort()) return error;
    fprintf(stderr, "etcdlock: %s of \"%s\" failed, and ETCDLOCK_ON_ERROR is abort: %s\n", call,
            handle->static_name, failure->text);
    abort();
}

/* ---- init and destroy
 * ------------------------------------------------------------------------------------------- */

int etcdlock_mutex_init(etcdlock_mutex_t *mutex, const char *name)
{
    el_failure failure = {0};
    if (!mutex) return el_publish_new(EINVAL, "mutex_init: the mutex is NULL");
    if (el_name_check(name, &failure)) return el_publish(&failure);
    char *copy = el_strdup(name);
    if (!copy) return el_publish_new(ENOMEM, "mutex_init %s: out of memory", name);
    *mutex = (etcdlock_mutex_t){.static_name = copy, .static_flags = OWN_NAME};
    return 0;
}

int el_dropin_destroy(etcdlock_mutex *handle, el_failure *failure)
{
    el_mutex *mutex = behind(handle);
    if (mutex) {
        el_client *client = mutex->client;
        if (el_client_enter(client)) return el_fail(failure, ETCDLOCK_EFORKED, "forked while destroying");
        bool is_busy = el_mutex_is_busy(mutex);
        if (!is_busy) el_mutex_free(mutex);
        el_client_leave(client);
        if (is_busy)
            return el_fail(failure, EBUSY, "lock %s is locked or waited on: unlock or cancel first",
                           handle->static_name);
    }
    __atomic_store_n(&handle->state, NULL, __ATOMIC_RELEASE);
    if (handle->static_flags & OWN_NAME) {
        el_free((char *)(uintptr_t)handle->static_name);
        handle->static_name = NULL;
        handle->static_flags = 0;
    }
    return 0;
}
