/* The register of each lock in the simulated world: written under the lock by guarded writes, whose promises
 * are checked at the moment when each of them is applied and when its writer is told.
 *
 * Each value names its writer's token, the number of the write in that hold, and the branch that was taken.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/backoff.h"
#include "support/world.h"

enum { WRITES_PER_HOLD_MAX = 6 };

static const char prefix[] = "register-";

/* ---- the history
 * ----------------------------------------------------------------------------------------------- */

static world_write *find(world *w, unsigned lock, uint64_t token, unsigned number)
{
    for (unsigned i = w->n_writes; i-- > 0;) {
        world_write *write = &w->writes[i];
        if (write->lock == lock && write->token == token && write->number == number) return write;
    }
    return NULL;
}

/* A write counts only while the entry stands that it names. */
static bool has_entry(world *w, unsigned lock, uint64_t token)
{
    char folder[64];
    sim_key_info keys[64];
    snprintf(folder, sizeof(folder), "%s/", world_lock_name(lock));
    size_t n = sim_keys(w->sim, folder, keys, 64);
    for (size_t i = 0; i < n && i < 64; i++)
        if ((uint64_t)keys[i].create_revision == token) return true;
    return n > 64;
}

static void applied(world *w, unsigned lock, const sim_key_info *key)
{
    uint64_t token;
    unsigned number;
    char branch[8], text[64];
    snprintf(text, sizeof(text), "%.*s", (int)key->value.size, key->value.data);
    if (sscanf(text, "%" SCNu64 " %u %7s", &token, &number, branch) != 3) {
        world_breach(w, "register %u holds nonsense: %s", lock, text);
        return;
    }
    world_register *r = &w->registers[lock];
    world_write *write = find(w, lock, token, number);
    if (token < r->token || (token == r->token && number <= r->number))
        world_breach(w, "register %u: write %s is applied after %" PRIu64 " %u", lock, text, r->token,
                     r->number);
    if (!has_entry(w, lock, token))
        world_breach(w, "register %u: write %s is applied without the entry of its holder", lock, text);
    if (!write || (write->state != WRITE_UNDER_WAY && write->state != WRITE_UNKNOWN)) {
        world_breach(w, "register %u: write %s is applied in state %d", lock, text,
                     write ? (int)write->state : -1);
        return;
    }
    if (write->state == WRITE_UNKNOWN) w->counts.late_writes++;
    write->state = WRITE_APPLIED;
    write->revision = (uint64_t)key->mod_revision;
    write->is_first_branch = strcmp(branch, "then") == 0;
    r->token = token;
    r->number = number;
    r->revision = (uint64_t)key->mod_revision;
}

void register_look(world *w)
{
    sim_key_info keys[WORLD_LOCKS_MAX];
    size_t n = sim_keys(w->sim, prefix, keys, WORLD_LOCKS_MAX);
    for (size_t i = 0; i < n; i++) {
        unsigned lock = (unsigned)(keys[i].key.data[sizeof(prefix) - 1] - '0');
        if ((uint64_t)keys[i].mod_revision != w->registers[lock].revision) applied(w, lock, &keys[i]);
    }
}

/* ---- what the writer is told
 * -------------------------------------------------------------------------------------- */

/* A call that went through leaves nothing of its hold open. */
static void settle(world *w, const world_write *last)
{
    for (unsigned i = 0; i < w->n_writes; i++) {
        world_write *write = &w->writes[i];
        if (write->lock == last->lock && write->token == last->token && write->state == WRITE_UNKNOWN)
            write->state = WRITE_NEVER;
    }
}

static void check_read(actor *a, const world_write *read, const el_guard_end *end)
{
    world *w = a->client->world;
    uint64_t revision = end->range->n_kvs > 0 ? (uint64_t)end->range->kvs[0].mod_revision : 0;
    if (revision < read->revision || revision > w->registers[read->lock].revision)
        world_breach(w, "register %u: read at %" PRIu64 ", was %" PRIu64 " when asked, is %" PRIu64,
                     read->lock, revision, read->revision, w->registers[read->lock].revision);
    settle(w, read);
}

static void check_told(actor *a, world_write *write, const el_guard_end *end)
{
    world *w = a->client->world;
    int error = end->failure.error;
    if (error == 0) {
        w->counts.writes++;
        if (write->state != WRITE_APPLIED || write->revision != (uint64_t)end->revision ||
            write->is_first_branch != end->succeeded)
            world_breach(w,
                         "write %" PRIu64 " %u is told done at %" PRId64 ", branch %d; state %d at %" PRIu64,
                         write->token, write->number, end->revision, (int)end->succeeded, (int)write->state,
                         write->revision);
        settle(w, write);
    } else if (error == ETCDLOCK_EUNKNOWN) {
        w->counts.unknown_writes++;
        if (write->state == WRITE_UNDER_WAY) write->state = WRITE_UNKNOWN;
    } else {
        w->counts.refused_writes++;
        if (write->state != WRITE_UNDER_WAY)
            world_breach(w, "write %" PRIu64 " %u is told to have failed (%s), but is in state %d",
                         write->token, write->number, end->failure.text, (int)write->state);
        write->state = WRITE_NEVER;
    }
}

static void done(el_guard_call *call, const el_guard_end *end)
{
    actor *a = call->user;
    world *w = a->client->world;
    world_write *write = &w->writes[a->write.record];
    world_say(w, "actor %u: %s %u of %" PRIu64 ": %s", a->number, call->is_read ? "read" : "write",
              write->number, write->token, end->failure.error ? end->failure.text : "ok");
    a->write.is_under_way = false;
    if (!call->is_read) {
        check_told(a, write, end);
    } else {
        write->state = WRITE_NEVER;
        if (!end->failure.error) check_read(a, write, end);
    }
    /* Whoever does not know what became of a write looks, and holds on for long enough to see it come late.
     */
    bool was_open = a->write.is_open;
    a->write.is_open = end->failure.error == ETCDLOCK_EUNKNOWN;
    int64_t most_ns = was_open && !a->write.is_open ? 8 * EL_S : 20 * EL_MS;
    if (a->state == ACTOR_HOLDING) a->next_ns = w->now_ns + (int64_t)world_random(w, (uint64_t)most_ns);
}

/* ---- writing
 * ----------------------------------------------------------------------------------------------------- */

static void put(actor_write *aw, el_op *op, int i, const world_write *write)
{
    int n = snprintf(aw->texts[i], sizeof(aw->texts[i]), "%" PRIu64 " %u %s", write->token, write->number,
                     i == 0 ? "then" : "else");
    *op = (el_op){.kind = EL_OP_PUT};
    op->put.key = (el_span){aw->key, strlen(aw->key)};
    op->put.value = (el_span){aw->texts[i], (size_t)n};
}

/* A plain put, or one of two after a comparison with what some earlier write may have left. */
static void fill(actor *a, const world_write *write)
{
    world *w = a->client->world;
    actor_write *aw = &a->write;
    snprintf(aw->key, sizeof(aw->key), "%s%u", prefix, a->lock);
    aw->call = (el_guard_call){
        .success = aw->success, .n_success = 2, .failure = aw->failure, .n_failure = 2, .done = done};
    aw->call.user = a;
    aw->call.deadline_ns =
        w->now_ns + 1 + (int64_t)world_random(w, world_chance(w, 0.3) ? 10 * EL_MS : 5 * EL_S);
    if (world_chance(w, aw->is_open ? 0.7 : 0.2)) {
        aw->call.is_read = true;
        aw->success[1] = (el_op){.kind = EL_OP_RANGE};
        aw->success[1].range.key = (el_span){aw->key, strlen(aw->key)};
        return;
    }
    put(aw, &aw->success[1], 0, write);
    put(aw, &aw->failure[1], 1, write);
    if (world_chance(w, 0.5)) return;
    uint64_t revision = w->registers[a->lock].revision;
    aw->compare = (el_compare){.target = EL_TARGET_MOD_REVISION,
                               .relation = EL_EQUAL,
                               .key = {aw->key, strlen(aw->key)},
                               .number = (int64_t)(world_chance(w, 0.7) ? revision : 1)};
    aw->call.compares = &aw->compare;
    aw->call.n_compares = 1;
}

bool register_write(actor *a)
{
    world *w = a->client->world;
    actor_write *aw = &a->write;
    if (a->hold->state == EL_HOLD_HELD) el_session_check(a->hold->contender->session);
    if (a->hold->state != EL_HOLD_HELD || w->is_ending || aw->is_under_way) return false;
    if (a->n_writes == WRITES_PER_HOLD_MAX || w->n_writes == WORLD_WRITES_MAX) return false;
    el_guard *guard = el_guard_of(a->hold->contender);
    world_write *write = &w->writes[w->n_writes];
    *write = (world_write){.lock = a->lock,
                           .token = a->token,
                           .number = ++a->n_writes,
                           .state = WRITE_UNDER_WAY,
                           .revision = w->registers[a->lock].revision};
    aw->record = w->n_writes++;
    aw->is_under_way = true;
    fill(a, write);
    el_guard_submit(guard, &aw->call);
    return true;
}
