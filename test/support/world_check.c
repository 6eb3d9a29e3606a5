/* The invariants, checked after every step of the simulated world. Their numbers are those of doc/design.md.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/contender.h"
#include "support/world.h"

typedef void visit(actor *a, void *context);

static void for_each(world *w, visit *f, void *context)
{
    for (unsigned i = 0; i < w->n_clients; i++) {
        world_client *c = &w->clients[i];
        for (unsigned k = 0; k < c->n_actors; k++)
            f(&c->actors[k], context);
    }
}

/* 1: at most one holder of a lock whose session's deadline has not passed. An operator who removes the entry
 * of a live holder lets the next one in before the holder can hear of it: that is what the token is for. */
typedef struct holders {
    unsigned count[WORLD_LOCKS_MAX];
    unsigned last[WORLD_LOCKS_MAX];
    world *w;
} holders;

static void count_holder(actor *a, void *context)
{
    holders *h = context;
    if (!actor_is_good(a) || a->is_broken) return;
    if (h->count[a->lock]++ > 0)
        world_breach(h->w, "invariant 1: actors %u and %u both hold lock %u", h->last[a->lock], a->number,
                     a->lock);
    h->last[a->lock] = a->number;
}

/* 8: a waiter watches its predecessor and nobody else. */
static void check_watches(actor *a, void *context)
{
    world *w = context;
    if (a->state != ACTOR_WAITING || !a->hold->contender) return;
    const el_contender *c = a->hold->contender;
    if ((c->state == EL_CONTENDER_WAITING) != c->predecessor.is_waiting)
        world_breach(w, "invariant 8: actor %u in state %d, watching: %d", a->number, (int)c->state,
                     (int)c->predecessor.is_waiting);
    if (c->state == EL_CONTENDER_WAITING && c->predecessor.create_revision >= c->place.create_revision)
        world_breach(w, "invariant 8: actor %u waits for a later entry", a->number);
}

void check_after_step(world *w)
{
    holders h = {.w = w};
    w->counts.checks++;
    for_each(w, count_holder, &h);
    for_each(w, check_watches, w);
}

/* 2 and 3: grants follow create_revision; tokens rise strictly. */
void check_grant(actor *a)
{
    world *w = a->client->world;
    if (a->is_broken) return;
    if (a->token <= w->last_granted[a->lock])
        world_breach(w, "invariant 3: actor %u is granted token %" PRIu64 " after %" PRIu64, a->number,
                     a->token, w->last_granted[a->lock]);
    w->last_granted[a->lock] = a->token;

    char folder[64];
    sim_key_info keys[64];
    snprintf(folder, sizeof(folder), "%s/", world_lock_name(a->lock));
    el_span span = {folder, strlen(folder)};
    size_t n = sim_keys(w->sim, folder, keys, 64);
    for (size_t i = 0; i < n && i < 64; i++) {
        if (el_key_shape(keys[i].key, span) == EL_SHAPE_STRAY) continue;
        if ((uint64_t)keys[i].create_revision < a->token)
            world_breach(w, "invariant 2: actor %u is granted %" PRIu64 " while entry %" PRId64 " stands",
                         a->number, a->token, keys[i].create_revision);
    }
}

/* The resource's side: a write by somebody who rightly believes to hold never carries a lower token than the
 * last. */
void check_write(actor *a)
{
    world *w = a->client->world;
    if (!actor_is_good(a) || a->is_broken) return;
    if (a->token < w->last_written[a->lock])
        world_breach(w, "actor %u holds with token %" PRIu64 ", but %" PRIu64 " has written already",
                     a->number, a->token, w->last_written[a->lock]);
    w->last_written[a->lock] = a->token;
}

/* 5: a loss is known here before etcd can free the key. */
static void check_key_stands(actor *a, void *context)
{
    world *w = context;
    sim_key_info info;
    if (!actor_is_good(a) || a->is_broken) return;
    size_t n = sim_keys(w->sim, a->hold->contender->place.key.data, &info, 1);
    w->counts.checks++;
    if (n == 0 || (uint64_t)info.create_revision != a->token)
        world_breach(w, "invariant 5: actor %u still holds token %" PRIu64 ", but its key is gone", a->number,
                     a->token);
}

void check_hook(void *context, sim *s, int64_t revision)
{
    world *w = context;
    (void)s;
    (void)revision;
    w->now_ns = sim_now(w->sim);
    for_each(w, check_key_stands, w);
    register_look(w);
    robust_look(w);
}

static bool is_record(el_span key)
{
    static const char suffix[] = "/guard";
    size_t size = sizeof(suffix) - 1;
    return key.size > size && memcmp(key.data + key.size - size, suffix, size) == 0;
}

/* 7: after every call has returned and the reaper has run, no key and no watch of it remains; the sessions
 * live on. */
void check_settled(world *w)
{
    unsigned ghosts = 0, used = 0;
    for (unsigned i = 0; i < w->n_clients; i++) {
        world_client *c = &w->clients[i];
        if (!c->session) continue;
        if (c->session->phase == EL_SESSION_LIVE && !sim_lease_alive(w->sim, c->session->lease))
            world_breach(w, "client %u still believes in lease %llx, which is gone", i,
                         (unsigned long long)c->session->lease);
        for (el_list *link = c->session->contenders.next; link != &c->session->contenders;
             link = link->next) {
            el_contender *contender = EL_CONTAINER(link, el_contender, link);
            if (contender->state == EL_CONTENDER_GHOST) {
                ghosts++;
            } else {
                world_breach(w, "invariant 7: a contender is left in state %d", (int)contender->state);
            }
        }
        used += c->client->hub.n_used;
        if (c->client->hub.n_idle > 0)
            world_breach(w, "invariant 7: %u unused watches are still kept after a minute",
                         c->client->hub.n_idle);
    }
    w->counts.ghosts += ghosts;
    if (used > ghosts) world_breach(w, "invariant 7: %u watches are left, %u ghosts", used, ghosts);
    sim_key_info keys[8];
    for (unsigned lock = 0; lock < w->n_locks; lock++) {
        char folder[64];
        snprintf(folder, sizeof(folder), "%s/", world_lock_name(lock));
        el_span span = {folder, strlen(folder)};
        size_t n = sim_keys(w->sim, folder, keys, 8);
        for (size_t i = 0; i < n && i < 8; i++)
            if (el_key_shape(keys[i].key, span) != EL_SHAPE_STRAY || is_record(keys[i].key))
                world_breach(w, "invariant 7: key %.*s is left behind", (int)keys[i].key.size,
                             keys[i].key.data);
    }
}
