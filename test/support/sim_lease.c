#include <stdlib.h>
#include <string.h>

#include "support/sim_cluster.h"

#define TTL_MIN_S     2 /* etcd's, with its default election timeout */
#define TTL_MAX_S     INT64_C(9000000000)
#define EXPIRY_LAG_NS (500 * SIM_MS) /* etcd looks for expired leases twice a second */

/* It expires at expires_ns for those who ask, and goes when the event comes, a little later as in etcd. */
typedef struct sim_lease {
    sim_event expiry;
    sim *sim;
    int64_t id;
    int64_t ttl_s;
    int64_t expires_ns;
} sim_lease;

static size_t position(const sim *s, int64_t id)
{
    size_t low = 0, high = s->n_leases;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->leases[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static sim_lease *find(const sim *s, int64_t id)
{
    size_t at = position(s, id);
    return at < s->n_leases && s->leases[at]->id == id ? s->leases[at] : NULL;
}

bool sim_lease_exists(const void *s, int64_t id)
{
    return find(s, id) != NULL;
}

static void expire_event(void *owner)
{
    sim_lease *lease = owner;
    sim *s = lease->sim;
    if (!sim_leader_works(s)) return; /* sim_leases_overdue comes back to it */
    sim_lease_revoke(s, lease->id);
    sim_log_append(s);
}

static void arm(sim_lease *lease)
{
    sim *s = lease->sim;
    lease->expires_ns = sim_now(s) + lease->ttl_s * SIM_S;
    sim_schedule(s, &lease->expiry, lease->expires_ns + sim_between(s, 0, EXPIRY_LAG_NS));
}

sim_verdict sim_lease_grant(sim *s, int64_t id, int64_t ttl_s, el_answer *answer)
{
    if (ttl_s > TTL_MAX_S) return (sim_verdict){EL_OUT_OF_RANGE, "etcdserver: too large lease TTL"};
    if (id == 0) {
        while (find(s, s->next_lease_id))
            s->next_lease_id++;
        id = s->next_lease_id++;
    }
    if (find(s, id)) return (sim_verdict){EL_FAILED_PRECONDITION, "etcdserver: lease already exists"};
    sim_lease *lease = sim_alloc(sizeof *lease);
    lease->sim = s;
    lease->id = id;
    lease->ttl_s = ttl_s < TTL_MIN_S ? TTL_MIN_S : ttl_s;
    lease->expiry.run = expire_event;
    lease->expiry.owner = lease;
    size_t at = position(s, id);
    s->leases = sim_grow(s->leases, &s->leases_capacity, s->n_leases + 1, sizeof(sim_lease *));
    memmove(s->leases + at + 1, s->leases + at, (s->n_leases - at) * sizeof(sim_lease *));
    s->leases[at] = lease;
    s->n_leases++;
    arm(lease);
    answer->lease.id = id;
    answer->lease.ttl_s = lease->ttl_s;
    return (sim_verdict){EL_OK, ""};
}

static void forget(sim_lease *lease)
{
    sim *s = lease->sim;
    size_t at = position(s, lease->id);
    sim_event_clear(&s->agenda, &lease->expiry);
    s->n_leases--;
    memmove(s->leases + at, s->leases + at + 1, (s->n_leases - at) * sizeof(sim_lease *));
    free(lease);
}

sim_verdict sim_lease_revoke(sim *s, int64_t id)
{
    sim_lease *lease = find(s, id);
    if (!lease) return (sim_verdict){EL_NOT_FOUND, "etcdserver: requested lease not found"};
    for (size_t i = 0; i < s->store.n_keys; i++) {
        const sim_key *key = s->store.keys[i];
        const sim_version *version = sim_store_at(key, s->store.revision);
        if (version && version->lease == id) sim_store_delete(&s->store, key->key, (el_span){"", 0});
    }
    sim_store_commit(&s->store);
    forget(lease);
    return (sim_verdict){EL_OK, ""};
}

/* One that has run out and not been revoked yet cannot be renewed: etcd waits for the revocation and then
 * answers as for a dead one. */
void sim_lease_renew(sim *s, int64_t id, el_answer *answer)
{
    sim_lease *lease = find(s, id);
    answer->lease.id = id;
    answer->lease.ttl_s = 0;
    if (!lease) return;
    if (lease->expires_ns <= sim_now(s)) {
        sim_lease_revoke(s, id);
        sim_log_append(s);
        return;
    }
    arm(lease);
    answer->lease.ttl_s = lease->ttl_s;
}

void sim_lease_look(sim *s, int64_t id, el_answer *answer)
{
    const sim_lease *lease = find(s, id);
    answer->lease.id = id;
    answer->lease.ttl_s = -1;
    if (!lease) return;
    int64_t left_ns = lease->expires_ns - sim_now(s);
    if (left_ns > 0) answer->lease.ttl_s = left_ns / SIM_S;
    answer->lease.granted_ttl_s = lease->ttl_s;
}

void sim_leases_rearm(sim *s)
{
    for (size_t i = 0; i < s->n_leases; i++)
        arm(s->leases[i]);
}

void sim_leases_overdue(sim *s)
{
    for (size_t i = 0; i < s->n_leases; i++)
        if (!s->leases[i]->expiry.slot) sim_schedule(s, &s->leases[i]->expiry, sim_now(s));
}

void sim_leases_clear(sim *s)
{
    while (s->n_leases)
        forget(s->leases[s->n_leases - 1]);
    free(s->leases);
}

bool sim_lease_alive(sim *s, int64_t id)
{
    sim_lock(s);
    bool alive = sim_lease_exists(s, id);
    sim_unlock(s);
    return alive;
}

int64_t sim_lease_left_ns(sim *s, int64_t id)
{
    sim_lock(s);
    const sim_lease *lease = find(s, id);
    int64_t left_ns = lease ? lease->expires_ns - sim_now(s) : 0;
    sim_unlock(s);
    return left_ns > 0 ? left_ns : 0;
}

size_t sim_leases_alive(sim *s)
{
    sim_lock(s);
    size_t n = s->n_leases;
    sim_unlock(s);
    return n;
}
