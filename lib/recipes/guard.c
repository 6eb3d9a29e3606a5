/* The blocking calls of guarded writes: each hands a request to the guard of the caller's hold, and waits. */
#include "recipes/guard.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core/alloc.h"
#include "core/client.h"
#include "core/process.h"
#include "recipes/dropin.h"

/* A call that waits, and what it is told. */
typedef struct waiter {
    pthread_cond_t changed;
    bool is_done;
    el_failure failure;
    bool succeeded;
    uint64_t revision;
    etcdlock_value *value; /* of a read; NULL: there is no such key */
} waiter;

/* ---- one call
 * ------------------------------------------------------------------------------------------------------ */

static etcdlock_value *copy_value(const el_key_value *kv)
{
    etcdlock_value *value = el_alloc(sizeof(*value) + kv->value.size + 1);
    if (!value) return NULL;
    char *data = (char *)(value + 1);
    if (kv->value.size > 0) memcpy(data, kv->value.data, kv->value.size);
    *value = (etcdlock_value){.data = data,
                              .size = kv->value.size,
                              .create_revision = (uint64_t)kv->create_revision,
                              .mod_revision = (uint64_t)kv->mod_revision};
    return value;
}

static void done(el_guard_call *call, const el_guard_end *end)
{
    waiter *w = call->user;
    w->failure = end->failure;
    w->succeeded = end->succeeded;
    w->revision = (uint64_t)end->revision;
    if (end->range && end->range->n_kvs > 0) {
        w->value = copy_value(&end->range->kvs[0]);
        if (!w->value) el_fail(&w->failure, ENOMEM, "get: out of memory");
    }
    w->is_done = true;
    pthread_cond_signal(&w->changed);
}

el_hold *el_guard_find_hold(el_mutex *mutex, const char *what, el_failure *failure)
{
    el_hold *hold = el_mutex_hold_of(mutex, el_process_thread());
    if (!hold) {
        el_fail(failure, EPERM, "%s: lock %s is not held by the caller", what, mutex->name);
        return NULL;
    }
    /* If the deadline has passed and no timer has said so yet, the hold becomes a lost one right here. */
    if (hold->state == EL_HOLD_HELD) el_session_check(hold->contender->session);
    if (hold->state == EL_HOLD_HELD) return hold;
    *failure = *hold->lost;
    return NULL;
}

/* As an unlock, this is no cancellation point. */
static void run(el_hold *hold, el_guard_call *call, const char *what, waiter *w)
{
    el_client *client = hold->mutex->client;
    el_guard *guard = el_guard_of(hold->contender);
    if (!guard) {
        el_fail(&w->failure, ENOMEM, "%s: out of memory", what);
        return;
    }
    call->deadline_ns = el_now(client) + client->command_timeout_ns;
    call->done = done;
    call->user = w;
    el_mutex *mutex = hold->mutex; /* the hold may be over before this is */
    mutex->n_operations++;
    pthread_cond_init(&w->changed, NULL);
    el_guard_submit(guard, call);
    while (!w->is_done)
        pthread_cond_wait(&w->changed, &client->lock);
    pthread_cond_destroy(&w->changed);
    mutex->n_operations--;
}

/* Sends the request, waits, and frees it. */
static void run_request(el_mutex *mutex, el_guard_request *request, const char *what, waiter *w)
{
    el_hold *hold = el_guard_find_hold(mutex, what, &w->failure);
    if (hold) run(hold, &request->call, what, w);
    el_free(request);
}

int el_guard_enter(etcdlock_mutex *handle, const char *what, el_mutex **out, el_failure *failure)
{
    if (el_dropin_resolve(handle, false, out, failure)) return failure->error;
    if (el_client_enter((*out)->client))
        return el_fail(failure, ETCDLOCK_EFORKED,
                       "%s: the mutex was made before fork() and belongs to the parent", what);
    return 0;
}

int el_guard_run(el_hold *hold, el_guard_call *call, const char *what, el_failure *failure)
{
    waiter w = {.is_done = false};
    run(hold, call, what, &w);
    *failure = w.failure;
    return failure->error;
}

static int write_txn(etcdlock_mutex *handle, const etcdlock_txn *txn, const char *what, waiter *w)
{
    el_mutex *mutex;
    el_guard_request *request;
    *w = (waiter){.is_done = false};
    if (el_guard_enter(handle, what, &mutex, &w->failure)) return w->failure.error;
    el_client *client = mutex->client;
    if (!el_guard_request_make(&request, mutex, txn, what, &w->failure)) run_request(mutex, request, what, w);
    el_client_leave(client);
    return w->failure.error;
}

/* ---- the calls
 * ---------------------------------------------------------------------------------------------------- */

int etcdlock_mutex_put(etcdlock_mutex *handle, const char *key, const void *value, size_t value_size)
{
    etcdlock_operation put = {.kind = ETCDLOCK_PUT, .key = key, .value = value, .value_size = value_size};
    etcdlock_txn txn = ETCDLOCK_TXN_INIT;
    waiter w;
    txn.success = &put;
    txn.n_success = 1;
    (void)write_txn(handle, &txn, "put", &w);
    return el_publish(&w.failure);
}

int etcdlock_mutex_delete(etcdlock_mutex *handle, const char *key)
{
    etcdlock_compare exists = {.kind = ETCDLOCK_KEY_EXISTS, .key = key};
    etcdlock_operation delete = {.kind = ETCDLOCK_DELETE, .key = key};
    etcdlock_txn txn = ETCDLOCK_TXN_INIT;
    waiter w;
    txn.compares = &exists;
    txn.success = &delete;
    txn.n_compares = txn.n_success = 1;
    if (!write_txn(handle, &txn, "delete", &w) && !w.succeeded)
        el_fail(&w.failure, ENOENT, "delete: there is no key %.200s", key);
    return el_publish(&w.failure);
}

/* Of a program that was compiled with another version. */
static bool is_usable_size(size_t given, size_t known)
{
    return given >= known && given <= 4096;
}

int etcdlock_mutex_txn(etcdlock_mutex *handle, const etcdlock_txn *txn, etcdlock_txn_result *result)
{
    waiter w;
    if (!txn) return el_publish_new(EINVAL, "txn: txn is NULL");
    if (!is_usable_size(txn->size, sizeof(*txn)) ||
        (result && !is_usable_size(result->size, sizeof(*result))))
        return el_publish_new(EINVAL, "txn: size is wrong: start from ETCDLOCK_TXN_INIT and "
                                      "ETCDLOCK_TXN_RESULT_INIT");
    if (!write_txn(handle, txn, "txn", &w) && result) {
        result->succeeded = w.succeeded;
        result->revision = w.revision;
    }
    return el_publish(&w.failure);
}

int etcdlock_mutex_get(etcdlock_mutex *handle, const char *key, etcdlock_value **out)
{
    el_mutex *mutex;
    el_guard_request *request;
    waiter w = {.is_done = false};
    if (!out) return el_publish_new(EINVAL, "get: out is NULL");
    *out = NULL;
    if (el_guard_enter(handle, "get", &mutex, &w.failure)) return el_publish(&w.failure);
    el_client *client = mutex->client;
    if (!el_guard_request_read(&request, mutex, key, &w.failure)) run_request(mutex, request, "get", &w);
    el_client_leave(client);
    if (!w.failure.error && !w.value) el_fail(&w.failure, ENOENT, "get: there is no key %.200s", key);
    *out = w.value;
    return el_publish(&w.failure);
}

void etcdlock_value_free(etcdlock_value *value)
{
    el_free(value);
}
