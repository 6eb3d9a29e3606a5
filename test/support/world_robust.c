/* Owner death in the simulated world: each holder of a robust lock is told of a death exactly if the one
 * before it died or left unrepaired what another death had done, and after a death nobody holds before the
 * delay. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/guard.h"
#include "core/marker.h"
#include "support/world.h"

/* ---- what the world knows
 * ---------------------------------------------------------------------------------------- */

static const world_grant *find_grant(const world *w, unsigned lock, uint64_t token)
{
    for (unsigned i = w->n_grants; i-- > 0;)
        if (w->grants[i].lock == lock && w->grants[i].token == token) return &w->grants[i];
    return NULL;
}

/* The one before, of all that were told to hold. */
static world_grant *predecessor(world *w, unsigned lock, uint64_t token)
{
    world_grant *best = NULL;
    for (unsigned i = 0; i < w->n_grants; i++) {
        world_grant *g = &w->grants[i];
        if (g->lock == lock && g->token < token && (!best || g->token > best->token)) best = g;
    }
    return best;
}

static bool has_entry(world *w, const world_grant *grant)
{
    sim_key_info keys[64];
    char folder[64];
    snprintf(folder, sizeof(folder), "%s/", world_lock_name(grant->lock));
    size_t n = sim_keys(w->sim, folder, keys, 64);
    for (size_t i = 0; i < n && i < 64; i++)
        if ((uint64_t)keys[i].create_revision == grant->token) return true;
    return n > 64;
}

void robust_look(world *w)
{
    for (unsigned lock = 0; lock < w->n_locks; lock++) {
        world_grant *last = predecessor(w, lock, UINT64_MAX);
        if (last && !last->vanished_ns && !has_entry(w, last)) last->vanished_ns = w->now_ns;
    }
}

/* ---- what a holder is told
 * --------------------------------------------------------------------------------------- */

static void breach(actor *a, const world_grant *before, uint64_t told, const char *what)
{
    world_breach(a->client->world,
                 "robust: actor %u with token %" PRIu64 " is told of the death of %" PRIu64
                 ": %s; before it %" PRIu64 ", end %d, told of %" PRIu64 ", repaired %d",
                 a->number, a->token, told, what, before ? before->token : 0, before ? (int)before->end : -1,
                 before ? before->told : 0, before ? (int)before->repair : -1);
}

/* What is to be told after this one, had it died or left; two answers where the repair is in doubt. */
static bool fits(const world_grant *before, bool died, uint64_t told)
{
    uint64_t own = died ? before->token : 0;
    if (before->told == 0) return told == own;
    if (before->repair == REPAIR_DONE) return told == own;
    if (before->repair == REPAIR_MAYBE && told == own && died) return true;
    return told == before->told;
}

static void check_told(actor *a, const world_grant *before, uint64_t told)
{
    world *w = a->client->world;
    /* Somebody who marked the lock and was given up before he was told. */
    bool is_untold = told && !find_grant(w, a->lock, told) && (!before || told > before->token);
    bool died = before && (before->end == HOLD_ENDS_DIED || before->end == HOLD_ENDS_NOT);
    if (told) w->counts.deaths_told++;
    if (!before) {
        if (told && !is_untold) breach(a, before, told, "nobody was there");
    } else if (before->end == HOLD_ENDS_UNKNOWN) {
        if (!fits(before, true, told) && !fits(before, false, told) && !is_untold)
            breach(a, before, told, "neither fits");
    } else if (died) {
        if (!fits(before, true, told)) breach(a, before, told, "it died");
        if (w->lock_delay_ns && w->now_ns - before->vanished_ns < w->lock_delay_ns)
            breach(a, before, told, "too early");
    } else if (!fits(before, false, told) && !(is_untold && fits(before, false, 0))) {
        breach(a, before, told, "it left");
    }
}

void robust_granted(actor *a)
{
    world *w = a->client->world;
    const el_marker *marker = a->hold->contender->marker;
    a->grant = NULL;
    if (!marker || w->n_grants == WORLD_GRANTS_MAX) return;
    uint64_t told = marker->is_inconsistent ? strtoull(marker->dead, NULL, 10) : 0;
    if (w->is_robust) {
        check_told(a, predecessor(w, a->lock, a->token), told);
    } else {
        const world_grant *before = predecessor(w, a->lock, a->token);
        bool died = before && (before->end == HOLD_ENDS_DIED || before->end == HOLD_ENDS_NOT);
        if (told || (died && w->now_ns - before->vanished_ns < w->lock_delay_ns))
            breach(a, before, told, "too early, or not robust");
    }
    a->grant = &w->grants[w->n_grants++];
    *a->grant = (world_grant){.lock = a->lock, .token = a->token, .told = told};
    /* Told late: it was deleted before, nobody has seen when. */
    if (!has_entry(w, a->grant)) a->grant->vanished_ns = INT64_MIN / 2;
}

/* ---- repairs
 * ----------------------------------------------------------------------------------------------------- */

static void repaired(el_guard_call *call, const el_guard_end *end)
{
    actor *a = call->user;
    world *w = a->client->world;
    a->is_repairing = false;
    el_free(a->repair_text);
    int error = end->failure.error;
    if (a->grant)
        a->grant->repair = !error ? REPAIR_DONE : error == ETCDLOCK_EUNKNOWN ? REPAIR_MAYBE : REPAIR_NONE;
    if (!error && a->state == ACTOR_HOLDING && a->hold->contender)
        a->hold->contender->marker->is_inconsistent = false;
    w->counts.repairs += !error;
    if (a->state == ACTOR_HOLDING) a->next_ns = w->now_ns + (int64_t)world_random(w, 20 * EL_MS);
}

/* As etcdlock_mutex_consistent does. */
bool robust_repair(actor *a)
{
    world *w = a->client->world;
    if (a->hold->state != EL_HOLD_HELD || !el_hold_is_good(a->hold) || a->is_repairing) return false;
    el_contender *contender = a->hold->contender;
    if (!contender->marker || !contender->marker->is_inconsistent) return false;
    if (a->grant && a->grant->repair == REPAIR_NONE) a->grant->repair = REPAIR_MAYBE;
    a->is_repairing = true;
    a->repair_text = el_marker_write(&contender->place, NULL);
    a->repair_ops[1] = (el_op){.kind = EL_OP_PUT};
    a->repair_ops[1].put.key = contender->marker->key;
    a->repair_ops[1].put.value = (el_span){a->repair_text, strlen(a->repair_text)};
    a->repair = (el_guard_call){.success = a->repair_ops,
                                .n_success = 2,
                                .deadline_ns = w->now_ns + 1 + (int64_t)world_random(w, 5 * EL_S),
                                .done = repaired,
                                .user = a};
    el_guard_submit(el_guard_of(contender), &a->repair);
    return true;
}
