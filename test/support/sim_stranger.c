#include <string.h>

#include "support/sim_cluster.h"

void sim_put_key(sim *s, const char *key, const char *value, int64_t lease)
{
    sim_lock(s);
    if (!lease || sim_lease_exists(s, lease)) {
        sim_store_put(&s->store, sim_text(key), sim_text(value), lease);
        sim_store_commit(&s->store);
        sim_log_append(s);
    }
    sim_unlock(s);
}

bool sim_delete_key(sim *s, const char *key)
{
    sim_lock(s);
    bool deleted = sim_store_delete(&s->store, sim_text(key), (el_span){"", 0}) > 0;
    if (deleted) {
        sim_store_commit(&s->store);
        sim_log_append(s);
    }
    sim_unlock(s);
    return deleted;
}

bool sim_grant_lease(sim *s, int64_t id, int64_t ttl_s)
{
    el_answer ignored;
    sim_lock(s);
    bool granted = sim_lease_grant(s, id, ttl_s, &ignored).code == EL_OK;
    if (granted) sim_log_append(s);
    sim_unlock(s);
    return granted;
}

bool sim_revoke_lease(sim *s, int64_t id)
{
    sim_lock(s);
    bool revoked = sim_lease_revoke(s, id).code == EL_OK;
    if (revoked) sim_log_append(s);
    sim_unlock(s);
    return revoked;
}

void sim_compact(sim *s, int64_t revision)
{
    sim_lock(s);
    sim_store_compact(&s->store, revision);
    sim_unlock(s);
}

size_t sim_keys(sim *s, const char *prefix, sim_key_info *out, size_t max)
{
    sim_lock(s);
    size_t length = strlen(prefix), n = 0, first, end;
    sim_store_span(&s->store, sim_text(prefix), (el_span){"", 1}, &first, &end);
    for (size_t i = first; i < end; i++) {
        const sim_key *key = s->store.keys[i];
        if (key->key.size < length || memcmp(key->key.data, prefix, length) != 0) break;
        const sim_version *version = sim_store_at(key, s->store.revision);
        if (!version) continue;
        if (n < max)
            out[n] = (sim_key_info){
                key->key,         version->value, version->create_revision, version->mod_revision,
                version->version, version->lease};
        n++;
    }
    sim_unlock(s);
    return n;
}

int64_t sim_revision(sim *s)
{
    sim_lock(s);
    int64_t revision = s->store.revision;
    sim_unlock(s);
    return revision;
}

size_t sim_requests_left(sim *s)
{
    sim_lock(s);
    size_t n = s->ops_alive;
    sim_unlock(s);
    return n;
}
