#include "core/contender.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/contender_steps.h"
#include "core/guard.h"
#include "core/log.h"
#include "core/marker.h"

/* A fast uncontended cycle is over before this and pays for no watch of its own key. */
static const int64_t own_after_ns = 50 * EL_MS;

/* After its watch was refused, or there was no memory for it. */
static const int64_t own_again_ns = 2 * EL_S;

enum { RENAMES_MAX = 8 };

static void send_enter(el_contender *contender);
static void act_on_view(el_contender *contender, const el_view *view);

/* ---- telling the owner -----------------------------------------------------------------------------------
 */

void el_contender_disown(el_contender *contender)
{
    if (!contender->owner) return;
    contender->owner = NULL;
    contender->session->n_owned--;
    el_client_timer_clear(contender->client, EL_LANE_IO, &contender->deadline);
}

static bool is_entering(const el_contender *contender)
{
    return contender->state >= EL_CONTENDER_ENTERING && contender->state < EL_CONTENDER_HELD;
}

/* The wait, the hold or the leaving ends with a failure: says so to the owner, who is out of it then. */
void el_contender_fail(el_contender *contender, const el_failure *failure)
{
    void *owner = contender->owner;
    if (!owner) return;
    bool was_held = contender->state == EL_CONTENDER_HELD;
    bool was_leaving = contender->state == EL_CONTENDER_LEAVING;
    el_contender_disown(contender);
    if (contender->guard) el_guard_stop(contender->guard, failure);
    if (was_held) {
        contender->calls->lost(owner, failure);
    } else if (was_leaving) {
        contender->calls->left(owner, failure);
    } else {
        contender->calls->entered(owner, failure);
    }
}

static void fail_and_withdraw(el_contender *contender, const el_failure *failure)
{
    el_contender_fail(contender, failure);
    el_contender_withdraw(contender);
}

/* What etcd or the way to it answered says nothing of which lock it was about. */
static void fail_by_answer(el_contender *contender, const el_failure *answer)
{
    el_failure failure;
    el_fail(&failure, answer->error, "lock %.*s: %s", (int)contender->place.queue->folder.size - 1,
            contender->place.queue->folder.data, answer->text);
    fail_and_withdraw(contender, &failure);
}

void el_contender_cancel(el_contender *contender, int error, const char *reason)
{
    if (!is_entering(contender)) return;
    el_failure failure;
    el_fail(&failure, error, "%s", reason);
    fail_and_withdraw(contender, &failure);
}

/* A program's mistake, where threads share a hold: one of them lets go of it while another writes. */
static void stop_guard(el_contender *contender)
{
    el_failure failure;
    el_fail(&failure, EPERM, "guarded write: the lock was unlocked meanwhile");
    if (contender->guard) el_guard_stop(contender->guard, &failure);
}

void el_contender_abandon(el_contender *contender)
{
    stop_guard(contender);
    el_contender_disown(contender);
    el_contender_withdraw(contender);
}

static void deadline_passed(el_timer *timer)
{
    el_contender *contender = EL_CONTAINER(timer, el_contender, deadline);
    el_failure failure;
    bool is_maybe = el_commit_may_have_happened(&contender->commit);
    if (contender->state == EL_CONTENDER_LEAVING) {
        el_fail(&failure, ETCDLOCK_EUNKNOWN,
                "unlock: etcd has not answered in time; the entry is removed in the background");
    } else if (contender->mode == EL_ENTER_WAIT) {
        el_fail(&failure, ETIMEDOUT, "lock %.*s: the deadline passed before %s",
                (int)contender->place.queue->folder.size - 1, contender->place.queue->folder.data,
                contender->state == EL_CONTENDER_ENTERING ? "etcd had answered" : "it was our turn");
    } else {
        el_fail(&failure, is_maybe ? ETCDLOCK_EUNKNOWN : ETCDLOCK_EUNREACHABLE,
                "lock %.*s: etcd has not answered in time", (int)contender->place.queue->folder.size - 1,
                contender->place.queue->folder.data);
    }
    fail_and_withdraw(contender, &failure);
}

/* ---- holding ----------------------------------------------------------------------------------------------
 */

void el_contender_hold(el_contender *contender)
{
    if (!el_session_is_live(contender->session)) return; /* its end has told everybody */
    if (contender->marker && !contender->marker->is_ours) {
        el_contender_mark(contender);
        return;
    }
    assert(contender->place.create_revision > 0);
    el_contender_become(contender, EL_CONTENDER_HELD);
    el_client_timer_clear(contender->client, EL_LANE_IO, &contender->deadline);
    el_failure none = {0};
    contender->calls->entered(contender->owner, &none);
}

void el_contender_entry_vanished(el_contender *contender)
{
    el_failure failure;
    /* After a freeze the news of the deletion may be read before the deadline is noticed, which is its cause.
     */
    if (!el_session_is_live(contender->session)) return; /* its end has told everybody */
    contender->is_entry_gone = true;
    /* Whether the lease went with it the next renewal tells. */
    el_keepalive_afresh(contender->session);
    el_fail(&failure, ETCDLOCK_EENTRY,
            "our entry %.200s is gone from etcd: somebody deleted it or revoked its lease",
            contender->place.key.data);
    fail_and_withdraw(contender, &failure);
}

static void own_gone(el_departure *departure, int64_t revision, unsigned endpoint)
{
    (void)revision;
    (void)endpoint;
    el_contender_entry_vanished(EL_CONTAINER(departure, el_contender, own));
}

static void own_failed(el_departure *departure, const el_failure *failure)
{
    el_contender *contender = EL_CONTAINER(departure, el_contender, own);
    if (contender->state != EL_CONTENDER_HELD) {
        fail_and_withdraw(contender, failure);
        return;
    }
    /* No loss: to etcd the entry is as good as ever, only we would not see it go. */
    el_log(contender->client, ETCDLOCK_LOG_WARNING, "a lock is held unwatched: %s", failure->text);
    el_client_timer_set(contender->client, EL_LANE_IO, &contender->own_due,
                        el_now(contender->client) + own_again_ns);
}

static void own_settled(el_departure *departure)
{
    el_contender_free_if_gone(EL_CONTAINER(departure, el_contender, own));
}

static const el_departure_calls own_calls = {own_gone, own_failed, own_settled};

static void watch_own(el_timer *timer)
{
    el_contender *contender = EL_CONTAINER(timer, el_contender, own_due);
    el_departure_start(&contender->own, contender->client, contender->place.key,
                       contender->place.create_revision, contender->place.create_revision, false);
}

/* ---- waiting for the predecessor
 * --------------------------------------------------------------------------- */

static void looked(el_commit *commit, const el_commit_end *end);

static void write_look(el_commit *commit, el_parts *room)
{
    const el_contender *contender = EL_CONTAINER(commit, el_contender, commit);
    commit->txn = el_place_look(&contender->place, room, contender->is_view_pinned, contender->is_view_whole);
}

static void look(el_contender *contender, int pinned, bool whole_folder)
{
    contender->is_view_pinned = pinned != EL_ANY_ENDPOINT;
    contender->is_view_whole = whole_folder;
    contender->commit.kind = EL_COMMIT_LOOK;
    contender->commit.pinned = pinned;
    contender->commit.done = looked;
    contender->commit.write = write_look;
    el_commit_submit(contender->client, &contender->commit);
}

static void looked(el_commit *commit, const el_commit_end *end)
{
    el_contender *contender = EL_CONTAINER(commit, el_contender, commit);
    if (el_contender_must_go(contender)) return;
    if (!end->answer && !contender->is_view_pinned) {
        fail_by_answer(contender, &end->failure);
        return;
    }
    if (contender->is_view_pinned && (!end->answer || end->revision < contender->min_revision)) {
        /* The member is gone, or its store is older than the event: ask for the latest state instead. */
        look(contender, EL_ANY_ENDPOINT, false);
        return;
    }
    el_view view = el_place_read_look(&contender->place, end->revision, end->answer);
    act_on_view(contender, &view);
}

static void predecessor_gone(el_departure *departure, int64_t revision, unsigned endpoint)
{
    el_contender *contender = EL_CONTAINER(departure, el_contender, predecessor);
    el_contender_become(contender, EL_CONTENDER_CONFIRMING);
    contender->min_revision = revision;
    if (contender->min_revision < contender->place.create_revision)
        contender->min_revision = contender->place.create_revision;
    look(contender, (int)endpoint, false);
}

static void predecessor_failed(el_departure *departure, const el_failure *failure)
{
    fail_and_withdraw(EL_CONTAINER(departure, el_contender, predecessor), failure);
}

static void predecessor_settled(el_departure *departure)
{
    el_contender_free_if_gone(EL_CONTAINER(departure, el_contender, predecessor));
}

static const el_departure_calls predecessor_calls = {predecessor_gone, predecessor_failed,
                                                     predecessor_settled};

static void wait_for(el_contender *contender, const el_view *view)
{
    size_t key_room = contender->place.queue->folder.size + EL_ENTRY_MAX + 1;
    if (!contender->predecessor_key) contender->predecessor_key = el_alloc(key_room);
    if (!contender->predecessor_key) {
        el_failure failure;
        el_fail(&failure, ENOMEM, "out of memory for a wait");
        fail_and_withdraw(contender, &failure);
        return;
    }
    el_contender_become(contender, EL_CONTENDER_WAITING);
    memcpy(contender->predecessor_key, view->older_key.data, view->older_key.size);
    el_span key = {contender->predecessor_key, view->older_key.size};
    el_departure_start(&contender->predecessor, contender->client, key, view->older_create_revision,
                       view->revision, view->is_older_first);
}

/* The one place where it is decided that we hold, wait or are out. */
static void act_on_view(el_contender *contender, const el_view *view)
{
    el_failure failure;
    if (view->is_malformed || view->revision < contender->place.create_revision) {
        el_fail(&failure, ETCDLOCK_EPROTOCOL,
                "etcd's answer about lock %.*s cannot be right (revision %lld, our entry %lld)",
                (int)contender->place.queue->folder.size - 1, contender->place.queue->folder.data,
                (long long)view->revision, (long long)contender->place.create_revision);
        fail_and_withdraw(contender, &failure);
    } else if (!view->is_mine_there || view->mine_create_revision != contender->place.create_revision) {
        el_contender_entry_vanished(contender);
    } else if (view->is_unclear) {
        el_contender_become(contender, EL_CONTENDER_LOOKING);
        look(contender, EL_ANY_ENDPOINT, true);
    } else if (!view->has_older) {
        el_contender_hold(contender);
    } else if (contender->mode == EL_ENTER_TRY) {
        el_fail(&failure, EBUSY, "lock %.*s is held", (int)contender->place.queue->folder.size - 1,
                contender->place.queue->folder.data);
        fail_and_withdraw(contender, &failure);
    } else {
        wait_for(contender, view);
    }
}

/* ---- entering
 * ---------------------------------------------------------------------------------------------- */

/* Our name is taken by a key that is not ours: somebody wrote it by hand. */
static void take_other_slot(el_contender *contender)
{
    el_failure failure;
    bool may_rename = !contender->may_come_late && contender->renames++ < RENAMES_MAX;
    int error = may_rename ? el_contender_name(contender) : EAGAIN;
    if (error) {
        contender->is_entry_gone = !contender->may_come_late;
        el_fail(&failure, error, "no free place in the queue of lock %.*s",
                (int)contender->place.queue->folder.size - 1, contender->place.queue->folder.data);
        fail_and_withdraw(contender, &failure);
        return;
    }
    send_enter(contender);
}

static void try_refused(el_contender *contender, const el_view *view)
{
    el_failure failure;
    contender->is_entry_gone = !contender->may_come_late;
    contender->place.queue->was_held = true;
    el_fail(&failure, EBUSY, "lock %.*s is held or waited for, by %.*s",
            (int)contender->place.queue->folder.size - 1, contender->place.queue->folder.data,
            (int)view->older_key.size, view->older_key.data);
    fail_and_withdraw(contender, &failure);
}

static void entered(el_commit *commit, const el_commit_end *end)
{
    el_contender *contender = EL_CONTAINER(commit, el_contender, commit);
    if (commit->maybe_applied) contender->may_come_late = true;
    if (!end->answer) {
        /* Refused, and every attempt is accounted for: there is no entry. */
        if (!contender->may_come_late) contender->is_entry_gone = true;
        if (el_contender_must_go(contender)) return;
        if (end->failure.error == ETCDLOCK_ESESSION) {
            el_session_end(contender->session, ETCDLOCK_ESESSION, "etcd says that its lease is gone");
            return;
        }
        fail_by_answer(contender, &end->failure);
        return;
    }
    bool by_try = contender->mode == EL_ENTER_TRY && !contender->try_by_entering;
    el_view view = by_try ? el_place_read_try(&contender->place, end->revision, end->answer)
                          : el_place_read_enter(&contender->place, end->revision, end->answer);
    bool is_ours = view.is_mine_there && view.is_mine_ours;
    if (is_ours) contender->place.create_revision = view.mine_create_revision;
    if (!is_ours && !view.is_malformed && !contender->may_come_late) contender->is_entry_gone = true;
    if (el_contender_must_go(contender)) return;
    contender->is_entry_gone = false;
    if (is_ours || view.is_malformed) {
        if (is_ours)
            el_client_timer_set(contender->client, EL_LANE_IO, &contender->own_due,
                                el_now(contender->client) + own_after_ns);
        act_on_view(contender, &view);
    } else if (by_try && view.has_older) {
        try_refused(contender, &view);
    } else if (by_try) {
        contender->try_by_entering = true;
        send_enter(contender);
    } else {
        take_other_slot(contender);
    }
}

static void write_enter(el_commit *commit, el_parts *room)
{
    const el_contender *contender = EL_CONTAINER(commit, el_contender, commit);
    bool by_try = contender->mode == EL_ENTER_TRY && !contender->try_by_entering;
    commit->txn = by_try ? el_place_try(&contender->place, room) : el_place_enter(&contender->place, room);
}

static void send_enter(el_contender *contender)
{
    el_contender_become(contender, EL_CONTENDER_ENTERING);
    contender->commit.kind = EL_COMMIT_ENTER;
    contender->commit.pinned = EL_ANY_ENDPOINT;
    contender->commit.done = entered;
    contender->commit.folder = contender->place.queue->folder;
    contender->commit.write = write_enter;
    el_commit_submit(contender->client, &contender->commit);
}

/* ---- peeking: who polls a held lock is answered without a proposal to the cluster
 * ------------------------------------ */

static void peeked(el_commit *commit, const el_commit_end *end)
{
    el_contender *contender = EL_CONTAINER(commit, el_contender, commit);
    if (el_contender_must_go(contender)) return;
    if (!end->answer) {
        fail_by_answer(contender, &end->failure);
        return;
    }
    el_view view = {.has_older = false};
    if (!end->answer->succeeded) view = el_place_read_try(&contender->place, end->revision, end->answer);
    if (!view.is_mine_there && view.has_older) {
        try_refused(contender, &view);
        return;
    }
    contender->place.queue->was_held = false;
    contender->is_entry_gone = false;
    send_enter(contender);
}

static void write_peek(el_commit *commit, el_parts *room)
{
    commit->txn = el_place_peek(&EL_CONTAINER(commit, el_contender, commit)->place, room);
}

static void peek(el_contender *contender)
{
    el_contender_become(contender, EL_CONTENDER_PEEKING);
    contender->is_entry_gone = true; /* nothing is written yet */
    contender->commit.kind = EL_COMMIT_LOOK;
    contender->commit.pinned = EL_ANY_ENDPOINT;
    contender->commit.done = peeked;
    contender->commit.write = write_peek;
    el_commit_submit(contender->client, &contender->commit);
}

void el_contender_enter(el_contender *contender, el_enter_mode mode, int64_t deadline_ns)
{
    contender->mode = mode;
    contender->deadline.fire = deadline_passed;
    contender->own_due.fire = watch_own;
    contender->own.calls = &own_calls;
    contender->predecessor.calls = &predecessor_calls;
    if (deadline_ns != INT64_MAX)
        el_client_timer_set(contender->client, EL_LANE_IO, &contender->deadline, deadline_ns);
    if (mode == EL_ENTER_TRY && contender->place.queue->was_held) {
        peek(contender);
    } else {
        send_enter(contender);
    }
}

void el_contender_leave(el_contender *contender, int64_t deadline_ns)
{
    stop_guard(contender);
    el_client_timer_set(contender->client, EL_LANE_IO, &contender->deadline, deadline_ns);
    el_contender_begin_leave(contender);
}
