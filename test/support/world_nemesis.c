/* The maker of trouble in the simulated world. */
#include <stdio.h>
#include <string.h>

#include "core/backoff.h"
#include "core/contender.h"
#include "support/world.h"

static const char impostor[] = "impostor";

static double rate(world *w, double most)
{
    return world_chance(w, 0.5) ? 0 : most * sim_chance(w->sim);
}

/* Each world has its own mixture of small faults. */
void nemesis_set_rates(world *w)
{
    sim_faults faults = sim_calm();
    faults.request_lost = rate(w, 0.05);
    faults.answer_lost = rate(w, 0.05);
    faults.answer_unavailable = rate(w, 0.05);
    faults.delayed = rate(w, 0.05);
    faults.reset = rate(w, 0.01);
    faults.unsynced = rate(w, 0.5);
    faults.delay_max_ns = 1 + (int64_t)world_random(w, 30 * EL_S);
    faults.lag_max_ns = (int64_t)world_random(w, world_chance(w, 0.3) ? 2 * EL_S : 20 * EL_MS);
    sim_set_faults(w->sim, &faults);
}

static actor *any_actor(world *w)
{
    world_client *c = &w->clients[world_random(w, w->n_clients)];
    return &c->actors[world_random(w, c->n_actors)];
}

/* What an operator does to a client's lease or entry breaks its holds, and it cannot know at once. */
static void break_key(world *w, el_span key)
{
    for (unsigned i = 0; i < w->n_clients; i++) {
        world_client *c = &w->clients[i];
        for (unsigned k = 0; k < c->n_actors; k++) {
            actor *a = &c->actors[k];
            bool has_entry = a->hold && a->hold->contender && a->state != ACTOR_IDLE;
            if (has_entry && el_span_equal(a->hold->contender->place.key, key)) a->is_broken = true;
        }
    }
}

static void delete_entry(world *w, actor *a)
{
    if (!a->hold || !a->hold->contender) return;
    el_span key = a->hold->contender->place.key;
    world_say(w, "nemesis: deletes %.*s", (int)key.size, key.data);
    break_key(w, key);
    (void)sim_delete_key(w->sim, key.data);
}

actor *nemesis_delete_waiter(world *w)
{
    for (int i = 0; i < 50; i++) {
        actor *a = any_actor(w);
        if (a->state != ACTOR_WAITING || !a->hold->contender) continue;
        if (a->hold->contender->state != EL_CONTENDER_WAITING || !a->hold->contender->own.is_waiting)
            continue;
        delete_entry(w, a);
        return a;
    }
    return NULL;
}

static void revoke_lease(world *w)
{
    world_client *c = &w->clients[world_random(w, w->n_clients)];
    if (!c->session) return;
    world_say(w, "nemesis: revokes lease %llx", (unsigned long long)c->session->lease);
    for (unsigned k = 0; k < c->n_actors; k++) {
        actor *a = &c->actors[k];
        if (a->hold && a->hold->contender && a->hold->contender->session == c->session) a->is_broken = true;
    }
    (void)sim_revoke_lease(w->sim, c->session->lease);
}

static void put_stray(world *w)
{
    static const char *const strays[] = {"jobs/junk", "jobs/nested/other", "jobs/a/b/c", "b/ZZ", "b/-"};
    const char *key = strays[world_random(w, sizeof(strays) / sizeof(strays[0]))];
    if (world_chance(w, 0.5)) {
        sim_put_key(w->sim, key, "x", 0);
    } else {
        (void)sim_delete_key(w->sim, key);
    }
}

/* A key where a client would put its own: somebody wrote it by hand. It blocks everybody until it is deleted.
 */
static void put_impostor(world *w)
{
    char key[100];
    world_client *c = &w->clients[world_random(w, w->n_clients)];
    if (!c->session) return;
    int n = snprintf(key, sizeof(key), "%s/%llx", world_lock_name((unsigned)world_random(w, w->n_locks)),
                     (unsigned long long)c->session->lease);
    uint64_t slot = world_random(w, 4);
    if (slot > 0) snprintf(key + n, sizeof(key) - (size_t)n, "-%llu", (unsigned long long)slot);
    world_say(w, "nemesis: impostor %s", key);
    sim_put_key(w->sim, key, impostor, world_chance(w, 0.5) ? c->session->lease : 0);
}

void nemesis_clean_up(world *w)
{
    sim_key_info keys[64];
    el_span value = {impostor, strlen(impostor)};
    size_t n = sim_keys(w->sim, "", keys, 64);
    for (size_t i = 0; i < n && i < 64; i++) {
        if (!el_span_equal(keys[i].value, value)) continue;
        char key[100];
        snprintf(key, sizeof(key), "%.*s", (int)keys[i].key.size, keys[i].key.data);
        break_key(w, keys[i].key);
        (void)sim_delete_key(w->sim, key);
    }
}

static void trouble_member(world *w, uint64_t kind)
{
    unsigned m = (unsigned)world_random(w, w->n_members);
    world_say(w, "nemesis: trouble %llu for member %u", (unsigned long long)kind, m);
    switch (kind) {
    case 0:
        sim_kill(w->sim, m);
        break;
    case 1:
        sim_restart(w->sim, m);
        break;
    case 2:
        sim_isolate(w->sim, m, true);
        break;
    case 3:
        sim_isolate(w->sim, m, false);
        break;
    case 4:
        sim_pause(w->sim, m);
        break;
    case 5:
        sim_resume(w->sim, m);
        break;
    default:
        sim_move_leader(w->sim, m);
        break;
    }
}

static void trouble_link(world *w)
{
    world_client *c = &w->clients[world_random(w, w->n_clients)];
    unsigned endpoint = (unsigned)world_random(w, w->n_members);
    sim_link link = {.refused = world_chance(w, 0.2),
                     .no_requests = world_chance(w, 0.2),
                     .no_answers = world_chance(w, 0.3),
                     .delay_ns = world_chance(w, 0.3) ? (int64_t)world_random(w, 3 * EL_S) : 0};
    world_say(w, "nemesis: link of client %d to member %u: %d %d %d", (int)(c - w->clients), endpoint,
              link.refused, link.no_requests, link.no_answers);
    sim_set_link(c->transport, endpoint, world_chance(w, 0.5) ? NULL : &link);
}

static void freeze(world *w)
{
    world_client *c = &w->clients[world_random(w, w->n_clients)];
    int64_t ns = (int64_t)world_random(w, world_chance(w, 0.5) ? 15 * EL_S : 500 * EL_MS);
    world_say(w, "nemesis: client %d stands still for %.3f s", (int)(c - w->clients), (double)ns / 1e9);
    sim_freeze(c->transport, w->now_ns + ns);
}

/* The client has seen more than there is, as after a restore from a snapshot: the next answer ends its
 * sessions, whatever it was asked for. */
static void seem_restored(world *w)
{
    world_client *c = &w->clients[world_random(w, w->n_clients)];
    world_say(w, "nemesis: to client %d etcd seems to have been restored", (int)(c - w->clients));
    pthread_mutex_lock(&c->client->lock);
    c->client->revision += 1000000;
    pthread_mutex_unlock(&c->client->lock);
}

void nemesis_act(world *w)
{
    w->next_trouble_ns = w->now_ns + (int64_t)world_random(w, world_chance(w, 0.3) ? 5 * EL_S : 300 * EL_MS);
    w->counts.faults++;
    uint64_t kind = world_random(w, 100);
    if (kind < 7) {
        trouble_member(w, kind);
    } else if (kind < 25) {
        static const uint64_t mending[] = {1, 1, 3, 3, 5, 5};
        trouble_member(w, mending[world_random(w, 6)]);
    } else if (kind < 45) {
        trouble_link(w);
    } else if (kind < 60) {
        freeze(w);
    } else if (kind < 66) {
        delete_entry(w, any_actor(w));
    } else if (kind < 70) {
        revoke_lease(w);
    } else if (kind < 72) {
        put_impostor(w);
    } else if (kind < 74) {
        nemesis_clean_up(w);
    } else if (kind < 77) {
        put_stray(w);
    } else if (kind < 80) {
        sim_compact(w->sim, sim_revision(w->sim));
    } else if (kind < 82) {
        w->is_full = world_chance(w, 0.3);
        w->was_full |= w->is_full;
        sim_set_nospace(w->sim, w->is_full);
    } else if (kind < 83) {
        seem_restored(w);
    } else if (kind < 90) {
        world_client *c = &w->clients[world_random(w, w->n_clients)];
        sim_reset(c->transport, (unsigned)world_random(w, w->n_members));
    } else {
        nemesis_set_rates(w);
    }
}
