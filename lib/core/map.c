#include "core/map.h"

#include <errno.h>
#include <string.h>

#include "core/alloc.h"

enum { FIRST_SIZE = 16 };

/* FNV-1a, 64 bits. */
static uint64_t hash_of(el_span key)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < key.size; i++)
        hash = (hash ^ (unsigned char)key.data[i]) * 1099511628211u;
    return hash;
}

static int resize(el_map *map, size_t n_buckets)
{
    el_map_link **buckets = el_alloc(n_buckets * sizeof(*buckets));
    if (!buckets) return ENOMEM;
    for (size_t i = 0; i < map->n_buckets; i++) {
        el_map_link *link = map->buckets[i];
        while (link) {
            el_map_link *next = link->next;
            el_map_link **bucket = &buckets[link->hash & (n_buckets - 1)];
            link->next = *bucket;
            *bucket = link;
            link = next;
        }
    }
    el_free(map->buckets);
    map->buckets = buckets;
    map->n_buckets = n_buckets;
    return 0;
}

int el_map_add(el_map *map, el_map_link *link, el_span key)
{
    if (map->n_buckets == 0) {
        if (resize(map, FIRST_SIZE)) return ENOMEM;
    } else if (map->n_members >= map->n_buckets) {
        (void)resize(map, map->n_buckets * 2);
    }
    link->key = key;
    link->hash = hash_of(key);
    el_map_link **bucket = &map->buckets[link->hash & (map->n_buckets - 1)];
    link->next = *bucket;
    *bucket = link;
    map->n_members++;
    return 0;
}

void el_map_remove(el_map *map, el_map_link *link)
{
    el_map_link **place = &map->buckets[link->hash & (map->n_buckets - 1)];
    while (*place && *place != link)
        place = &(*place)->next;
    if (!*place) return;
    *place = link->next;
    link->next = NULL;
    map->n_members--;
}

el_map_link *el_map_find(const el_map *map, el_span key)
{
    if (map->n_buckets == 0) return NULL;
    uint64_t hash = hash_of(key);
    for (el_map_link *link = map->buckets[hash & (map->n_buckets - 1)]; link; link = link->next) {
        if (link->hash == hash && link->key.size == key.size &&
            memcmp(link->key.data, key.data, key.size) == 0)
            return link;
    }
    return NULL;
}

void el_map_clear(el_map *map)
{
    el_free(map->buckets);
    map->buckets = NULL;
    map->n_buckets = 0;
}
