/* Who holds a lock and who waits for it: a look that takes part in nothing. */
#ifndef ETCDLOCK_QUERY_H
#define ETCDLOCK_QUERY_H

#include <stddef.h>
#include <stdint.h>

#include "etcdlock/client.h"
#include "etcdlock/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A snapshot of one lock's queue at one revision. */
typedef struct etcdlock_queue etcdlock_queue;

typedef enum etcdlock_entry_kind {
    ETCDLOCK_ENTRY_CONTENDER = 1, /* holds or waits */
    ETCDLOCK_ENTRY_READER = 2,    /* the same, as a reader of a read-write lock */
    ETCDLOCK_ENTRY_STRAY = 3, /* a key in the lock's folder that is no entry of a lock: it blocks nobody */
} etcdlock_entry_kind;

/* One key. Strings are "" and numbers 0 where the value does not say, as for a holder that is not of this
 * library. They live as long as the snapshot. */
typedef struct etcdlock_entry {
    etcdlock_entry_kind kind;
    const char *key; /* whole, with the prefix; NUL-terminated */
    size_t key_size;
    int64_t lease;            /* 0: none. A contender without a lease never goes away by itself */
    uint64_t create_revision; /* its place, and its token when it holds */
    const char *host;
    const char *program;
    const char *label;
    int64_t pid;
    int64_t thread;
    int64_t since_unix_ms;   /* when it asked, by its own clock */
    const char *acquisition; /* random id of this one place */
} etcdlock_entry;

/* Asks etcd (linearizable) for the entries of lock `name`. Blocks at most command_timeout_ms. On failure *out
 * is NULL. EINVAL: NULL or a refused name; ETCDLOCK_EUNREACHABLE; EACCES; ENOMEM; ECANCELED: the client was
 * closed; ETCDLOCK_EPROTOCOL; ETCDLOCK_EFORKED. Free with etcdlock_queue_free. */
ETCDLOCK_API int etcdlock_queue_get(etcdlock_queue **out, etcdlock_client *client,
                                    const char *name) ETCDLOCK_CHECK_RESULT;

/* The number of entries: contenders and readers by place, the first of them the holder; then the strays. */
ETCDLOCK_API size_t etcdlock_queue_size(const etcdlock_queue *queue);
/* The number of contenders and readers among them. */
ETCDLOCK_API size_t etcdlock_queue_contenders(const etcdlock_queue *queue);
/* Entry number i, from 0; NULL if there is none. Belongs to the snapshot. */
ETCDLOCK_API const etcdlock_entry *etcdlock_queue_at(const etcdlock_queue *queue, size_t i);
/* The store's revision of the snapshot. */
ETCDLOCK_API uint64_t etcdlock_queue_revision(const etcdlock_queue *queue);
/* NULL is allowed. */
ETCDLOCK_API void etcdlock_queue_free(etcdlock_queue *queue);

#ifdef __cplusplus
}
#endif

#endif
