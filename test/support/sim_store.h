/* The simulated etcd's store: every version of every key, readable at any revision. */
#ifndef SIM_STORE_H
#define SIM_STORE_H

#include "support/sim_memory.h"

typedef struct sim_version {
    int64_t create_revision, mod_revision, version, lease;
    el_span value;
    bool deleted; /* a tombstone */
} sim_version;

typedef struct sim_key {
    el_span key;
    sim_version *versions; /* oldest first; nothing is ever thrown away, so answers may point in here */
    size_t n_versions, capacity;
} sim_key;

typedef struct sim_change {
    sim_key *key;
    size_t version; /* index into its versions */
} sim_change;

typedef struct sim_store {
    sim_key **keys; /* sorted; a key once written stays */
    size_t n_keys, keys_capacity;
    sim_change *changes; /* in order of writing */
    size_t n_changes, changes_capacity;
    size_t *first_change; /* of revision r at [r]; one past the newest revision: n_changes */
    size_t first_capacity;
    int64_t revision; /* of the last commit; 1 at first */
    int64_t compact_revision;
} sim_store;

void sim_store_init(sim_store *store);
void sim_store_clear(sim_store *store);

/* Writes go to revision + 1 and are visible to reads at that revision at once; commit makes it the store's.
 */
void sim_store_put(sim_store *store, el_span key, el_span value, int64_t lease);
int64_t sim_store_delete(sim_store *store, el_span key, el_span range_end); /* how many */
void sim_store_commit(sim_store *store); /* does nothing if nothing was written */

/* The version that counts at a revision; NULL: the key does not exist then. */
const sim_version *sim_store_at(const sim_key *key, int64_t revision);

/* Keys of a range, deleted ones included: indices [*first, *end) into store->keys. */
void sim_store_span(const sim_store *store, el_span key, el_span range_end, size_t *first, size_t *end);

void sim_store_range(const sim_store *store, const el_range_request *request, int64_t revision,
                     sim_arena *arena, el_range_answer *answer);

/* Changes made at a revision: indices [*first, *end) into store->changes. */
void sim_store_changes(const sim_store *store, int64_t revision, size_t *first, size_t *end);

bool sim_store_compact(sim_store *store, int64_t revision); /* false: compacted already, or in the future */

#endif
