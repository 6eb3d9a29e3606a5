/* A hash table from byte strings to structs that hold their own links. */
#ifndef EL_MAP_H
#define EL_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "transport/transport.h"

/* Inside each member. The key's bytes belong to the member. */
typedef struct el_map_link {
    struct el_map_link *next;
    el_span key;
    uint64_t hash;
} el_map_link;

typedef struct el_map {
    el_map_link **buckets;
    size_t n_buckets; /* 0 or a power of two */
    size_t n_members;
} el_map;

/* ENOMEM only for the first member; later the table rather stays crowded than fails. */
int el_map_add(el_map *map, el_map_link *link, el_span key);
void el_map_remove(el_map *map, el_map_link *link);
el_map_link *el_map_find(const el_map *map, el_span key);
/* Frees the table, which must be empty. */
void el_map_clear(el_map *map);

#endif
