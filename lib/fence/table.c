#include "fence/table.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SIZE = 16 };

/* Eight bytes at a time, since a check in memory is mostly this: multiply, fold the high half down. */
static uint64_t hash_of(const char *name, size_t size)
{
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t hash = size * odd;
    for (; size >= sizeof(uint64_t); name += sizeof(uint64_t), size -= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, name, sizeof(word));
        hash = (hash ^ word) * odd;
        hash ^= hash >> 32;
    }
    uint64_t rest = 0;
    memcpy(&rest, name, size);
    hash = (hash ^ rest) * odd;
    return hash ^ (hash >> 29);
}

static bool resize(el_fence_table *table, size_t n_buckets)
{
    el_fence_resource **buckets = calloc(n_buckets, sizeof(*buckets));
    if (!buckets) return false;
    for (size_t i = 0; i < table->n_buckets; i++) {
        el_fence_resource *resource = table->buckets[i];
        while (resource) {
            el_fence_resource *next = resource->next_in_bucket;
            el_fence_resource **bucket = &buckets[resource->hash & (n_buckets - 1)];
            resource->next_in_bucket = *bucket;
            *bucket = resource;
            resource = next;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->n_buckets = n_buckets;
    return true;
}

el_fence_resource *el_fence_table_find(const el_fence_table *table, const char *name, size_t size)
{
    if (table->n_buckets == 0) return NULL;
    uint64_t hash = hash_of(name, size);
    el_fence_resource *at = table->buckets[hash & (table->n_buckets - 1)];
    while (at && (at->hash != hash || at->name_size != size || memcmp(at->name, name, size) != 0))
        at = at->next_in_bucket;
    return at;
}

el_fence_resource *el_fence_table_add(el_fence_table *table, const char *name, size_t size, uint64_t offset)
{
    /* A full table that cannot grow is only slower; none at all is of no use. */
    if (table->n_resources >= table->n_buckets &&
        !resize(table, table->n_buckets ? table->n_buckets * 2 : FIRST_SIZE) && table->n_buckets == 0)
        return NULL;
    el_fence_resource *resource = calloc(1, sizeof(*resource) + size + 1);
    if (!resource) return NULL;
    memcpy(resource->name, name, size);
    resource->name_size = size;
    resource->offset = offset;
    resource->hash = hash_of(name, size);
    el_fence_resource **bucket = &table->buckets[resource->hash & (table->n_buckets - 1)];
    resource->next_in_bucket = *bucket;
    *bucket = resource;
    if (table->last_seen)
        table->last_seen->next_seen = resource;
    else
        table->first_seen = resource;
    table->last_seen = resource;
    table->n_resources++;
    return resource;
}

void el_fence_table_clear(el_fence_table *table)
{
    el_fence_resource *resource = table->first_seen;
    while (resource) {
        el_fence_resource *next = resource->next_seen;
        free(resource);
        resource = next;
    }
    free(table->buckets);
    memset(table, 0, sizeof(*table));
}
