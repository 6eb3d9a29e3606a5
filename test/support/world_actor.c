/* The threads of the simulated world: they lock, work and unlock, in every way the mutex offers. */
#include <errno.h>
#include <string.h>

#include "core/backoff.h"
#include "support/world.h"

static int64_t soon(actor *a, int64_t most_ns)
{
    world *w = a->client->world;
    return w->now_ns + (int64_t)world_random(w, (uint64_t)most_ns + 1);
}

static void be_idle(actor *a)
{
    a->state = ACTOR_IDLE;
    a->hold = NULL;
    a->token = 0;
    a->is_broken = false;
    a->grant = NULL;
    a->n_writes = 0;
    a->write.is_open = false;
    a->next_ns = a->client->world->is_ending ? INT64_MAX : soon(a, 300 * EL_MS);
}

bool actor_is_good(const actor *a)
{
    return a->state == ACTOR_HOLDING && el_hold_is_good(a->hold);
}

static void lock_done(el_hold *hold, const el_failure *failure)
{
    actor *a = hold->user;
    world *w = a->client->world;
    if (failure->error) {
        if (failure->error == ETIMEDOUT) w->counts.timeouts++;
        world_say(w, "actor %u: lock %u fails: %s", a->number, a->lock, failure->text);
        be_idle(a);
        return;
    }
    a->state = ACTOR_HOLDING;
    a->token = hold->token;
    a->next_ns = soon(a, world_chance(w, 0.1) ? 8 * EL_S : 20 * EL_MS);
    w->counts.grants++;
    world_say(w, "actor %u: holds lock %u with token %llu", a->number, a->lock, (unsigned long long)a->token);
    check_grant(a);
    robust_granted(a);
}

static void unlock_done(el_hold *hold, const el_failure *failure)
{
    actor *a = hold->user;
    world_say(a->client->world, "actor %u: unlocked lock %u: %s", a->number, a->lock,
              failure->error ? failure->text : "ok");
    /* An operator who deletes the entry while its unlock is under way makes a death of it, or not. */
    if (a->grant) a->grant->end = failure->error || a->is_broken ? HOLD_ENDS_UNKNOWN : HOLD_ENDS_LEFT;
    be_idle(a);
}

static void begin(actor *a)
{
    world *w = a->client->world;
    el_failure failure = {0};
    el_enter_mode mode = EL_ENTER_WAIT;
    int64_t deadline_ns = INT64_MAX;
    a->lock = (unsigned)world_random(w, w->n_locks);
    a->mutex = world_chance(w, 0.5) ? a->client->shared[a->lock] : a->own[a->lock];
    uint64_t choice = world_random(w, 100);
    if (choice < 25) {
        mode = EL_ENTER_TRY;
        deadline_ns = w->now_ns + 5 * EL_S;
    } else if (choice < 50) {
        deadline_ns = w->now_ns + 1 + (int64_t)world_random(w, world_chance(w, 0.5) ? 3 * EL_MS : 5 * EL_S);
    }
    a->next_ns = world_chance(w, 0.05) ? soon(a, 2 * EL_S) : INT64_MAX; /* then it changes its mind */
    if (el_mutex_begin(a->mutex, &a->hold, a->number, mode, deadline_ns, lock_done, a, &failure)) {
        w->counts.refusals++;
        be_idle(a);
        return;
    }
    a->state = ACTOR_WAITING;
    a->is_broken = false;
    a->attempts++;
}

static void change_mind(actor *a)
{
    if (world_chance(a->client->world, 0.5)) {
        el_mutex_cancel_waits(a->mutex); /* those of others on the same handle, too */
    } else {
        el_hold_abandon(a->hold); /* as a thread that is cancelled */
        be_idle(a);
    }
}

/* Some unlock while their own write is under way, as threads that share a hold may do to each other. */
static bool write_first(actor *a)
{
    world *w = a->client->world;
    bool has_begun = world_chance(w, 0.6) && (robust_repair(a) || register_write(a));
    if (!has_begun) return false;
    a->next_ns = world_chance(w, 0.1) ? soon(a, 20 * EL_MS) : INT64_MAX;
    return true;
}

static void unlock(actor *a)
{
    world *w = a->client->world;
    el_failure failure = {0};
    bool is_over;
    check_write(a);
    a->state = ACTOR_UNLOCKING;
    a->next_ns = INT64_MAX;
    int error = el_mutex_begin_unlock(a->mutex, a->number, unlock_done, a, &is_over, &failure);
    if (a->grant) a->grant->end = is_over ? HOLD_ENDS_DIED : HOLD_ENDS_UNKNOWN;
    if (!is_over) return;
    if (error == ETCDLOCK_ESESSION || error == ETCDLOCK_EENTRY || error == ECANCELED) {
        w->counts.losses++;
    } else {
        world_breach(w, "unlock by the holder says %d: %s", error, failure.text);
    }
    be_idle(a);
}

void actor_act(actor *a)
{
    a->next_ns = INT64_MAX;
    switch (a->state) {
    case ACTOR_IDLE:
        if (a->client->world->is_ending) break;
        if (!a->client->session || a->client->session->phase != EL_SESSION_LIVE || a->write.is_under_way ||
            a->is_repairing) {
            a->next_ns = soon(a, 300 * EL_MS);
            break;
        }
        begin(a);
        break;
    case ACTOR_WAITING:
        change_mind(a);
        break;
    case ACTOR_HOLDING:
        if (!write_first(a)) unlock(a);
        break;
    case ACTOR_UNLOCKING:
        break;
    }
}
