/* The contender's way out: the fenced delete, tried until it is answered, and the watch for entries that a
 * late write could still bring. */
#include <errno.h>
#include <string.h>

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/contender_steps.h"
#include "core/guard.h"
#include "core/log.h"
#include "core/marker.h"

static const int64_t retry_base_ns = 100 * EL_MS;
static const int64_t retry_limit_ns = 5 * EL_S;

static void check_ghost(el_contender *contender);

/* ---- its memory
 * --------------------------------------------------------------------------------------------- */

void el_contender_become(el_contender *contender, el_contender_state state)
{
    static const char *const names[] = {"new",     "entering", "peeking", "looking", "waiting", "confirming",
                                        "marking", "delayed",  "held",    "leaving", "ghost",   "gone"};
    el_log(contender->client, ETCDLOCK_LOG_DEBUG, "entry %.200s: %s, was %s", contender->key, names[state],
           names[contender->state]);
    contender->state = state;
}

static void free_all(el_contender *contender)
{
    el_list_remove(&contender->link);
    el_queue_unref(contender->place.queue);
    el_free(contender->guard);
    el_marker_free(contender->marker);
    el_free(contender->predecessor_key);
    el_free(contender->key);
    el_free(contender->value);
    el_free(contender);
}

void el_contender_free_if_gone(el_contender *contender)
{
    if (contender->state != EL_CONTENDER_GONE || contender->commit.is_under_way) return;
    if (!el_departure_is_idle(&contender->predecessor) || !el_departure_is_idle(&contender->own)) return;
    if (contender->guard && !el_guard_is_idle(contender->guard)) return;
    free_all(contender);
}

int el_contender_name(el_contender *contender)
{
    el_queue *queue = contender->place.queue;
    int error = el_queue_take_slot(queue, &contender->place.slot);
    if (error) return error;
    contender->has_slot = true;
    size_t size = el_key_write(contender->key, queue->folder, contender->place.is_reader,
                               contender->session->lease, contender->place.slot);
    contender->place.key = el_span_of(contender->key, size);
    return 0;
}

int el_contender_new(el_contender **out, el_queue *queue, char *value, size_t value_size,
                     const el_contender_owner *calls, void *owner)
{
    el_contender *contender = el_alloc(sizeof(*contender));
    if (!contender) {
        el_free(value);
        return ENOMEM;
    }
    el_session *session = queue->session;
    size_t key_room = queue->folder.size + EL_ENTRY_MAX + 1;
    contender->session = session;
    contender->client = session->client;
    contender->calls = calls;
    contender->owner = owner;
    contender->value = value;
    contender->place.queue = queue;
    contender->place.value = el_span_of(value, value_size);
    contender->place.lease = session->lease;
    contender->key = el_alloc(key_room);
    el_queue_ref(queue);
    el_list_append(&session->contenders, &contender->link);
    int error = contender->key ? el_contender_name(contender) : ENOMEM;
    if (error) {
        free_all(contender);
        return error;
    }
    session->n_owned++;
    *out = contender;
    return 0;
}

/* ---- ghosts
 * ------------------------------------------------------------------------------------------------- */

static void ghost_ready(el_watcher *watcher)
{
    check_ghost(EL_CONTAINER(watcher, el_contender, ghost));
}

static void ghost_put(el_watcher *watcher, const el_key_value *kv)
{
    el_contender *contender = EL_CONTAINER(watcher, el_contender, ghost);
    if (el_span_equal(kv->value, contender->place.value)) check_ghost(contender);
}

static void ghost_refused(el_watcher *watcher, const el_failure *failure)
{
    el_contender *contender = EL_CONTAINER(watcher, el_contender, ghost);
    (void)failure;
    el_hub_unwatch(contender->client, watcher);
    contender->session->is_poisoned = true;
    el_client_timer_set(contender->client, EL_LANE_IO, &contender->next_leave,
                        el_now(contender->client) + retry_limit_ns);
}

static const el_watcher_calls ghost_calls = {
    .ready = ghost_ready, .put = ghost_put, .refused = ghost_refused};

static void watch_ghost(el_contender *contender)
{
    el_contender_become(contender, EL_CONTENDER_GHOST);
    contender->place.create_revision = 0; /* what may come has another one: it is known by its value */
    contender->ghost.calls = &ghost_calls;
    int64_t now_ns = el_now(contender->client);
    if (el_hub_watch(contender->client, &contender->ghost, contender->place.key)) {
        el_client_timer_set(contender->client, EL_LANE_IO, &contender->next_leave, now_ns + retry_limit_ns);
    } else if (contender->ghost.watch->is_ready) {
        /* A kept watch may have seen it before it was asked about it. */
        el_client_timer_set(contender->client, EL_LANE_IO, &contender->next_leave, now_ns);
    }
}

static void ghost_checked(el_commit *commit, const el_commit_end *end)
{
    el_contender *contender = EL_CONTAINER(commit, el_contender, commit);
    if (contender->state == EL_CONTENDER_GONE) {
        el_contender_free_if_gone(contender);
        return;
    }
    if (!end->answer) {
        if (end->outcome == EL_OUTCOME_REFUSED) contender->session->is_poisoned = true;
        el_client_timer_set(contender->client, EL_LANE_IO, &contender->next_leave,
                            el_now(contender->client) + retry_limit_ns);
    } else if (end->answer->succeeded) {
        el_log(contender->client, ETCDLOCK_LOG_WARNING,
               "removed entry %.200s, which a write given up long ago had brought",
               contender->place.key.data);
    }
    if (contender->is_check_due) {
        contender->is_check_due = false;
        check_ghost(contender);
    }
}

static void write_delete(el_commit *commit, el_parts *room)
{
    commit->txn = el_place_leave(&EL_CONTAINER(commit, el_contender, commit)->place, room);
}

static void check_ghost(el_contender *contender)
{
    if (contender->commit.is_under_way) {
        contender->is_check_due = true;
        return;
    }
    contender->commit.kind = EL_COMMIT_LEAVE;
    contender->commit.pinned = EL_ANY_ENDPOINT;
    contender->commit.done = ghost_checked;
    contender->commit.write = write_delete;
    el_commit_submit(contender->client, &contender->commit);
}

/* ---- leaving
 * ------------------------------------------------------------------------------------------------ */

static void stop_watching(el_contender *contender)
{
    if (contender->predecessor.client) el_departure_stop(&contender->predecessor);
    if (contender->own.client) el_departure_stop(&contender->own);
    el_client_timer_clear(contender->client, EL_LANE_IO, &contender->own_due);
    if (contender->marker) el_client_timer_clear(contender->client, EL_LANE_IO, &contender->marker->delay);
}

static void become_gone(el_contender *contender)
{
    el_contender_become(contender, EL_CONTENDER_GONE);
    stop_watching(contender);
    el_client_timer_clear(contender->client, EL_LANE_IO, &contender->deadline);
    el_client_timer_clear(contender->client, EL_LANE_IO, &contender->next_leave);
    el_hub_unwatch(contender->client, &contender->ghost);
    el_contender_free_if_gone(contender);
}

static void entry_is_gone(el_contender *contender)
{
    contender->is_entry_gone = true;
    if (contender->may_come_late) {
        watch_ghost(contender);
        return;
    }
    if (contender->has_slot) el_queue_return_slot(contender->place.queue, contender->place.slot);
    contender->has_slot = false;
    become_gone(contender);
}

static void leave_again(el_timer *timer)
{
    el_contender *contender = EL_CONTAINER(timer, el_contender, next_leave);
    if (contender->state == EL_CONTENDER_LEAVING) {
        el_contender_begin_leave(contender);
    } else if (contender->ghost.watch) {
        check_ghost(contender);
    } else {
        watch_ghost(contender);
    }
}

/* What the owner hears: an unlock that finds nothing to delete had been overtaken by a loss, unless an
 * earlier attempt of the same unlock did it. */
static void tell_left(el_contender *contender, bool was_deleted)
{
    el_failure failure = {0};
    void *owner = contender->owner;
    if (!owner) return;
    if (!was_deleted && !contender->commit.maybe_applied && !contender->may_have_left)
        el_fail(&failure, ETCDLOCK_EENTRY,
                "unlock: the lock had been lost: our entry %.200s was not there any more",
                contender->place.key.data);
    el_contender_disown(contender);
    contender->calls->left(owner, &failure);
}

static void leave_again_later(el_contender *contender, const el_commit_end *end)
{
    if (end->outcome == EL_OUTCOME_REFUSED) {
        contender->session->is_poisoned = true;
        el_log(contender->client, ETCDLOCK_LOG_ERROR, "entry %.200s cannot be removed: %s",
               contender->place.key.data, end->failure.text);
    }
    int64_t pause_ns =
        el_backoff_ns(contender->leaves++, retry_base_ns, retry_limit_ns, el_random(contender->client));
    el_client_timer_set(contender->client, EL_LANE_IO, &contender->next_leave,
                        el_now(contender->client) + pause_ns);
}

static void swept(el_commit *commit, const el_commit_end *end)
{
    el_contender *contender = EL_CONTAINER(commit, el_contender, commit);
    if (contender->state == EL_CONTENDER_GONE) {
        el_contender_free_if_gone(contender);
    } else if (end->answer) {
        entry_is_gone(contender);
    } else {
        leave_again_later(contender, end);
    }
}

/* Whoever deleted the entry by hand has left the guard's record, in the way of etcdctl and Go. It goes before
 * the name is used again. */
static void sweep_guard(el_contender *contender, int64_t revision)
{
    contender->commit.done = swept;
    contender->commit.write = NULL;
    contender->commit.txn = el_guard_sweep(contender->guard, revision);
    el_commit_submit(contender->client, &contender->commit);
}

/* A full store refuses what says that a death is not repaired yet. Without it the entry can go: what the
 * marker says now is as good, but for a delay that would not have to be. */
static bool keep_marker(el_contender *contender)
{
    el_marker *marker = contender->marker;
    if (!marker || !marker->is_ours || !marker->is_inconsistent || marker->leaves_it) return false;
    marker->leaves_it = true;
    return true;
}

static void left(el_commit *commit, const el_commit_end *end)
{
    el_contender *contender = EL_CONTAINER(commit, el_contender, commit);
    if (contender->state == EL_CONTENDER_GONE) {
        el_contender_free_if_gone(contender);
        return;
    }
    if (end->answer && !end->answer->succeeded && !el_session_is_live(contender->session))
        return; /* the session's end, which explains it, has told everybody */
    if (end->answer) {
        tell_left(contender, end->answer->succeeded);
        if (contender->guard && !end->answer->succeeded) {
            sweep_guard(contender, end->revision);
        } else {
            entry_is_gone(contender);
        }
        return;
    }
    if (commit->maybe_applied) contender->may_have_left = true;
    if (end->outcome == EL_OUTCOME_REFUSED && keep_marker(contender)) {
        el_contender_begin_leave(contender);
        return;
    }
    el_contender_fail(contender, &end->failure);
    leave_again_later(contender, end);
}

/* What goes with the entry, in the same transaction. */
static void add_companions(el_contender *contender)
{
    el_guard *guard = contender->guard;
    el_marker *marker = contender->marker;
    el_op *ops = NULL;
    if (marker) ops = marker->leave;
    if (guard) ops = guard->leave;
    if (!ops || contender->place.create_revision == 0) return;
    size_t n = 0;
    ops[n++] = contender->commit.txn.success[0];
    if (guard) ops[n++] = (el_op){.kind = EL_OP_DELETE, .del = {.key = guard->key}};
    if (marker && el_marker_leave(marker, &ops[n])) n++;
    contender->commit.txn.success = ops;
    contender->commit.txn.n_success = n;
}

static void write_leave(el_commit *commit, el_parts *room)
{
    write_delete(commit, room);
    add_companions(EL_CONTAINER(commit, el_contender, commit));
}

void el_contender_begin_leave(el_contender *contender)
{
    el_contender_become(contender, EL_CONTENDER_LEAVING);
    contender->next_leave.fire = leave_again;
    stop_watching(contender);
    contender->commit.kind = EL_COMMIT_LEAVE;
    contender->commit.pinned = EL_ANY_ENDPOINT;
    contender->commit.done = left;
    contender->commit.folder = contender->place.queue->folder;
    contender->commit.write = write_leave;
    el_commit_submit(contender->client, &contender->commit);
}

void el_contender_withdraw(el_contender *contender)
{
    contender->next_leave.fire = leave_again;
    stop_watching(contender);
    if (contender->commit.is_under_way) {
        /* A write has to be accounted for before it can be undone, also if it is about to be sent again; a
         * look is of no use any more. */
        bool may_have_written = contender->commit.is_sent || contender->commit.maybe_applied;
        if (contender->commit.kind == EL_COMMIT_LOOK || !may_have_written)
            el_commit_stop(contender->client, &contender->commit);
        return;
    }
    if (contender->state == EL_CONTENDER_LEAVING || contender->state == EL_CONTENDER_GHOST) return;
    /* Whoever has made guarded writes asks once more: their record has to go, too. */
    if ((contender->is_entry_gone && !contender->guard) || contender->state == EL_CONTENDER_NEW) {
        entry_is_gone(contender);
    } else {
        el_contender_begin_leave(contender);
    }
}

bool el_contender_must_go(el_contender *contender)
{
    if (contender->state == EL_CONTENDER_GONE) {
        el_contender_free_if_gone(contender);
        return true;
    }
    if (contender->owner) return false;
    el_contender_withdraw(contender);
    return true;
}

void el_contenders_session_over(el_session *session, int error, const char *reason)
{
    el_list contenders;
    el_failure failure;
    el_list_init(&contenders);
    el_list_splice(&contenders, &session->contenders);
    el_fail(&failure, error, "the session is over: %s", reason);
    for (el_list *link = el_list_take(&contenders); link; link = el_list_take(&contenders)) {
        el_contender *contender = EL_CONTAINER(link, el_contender, link);
        el_list_append(&session->contenders, link);
        el_contender_fail(contender, &failure);
        if (contender->guard) el_guard_stop(contender->guard, &failure);
        el_commit_stop(contender->client, &contender->commit);
        become_gone(contender);
    }
}
