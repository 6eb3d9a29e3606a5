/* Writes to etcd that count only while the lock is held: the protected data lives in etcd itself.
 *
 * Each call is one etcd transaction that first compares the create_revision of the lock's key with the token
 * of the hold. So a holder that was frozen, or whose requests were stuck in a network, cannot write once the
 * lock is no longer its own, whatever it believes: for data in etcd no other fencing is needed. That the lock
 * was lost is a result, ETCDLOCK_ESESSION or ETCDLOCK_EENTRY.
 *
 * What is promised of the writes of one hold (put, delete, transaction):
 *
 *   - Each is applied at most once, however often it had to be sent.
 *   - They are applied in the order of the calls. A request that was stuck somewhere and arrives after a
 * later write was applied is refused by etcd.
 *   - None is applied after the lock's key is gone, and so none after a write of a later holder.
 *
 * For this each hold that writes keeps a record beside its key, `KEY/guard`, with the number of its last
 * write; every write compares and raises it, and unlock removes both in one transaction. Calls of threads
 * that share a hold (HANDLE_OWNED) are sent one after the other.
 *
 * After ETCDLOCK_EUNKNOWN the write may have been applied, or may yet be. The next guarded call of the same
 * hold settles that: whether it writes or reads, afterwards the unknown one has been applied or never will
 * be. So to go on, read: what etcdlock_mutex_get then shows is final. Or simply repeat a put or delete, for
 * which twice is the same as once.
 *
 * Keys are C strings, 1 byte or more, put behind the client's key_prefix as lock names are. The keys of this
 * lock itself (`NAME/...`, `NAME.robust`) are refused. Values are any bytes. Written keys have no lease: they
 * stay.
 *
 * All of these work with every kind of mutex, the drop-in form included, by the hold of the calling thread
 * (of the handle with HANDLE_OWNED). Each blocks at most command_timeout_ms, and is no cancellation point. On
 * failure the outputs are as said at each. Errors of all of them:
 *
 * EPERM: not held by the caller, or unlocked meanwhile by another thread; ETCDLOCK_ESESSION, ETCDLOCK_EENTRY:
 * the lock is lost, and the write was not and will not be applied; ETCDLOCK_EUNKNOWN: no answer in time, or
 * none before the lock was lost, unlocked or closed: see above; ETCDLOCK_EUNREACHABLE: nobody answered,
 * nothing happened; ECANCELED: the session or client was closed, nothing happened; EINVAL: NULL, an empty key
 * or one of the lock's own; E2BIG: more than etcd takes in one request; EACCES: etcd denies access to the
 * key, or to the lock's; ENOSPC: etcd is out of space; ENOMEM; ETCDLOCK_EPROTOCOL; ETCDLOCK_EFORKED. */
#ifndef ETCDLOCK_GUARD_H
#define ETCDLOCK_GUARD_H

#include <stddef.h>
#include <stdint.h>

#include "etcdlock/export.h"
#include "etcdlock/mutex.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /* Comparisons in one transaction, and operations in each of its branches. */
    ETCDLOCK_TXN_OPERATIONS_MAX = 120,
    /* Bytes of all keys and values of one call together: what etcd takes by default (1.5 MiB), less what the
     * guard needs. */
    ETCDLOCK_TXN_BYTES_MAX = 1472 * 1024,
};

/* Sets a key. value may be NULL if value_size is 0. */
ETCDLOCK_API int etcdlock_mutex_put(etcdlock_mutex *mutex, const char *key, const void *value,
                                    size_t value_size) ETCDLOCK_CHECK_RESULT;

/* A key's value, and when it was written. */
typedef struct etcdlock_value {
    const char *data; /* any bytes; one NUL follows the last of them */
    size_t size;
    uint64_t create_revision;
    uint64_t mod_revision; /* of the last write to it */
} etcdlock_value;

/* Reads a key, linearizably, if the lock is held at that moment: what it shows is not older than any write of
 * this or an earlier holder, and nobody else can have been granted the lock before it was read. On failure
 * *out is NULL. ENOENT: held, but there is no such key. Free with etcdlock_value_free. */
ETCDLOCK_API int etcdlock_mutex_get(etcdlock_mutex *mutex, const char *key,
                                    etcdlock_value **out) ETCDLOCK_CHECK_RESULT;

/* NULL is allowed. */
ETCDLOCK_API void etcdlock_value_free(etcdlock_value *value);

/* Deletes a key. ENOENT: there was no such key; nothing else is wrong then, and a repeated delete that an
 * earlier attempt had carried out says 0, not ENOENT. */
ETCDLOCK_API int etcdlock_mutex_delete(etcdlock_mutex *mutex, const char *key) ETCDLOCK_CHECK_RESULT;

typedef enum etcdlock_compare_kind {
    ETCDLOCK_KEY_EXISTS = 1,
    ETCDLOCK_KEY_ABSENT = 2,
    ETCDLOCK_MOD_REVISION_IS = 3, /* 0: absent */
    ETCDLOCK_VALUE_IS = 4,        /* false for an absent key */
} etcdlock_compare_kind;

typedef struct etcdlock_compare {
    etcdlock_compare_kind kind;
    const char *key;
    uint64_t mod_revision; /* MOD_REVISION_IS */
    const void *value;     /* VALUE_IS */
    size_t value_size;
} etcdlock_compare;

typedef enum etcdlock_operation_kind {
    ETCDLOCK_PUT = 1,
    ETCDLOCK_DELETE = 2, /* of a key that may be absent */
} etcdlock_operation_kind;

typedef struct etcdlock_operation {
    etcdlock_operation_kind kind;
    const char *key;   /* each key at most once in a branch */
    const void *value; /* PUT */
    size_t value_size;
} etcdlock_operation;

/* If all comparisons hold (also if there are none) the success operations, else the failure operations; all
 * of them at one revision. Any of the three may be empty. */
typedef struct etcdlock_txn {
    size_t size;
    const etcdlock_compare *compares;
    size_t n_compares;
    const etcdlock_operation *success;
    size_t n_success;
    const etcdlock_operation *failure;
    size_t n_failure;
} etcdlock_txn;

#define ETCDLOCK_TXN_INIT ETCDLOCK_SIZED(etcdlock_txn)

/* What became of it. */
typedef struct etcdlock_txn_result {
    size_t size;
    int succeeded;     /* 1: the comparisons held; 0: they did not, the failure operations were applied */
    uint64_t revision; /* at which it was applied */
} etcdlock_txn_result;

#define ETCDLOCK_TXN_RESULT_INIT ETCDLOCK_SIZED(etcdlock_txn_result)

/* Applies a transaction. That a comparison did not hold is no error: result says it. result may be NULL; on
 * failure it is untouched. E2BIG also for more than ETCDLOCK_TXN_OPERATIONS_MAX; EINVAL also for an unknown
 * kind, a size that no INIT macro gave, or a key twice in one branch. */
ETCDLOCK_API int etcdlock_mutex_txn(etcdlock_mutex *mutex, const etcdlock_txn *txn,
                                    etcdlock_txn_result *result) ETCDLOCK_CHECK_RESULT;

#ifdef __cplusplus
}
#endif

#endif
