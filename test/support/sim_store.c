#include "support/sim_store.h"

#include <stdlib.h>
#include <string.h>

void sim_store_init(sim_store *store)
{
    memset(store, 0, sizeof *store);
    store->revision = 1;
    store->first_change = sim_grow(NULL, &store->first_capacity, 3, sizeof *store->first_change);
    memset(store->first_change, 0, 3 * sizeof *store->first_change);
}

void sim_store_clear(sim_store *store)
{
    for (size_t i = 0; i < store->n_keys; i++) {
        sim_key *key = store->keys[i];
        for (size_t v = 0; v < key->n_versions; v++)
            sim_span_free(key->versions[v].value);
        free(key->versions);
        sim_span_free(key->key);
        free(key);
    }
    free(store->keys);
    free(store->changes);
    free(store->first_change);
}

/* Index of the first key that is not before `key`. */
static size_t lower_bound(const sim_store *store, el_span key)
{
    size_t low = 0, high = store->n_keys;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sim_span_compare(store->keys[middle]->key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void sim_store_span(const sim_store *store, el_span key, el_span range_end, size_t *first, size_t *end)
{
    *first = lower_bound(store, key);
    if (range_end.size == 0) {
        bool found = *first < store->n_keys && sim_span_compare(store->keys[*first]->key, key) == 0;
        *end = *first + found;
    } else if (range_end.size == 1 && range_end.data[0] == '\0') {
        *end = store->n_keys;
    } else {
        size_t last = lower_bound(store, range_end);
        *end = last > *first ? last : *first;
    }
}

const sim_version *sim_store_at(const sim_key *key, int64_t revision)
{
    for (size_t v = key->n_versions; v > 0; v--) {
        const sim_version *version = &key->versions[v - 1];
        if (version->mod_revision <= revision) return version->deleted ? NULL : version;
    }
    return NULL;
}

static sim_key *key_for_writing(sim_store *store, el_span name)
{
    size_t at = lower_bound(store, name);
    if (at < store->n_keys && sim_span_compare(store->keys[at]->key, name) == 0) return store->keys[at];
    sim_key *key = sim_alloc(sizeof *key);
    key->key = sim_span_dup(name);
    store->keys = sim_grow(store->keys, &store->keys_capacity, store->n_keys + 1, sizeof *store->keys);
    memmove(store->keys + at + 1, store->keys + at, (store->n_keys - at) * sizeof *store->keys);
    store->keys[at] = key;
    store->n_keys++;
    return key;
}

static void add_version(sim_store *store, sim_key *key, const sim_version *version)
{
    key->versions = sim_grow(key->versions, &key->capacity, key->n_versions + 1, sizeof *key->versions);
    key->versions[key->n_versions] = *version;
    store->changes =
        sim_grow(store->changes, &store->changes_capacity, store->n_changes + 1, sizeof *store->changes);
    store->changes[store->n_changes++] = (sim_change){key, key->n_versions++};
}

void sim_store_put(sim_store *store, el_span name, el_span value, int64_t lease)
{
    int64_t revision = store->revision + 1;
    sim_key *key = key_for_writing(store, name);
    const sim_version *old = sim_store_at(key, revision);
    sim_version version = {
        .create_revision = old ? old->create_revision : revision,
        .mod_revision = revision,
        .version = old ? old->version + 1 : 1,
        .lease = lease,
        .value = sim_span_dup(value),
    };
    add_version(store, key, &version);
}

int64_t sim_store_delete(sim_store *store, el_span name, el_span range_end)
{
    int64_t deleted = 0;
    size_t first, end;
    sim_store_span(store, name, range_end, &first, &end);
    for (size_t i = first; i < end; i++) {
        if (!sim_store_at(store->keys[i], store->revision + 1)) continue;
        sim_version tombstone = {.mod_revision = store->revision + 1, .deleted = true};
        add_version(store, store->keys[i], &tombstone);
        deleted++;
    }
    return deleted;
}

void sim_store_commit(sim_store *store)
{
    size_t next = (size_t)store->revision + 1;
    if (store->n_changes == store->first_change[next]) return;
    store->revision++;
    store->first_change =
        sim_grow(store->first_change, &store->first_capacity, next + 2, sizeof *store->first_change);
    store->first_change[next + 1] = store->n_changes;
}

void sim_store_changes(const sim_store *store, int64_t revision, size_t *first, size_t *end)
{
    *first = store->first_change[revision];
    *end = store->first_change[revision + 1];
}

bool sim_store_compact(sim_store *store, int64_t revision)
{
    if (revision <= store->compact_revision || revision > store->revision) return false;
    store->compact_revision = revision;
    return true;
}

static int newer_last(const void *a, const void *b)
{
    const el_key_value *left = a, *right = b;
    if (left->create_revision != right->create_revision)
        return left->create_revision < right->create_revision ? -1 : 1;
    return sim_span_compare(left->key, right->key);
}

/* Ties keep key order here too: a short sort in etcd is stable, in either direction. */
static int newer_first(const void *a, const void *b)
{
    const el_key_value *left = a, *right = b;
    if (left->create_revision != right->create_revision)
        return left->create_revision > right->create_revision ? -1 : 1;
    return sim_span_compare(left->key, right->key);
}

void sim_store_range(const sim_store *store, const el_range_request *request, int64_t revision,
                     sim_arena *arena, el_range_answer *answer)
{
    size_t first, end;
    sim_store_span(store, request->key, request->range_end, &first, &end);
    el_key_value *kvs = request->count_only ? NULL : sim_arena_take(arena, (end - first) * sizeof *kvs);
    size_t n = 0;
    int64_t count = 0;
    for (size_t i = first; i < end; i++) {
        const sim_key *key = store->keys[i];
        const sim_version *version = sim_store_at(key, revision);
        if (!version) continue;
        count++;
        if (!kvs || (request->max_create_revision && version->create_revision > request->max_create_revision))
            continue;
        kvs[n++] = (el_key_value){
            .key = key->key,
            .value = request->keys_only ? (el_span){"", 0} : version->value,
            .create_revision = version->create_revision,
            .mod_revision = version->mod_revision,
            .version = version->version,
            .lease = version->lease,
        };
    }
    if (n > 1 && request->sort == EL_SORT_CREATE_ASCENDING) qsort(kvs, n, sizeof *kvs, newer_last);
    if (n > 1 && request->sort == EL_SORT_CREATE_DESCENDING) qsort(kvs, n, sizeof *kvs, newer_first);
    bool more = request->limit > 0 && n > (size_t)request->limit;
    *answer = (el_range_answer){kvs, more ? (size_t)request->limit : n, count, more};
}
