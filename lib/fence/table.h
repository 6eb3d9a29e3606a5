/* The resources that a handle knows, by name. */
#ifndef EL_FENCE_TABLE_H
#define EL_FENCE_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fence/gate.h"
#include "fence/turn.h"

typedef struct el_fence_resource el_fence_resource;

/* Never moves and never goes before the handle does. */
struct el_fence_resource {
    el_fence_resource *next_in_bucket;
    el_fence_resource *next_seen; /* in the order in which they came */
    uint64_t hash;
    el_fence_turn turn;
    el_fence_gate gate;          /* guard in a file: used by the turn's owner */
    bool is_begun;               /* the turn's owner is between begin and end */
    uint64_t highest;            /* guard in memory: the highest token */
    atomic_uint_fast64_t writes; /* guard in a file: how many writes of its cell this handle knows of */
    uint64_t offset;             /* guard in a file: where the cell is */
    size_t name_size;            /* without the NUL */
    char name[];
};

/* All zero: empty. */
typedef struct el_fence_table {
    el_fence_resource **buckets;
    size_t n_buckets; /* a power of two */
    size_t n_resources;
    el_fence_resource *first_seen;
    el_fence_resource *last_seen;
} el_fence_table;

/* NULL: not there. */
el_fence_resource *el_fence_table_find(const el_fence_table *table, const char *name, size_t size);

/* Adds one that is not there yet. NULL: no memory, nothing has changed. */
el_fence_resource *el_fence_table_add(el_fence_table *table, const char *name, size_t size, uint64_t offset);

void el_fence_table_clear(el_fence_table *table);

#endif
