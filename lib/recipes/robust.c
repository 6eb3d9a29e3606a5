/* Owner death: telling the holder that its predecessor died, who that was, and that all is well again. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/client.h"
#include "core/marker.h"
#include "core/process.h"
#include "core/value.h"
#include "recipes/dropin.h"
#include "recipes/guard.h"
#include "recipes/mutex.h"

typedef struct owner {
    etcdlock_owner shown;
    char *texts; /* what its strings point into */
} owner;

/* ---- who died
 * ---------------------------------------------------------------------------------------------------- */

/* The text is the two lines of a marker: the token, and the value of the entry. 0 or ENOMEM. */
static int read_owner(owner *o, const char *dead)
{
    el_value value;
    const char *json = strchr(dead, '\n');
    size_t size = json ? strcspn(json + 1, "\n") : 0;
    if (el_value_read(&value, &o->texts, json ? json + 1 : "", size)) return ENOMEM;
    o->shown = (etcdlock_owner){.token = strtoull(dead, NULL, 10),
                                .host = value.host,
                                .program = value.program,
                                .label = value.label,
                                .acquisition = value.acquisition,
                                .pid = value.pid,
                                .thread = value.thread,
                                .since_unix_ms = value.since_unix_ms};
    return 0;
}

void el_hold_tell_death(const el_hold *hold, el_failure *failure)
{
    const el_marker *marker = hold->contender->marker;
    owner dead = {.texts = NULL};
    if (!marker || !marker->is_inconsistent) return;
    if (read_owner(&dead, marker->dead)) {
        el_fail(failure, EOWNERDEAD, "lock %s is held, but its last holder died", hold->mutex->name);
        return;
    }
    el_fail(failure, EOWNERDEAD,
            "lock %s is held, but its last holder died (%.60s, process %" PRId64 " of host %.60s, token "
            "%" PRIu64 "): repair what it protects, then call etcdlock_mutex_consistent",
            hold->mutex->name, dead.shown.program[0] ? dead.shown.program : "unknown", dead.shown.pid,
            dead.shown.host[0] ? dead.shown.host : "unknown", dead.shown.token);
    el_free(dead.texts);
}

int etcdlock_mutex_dead_owner(const etcdlock_mutex *handle, etcdlock_owner **out)
{
    el_mutex *mutex;
    el_failure failure = {0};
    if (!out) return el_publish_new(EINVAL, "dead_owner: out is NULL");
    *out = NULL;
    if (el_guard_enter((etcdlock_mutex *)(uintptr_t)handle, "dead_owner", &mutex, &failure))
        return el_publish(&failure);
    el_hold *hold = el_mutex_hold_of(mutex, el_process_thread());
    owner *o = NULL;
    if (!hold || !el_hold_is_good(hold)) {
        el_fail(&failure, EPERM, "dead_owner: lock %s is not held by the caller", mutex->name);
    } else if (!hold->contender->marker || !hold->contender->marker->dead) {
        el_fail(&failure, ENOENT, "dead_owner: lock %s: nobody died before this hold", mutex->name);
    } else if (!(o = el_alloc(sizeof(*o))) || read_owner(o, hold->contender->marker->dead)) {
        el_fail(&failure, ENOMEM, "dead_owner: out of memory");
        el_free(o);
    } else {
        *out = &o->shown;
    }
    el_client_leave(mutex->client);
    return el_publish(&failure);
}

void etcdlock_owner_free(etcdlock_owner *shown)
{
    if (!shown) return;
    owner *o = EL_CONTAINER(shown, owner, shown);
    el_free(o->texts);
    el_free(o);
}

/* ---- consistent
 * -------------------------------------------------------------------------------------------------- */

/* The marker without the dead one, as a guarded write of the hold. */
static void make_consistent(el_hold *hold, el_failure *failure)
{
    el_mutex *mutex = hold->mutex;
    el_contender *contender = hold->contender;
    el_marker *marker = contender->marker;
    el_op ops[2] = {{.kind = EL_OP_PUT}, {.kind = EL_OP_PUT}};
    el_guard_call call = {.success = ops, .n_success = 2};
    int64_t thread = el_process_thread();
    uint64_t token = hold->token;
    char *text = el_marker_write(&contender->place, NULL);
    if (!text) {
        el_fail(failure, ENOMEM, "consistent: out of memory");
        return;
    }
    ops[1].put.key = marker->key;
    ops[1].put.value = (el_span){text, strlen(text)};
    /* While this waited, others that share the hold may have unlocked. */
    if (!el_guard_run(hold, &call, "consistent", failure)) {
        hold = el_mutex_hold_of(mutex, thread);
        bool is_held = hold && hold->state == EL_HOLD_HELD && hold->token == token;
        if (is_held) marker->is_inconsistent = false;
    }
    el_free(text);
}

int etcdlock_mutex_consistent(etcdlock_mutex *handle)
{
    el_mutex *mutex;
    el_failure failure = {0};
    if (el_guard_enter(handle, "consistent", &mutex, &failure)) return el_publish(&failure);
    el_hold *hold = el_guard_find_hold(mutex, "consistent", &failure);
    if (hold && (!hold->contender->marker || !hold->contender->marker->is_inconsistent)) {
        el_fail(&failure, EINVAL, "consistent: lock %s: %s", mutex->name,
                mutex->flags & ETCDLOCK_ROBUST ? "no death is to be repaired"
                                               : "it is not robust: make it with the flag ETCDLOCK_ROBUST");
    } else if (hold) {
        make_consistent(hold, &failure);
    }
    el_client_leave(mutex->client);
    return el_publish(&failure);
}
