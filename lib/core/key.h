/* The layout of lock keys: which names are allowed, what a place is called, what counts as a contender.
 *
 *   <prefix>NAME/<lease in hex>         the first place of a session in the queue of lock NAME
 *   <prefix>NAME/<lease in hex>-1 ...   its further ones
 *   <prefix>NAME/r-<lease in hex>...    a reader of a read-write lock
 *
 * The first form is what `etcdctl lock` and Go's concurrency.Mutex write, so all of them stand in one queue.
 */
#ifndef EL_KEY_H
#define EL_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "transport/transport.h"

enum {
    EL_NAME_MAX = 1024,
    EL_ENTRY_MAX = 2 + 17 + 1 + 10, /* "r-", a lease with its sign, "-", a number */
};

/* 0, or EINVAL with the reason. */
int el_name_check(const char *name, el_failure *failure);

typedef enum el_entry_shape {
    EL_SHAPE_STRAY,  /* no entry of a lock: blocks nobody */
    EL_SHAPE_WRITER, /* a mutex entry */
    EL_SHAPE_READER,
} el_entry_shape;

/* What a key under a lock's folder is, by its form; folder is "<prefix>NAME/". */
el_entry_shape el_key_shape(el_span key, el_span folder);

/* Writes folder + entry name, NUL-terminated, to buffer of at least folder.size + EL_ENTRY_MAX + 1 bytes;
 * returns the length. */
size_t el_key_write(char *buffer, el_span folder, bool reader, int64_t lease, unsigned slot);

static inline el_span el_span_of(const char *data, size_t size)
{
    el_span span = {data, size};
    return span;
}

bool el_span_equal(el_span a, el_span b);

#endif
