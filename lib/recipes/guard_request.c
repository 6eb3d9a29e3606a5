#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/alloc.h"
#include "recipes/guard.h"

typedef struct sizes {
    size_t keys; /* with the prefixes */
    size_t values;
} sizes;

/* ---- checks
 * ------------------------------------------------------------------------------------------------------ */

/* True for what this lock itself keeps in etcd: a write to it could free the lock, or block it for ever. */
static bool is_of_the_lock(const el_mutex *mutex, const char *key)
{
    size_t size = strlen(mutex->name);
    if (strncmp(key, mutex->name, size) != 0) return false;
    return key[size] == '/' || strcmp(key + size, ".robust") == 0;
}

static int check_key(const el_mutex *mutex, const char *key, const char *what, sizes *sum,
                     el_failure *failure)
{
    if (!key) return el_fail(failure, EINVAL, "%s: a key is NULL", what);
    if (!*key) return el_fail(failure, EINVAL, "%s: a key is empty: give 1 byte or more", what);
    if (is_of_the_lock(mutex, key))
        return el_fail(failure, EINVAL, "%s: the key %.200s is one of lock %.100s itself: choose another",
                       what, key, mutex->name);
    sum->keys += strlen(mutex->client->key_prefix) + strlen(key);
    return 0;
}

static int check_value(const char *what, const void *value, size_t size, sizes *sum, el_failure *failure)
{
    if (!value && size > 0) return el_fail(failure, EINVAL, "%s: a value is NULL, and not of size 0", what);
    /* No sum of so few can overflow then. */
    if (size > ETCDLOCK_TXN_BYTES_MAX)
        return el_fail(failure, E2BIG, "%s: a value has %zu bytes: at most %d fit into one request", what,
                       size, ETCDLOCK_TXN_BYTES_MAX);
    sum->values += size;
    return 0;
}

static int check_compares(const el_mutex *mutex, const etcdlock_txn *txn, const char *what, sizes *sum,
                          el_failure *failure)
{
    for (size_t i = 0; i < txn->n_compares; i++) {
        const etcdlock_compare *compare = &txn->compares[i];
        if (check_key(mutex, compare->key, what, sum, failure)) return failure->error;
        if (compare->kind < ETCDLOCK_KEY_EXISTS || compare->kind > ETCDLOCK_VALUE_IS)
            return el_fail(failure, EINVAL, "%s: comparison %zu is of unknown kind %d", what, i,
                           (int)compare->kind);
        if (compare->kind == ETCDLOCK_MOD_REVISION_IS && compare->mod_revision > INT64_MAX)
            return el_fail(failure, EINVAL, "%s: comparison %zu: there is no such revision", what, i);
        if (compare->kind == ETCDLOCK_VALUE_IS &&
            check_value(what, compare->value, compare->value_size, sum, failure))
            return failure->error;
    }
    return 0;
}

static int check_operations(const el_mutex *mutex, const etcdlock_operation *operations, size_t n,
                            const char *what, sizes *sum, el_failure *failure)
{
    for (size_t i = 0; i < n; i++) {
        const etcdlock_operation *operation = &operations[i];
        if (check_key(mutex, operation->key, what, sum, failure)) return failure->error;
        if (operation->kind != ETCDLOCK_PUT && operation->kind != ETCDLOCK_DELETE)
            return el_fail(failure, EINVAL, "%s: operation %zu is of unknown kind %d", what, i,
                           (int)operation->kind);
        if (operation->kind == ETCDLOCK_PUT &&
            check_value(what, operation->value, operation->value_size, sum, failure))
            return failure->error;
        for (size_t k = 0; k < i; k++) {
            if (strcmp(operations[k].key, operation->key) == 0)
                return el_fail(failure, EINVAL, "%s: the key %.200s is written twice in one branch", what,
                               operation->key);
        }
    }
    return 0;
}

static int check_counts(const etcdlock_txn *txn, const char *what, el_failure *failure)
{
    if ((txn->n_compares && !txn->compares) || (txn->n_success && !txn->success) ||
        (txn->n_failure && !txn->failure))
        return el_fail(failure, EINVAL, "%s: a list is NULL, and not of size 0", what);
    if (txn->n_compares > ETCDLOCK_TXN_OPERATIONS_MAX || txn->n_success > ETCDLOCK_TXN_OPERATIONS_MAX ||
        txn->n_failure > ETCDLOCK_TXN_OPERATIONS_MAX)
        return el_fail(failure, E2BIG,
                       "%s: %zu comparisons, %zu and %zu operations: etcd takes at most %d of each", what,
                       txn->n_compares, txn->n_success, txn->n_failure, ETCDLOCK_TXN_OPERATIONS_MAX);
    return 0;
}

static int check(const el_mutex *mutex, const etcdlock_txn *txn, const char *what, sizes *sum,
                 el_failure *failure)
{
    if (check_counts(txn, what, failure) || check_compares(mutex, txn, what, sum, failure) ||
        check_operations(mutex, txn->success, txn->n_success, what, sum, failure) ||
        check_operations(mutex, txn->failure, txn->n_failure, what, sum, failure))
        return failure->error;
    if (sum->keys + sum->values > ETCDLOCK_TXN_BYTES_MAX)
        return el_fail(failure, E2BIG, "%s: keys and values have %zu bytes: at most %d fit into one request",
                       what, sum->keys + sum->values, ETCDLOCK_TXN_BYTES_MAX);
    return 0;
}

/* ---- copies
 * ------------------------------------------------------------------------------------------------------ */

/* The parts of the block lie behind the request, the widest alignment first. */
static el_guard_request *allocate(size_t n_compares, size_t n_success, size_t n_failure, size_t key_bytes)
{
    el_guard_request *request = el_alloc(sizeof(*request) + n_compares * sizeof(el_compare) +
                                         (n_success + n_failure) * sizeof(el_op) + key_bytes);
    if (!request) return NULL;
    request->compares = (el_compare *)(request + 1);
    request->call.compares = request->compares;
    request->call.n_compares = n_compares;
    request->call.success = (el_op *)(request->compares + n_compares);
    request->call.n_success = n_success;
    request->call.failure = request->call.success + n_success;
    request->call.n_failure = n_failure;
    request->next_key = (char *)(request->call.failure + n_failure);
    return request;
}

static el_span copy_key(el_guard_request *request, const el_mutex *mutex, const char *key)
{
    size_t prefix_size = strlen(mutex->client->key_prefix), size = strlen(key);
    el_span span = {request->next_key, prefix_size + size};
    memcpy(request->next_key, mutex->client->key_prefix, prefix_size);
    memcpy(request->next_key + prefix_size, key, size);
    request->next_key += span.size;
    return span;
}

static el_compare compare_of(el_guard_request *request, const el_mutex *mutex, const etcdlock_compare *in)
{
    el_compare out = {.relation = EL_EQUAL, .key = copy_key(request, mutex, in->key)};
    switch (in->kind) {
    case ETCDLOCK_KEY_EXISTS:
    case ETCDLOCK_KEY_ABSENT:
        out.target = EL_TARGET_CREATE_REVISION;
        if (in->kind == ETCDLOCK_KEY_EXISTS) out.relation = EL_GREATER;
        break;
    case ETCDLOCK_MOD_REVISION_IS:
        out.target = EL_TARGET_MOD_REVISION;
        out.number = (int64_t)in->mod_revision;
        break;
    case ETCDLOCK_VALUE_IS:
        out.target = EL_TARGET_VALUE;
        out.value = (el_span){in->value, in->value_size};
        break;
    }
    return out;
}

static el_op op_of(el_guard_request *request, const el_mutex *mutex, const etcdlock_operation *in)
{
    el_op out = {.kind = in->kind == ETCDLOCK_PUT ? EL_OP_PUT : EL_OP_DELETE};
    if (in->kind == ETCDLOCK_PUT) {
        out.put.key = copy_key(request, mutex, in->key);
        out.put.value = (el_span){in->value, in->value_size};
    } else {
        out.del.key = copy_key(request, mutex, in->key);
    }
    return out;
}

int el_guard_request_make(el_guard_request **out, const el_mutex *mutex, const etcdlock_txn *txn,
                          const char *what, el_failure *failure)
{
    sizes sum = {0};
    *out = NULL;
    if (check(mutex, txn, what, &sum, failure)) return failure->error;
    el_guard_request *request = allocate(txn->n_compares, 1 + txn->n_success, 1 + txn->n_failure, sum.keys);
    if (!request) return el_fail(failure, ENOMEM, "%s: out of memory", what);
    for (size_t i = 0; i < txn->n_compares; i++)
        request->compares[i] = compare_of(request, mutex, &txn->compares[i]);
    for (size_t i = 0; i < txn->n_success; i++)
        request->call.success[1 + i] = op_of(request, mutex, &txn->success[i]);
    for (size_t i = 0; i < txn->n_failure; i++)
        request->call.failure[1 + i] = op_of(request, mutex, &txn->failure[i]);
    *out = request;
    return 0;
}

int el_guard_request_read(el_guard_request **out, const el_mutex *mutex, const char *key, el_failure *failure)
{
    sizes sum = {0};
    *out = NULL;
    if (check_key(mutex, key, "get", &sum, failure)) return failure->error;
    el_guard_request *request = allocate(0, 2, 0, sum.keys);
    if (!request) return el_fail(failure, ENOMEM, "get: out of memory");
    request->call.is_read = true;
    request->call.success[1] = (el_op){.kind = EL_OP_RANGE};
    request->call.success[1].range.key = copy_key(request, mutex, key);
    *out = request;
    return 0;
}
