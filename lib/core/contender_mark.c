/* The contender's last steps before it holds, for a lock with a marker: it finds out whether the last holder
 * died, waits if there is a delay after a death, and writes itself into the marker. */
#include <errno.h>

#include "core/contender_steps.h"
#include "core/log.h"
#include "core/marker.h"

static void send_claim(el_contender *contender);

static void fail_and_withdraw(el_contender *contender, int error, const char *reason)
{
    el_failure failure;
    el_fail(&failure, error, "lock %.*s: %s", (int)contender->place.queue->folder.size - 1,
            contender->place.queue->folder.data, reason);
    el_contender_fail(contender, &failure);
    el_contender_withdraw(contender);
}

/* ---- a death
 * ----------------------------------------------------------------------------------------------------- */

static void delay_over(el_timer *timer)
{
    el_marker *marker = EL_CONTAINER(timer, el_marker, delay);
    send_claim(marker->contender);
}

/* When the marker was first seen as it is counts for all that this session does with the lock: who only tries
 * would never come to hold otherwise. */
static int64_t end_of_delay_ns(el_contender *contender)
{
    el_marker *marker = contender->marker;
    el_queue *queue = contender->place.queue;
    if (queue->death_revision != marker->seen_revision) {
        queue->death_revision = marker->seen_revision;
        queue->death_seen_ns = el_now(contender->client);
    }
    return queue->death_seen_ns + marker->delay_ns;
}

static void found_death(el_contender *contender)
{
    el_marker *marker = contender->marker;
    int64_t due_ns = end_of_delay_ns(contender);
    el_log(contender->client, ETCDLOCK_LOG_WARNING, "lock %.*s: its last holder died",
           (int)contender->place.queue->folder.size - 1, contender->place.queue->folder.data);
    if (marker->delay_ns == 0 || due_ns <= el_now(contender->client)) {
        send_claim(contender);
    } else if (contender->mode == EL_ENTER_TRY) {
        fail_and_withdraw(contender, EBUSY, "its last holder died, and the lock delay is not over");
    } else {
        el_contender_become(contender, EL_CONTENDER_DELAYED);
        marker->delay.fire = delay_over;
        el_client_timer_set(contender->client, EL_LANE_IO, &marker->delay, due_ns);
    }
}

/* The marker is not as it was seen last; record NULL: there is none. */
static void found_marker(el_contender *contender, const el_key_value *record)
{
    el_marker *marker = contender->marker;
    el_marker_view view = {.is_death = false};
    marker->seen_revision = record ? record->mod_revision : 0;
    if (record) view = el_marker_read(&contender->place, record->value);
    if (record && marker->is_robust && !el_marker_remember(marker, view.dead)) {
        fail_and_withdraw(contender, ENOMEM, "out of memory");
    } else if (view.is_death) {
        found_death(contender);
    } else {
        send_claim(contender);
    }
}

/* ---- the claim
 * --------------------------------------------------------------------------------------------------- */

static void claim_answered(el_contender *contender, const el_txn_answer *answer)
{
    el_marker *marker = contender->marker;
    const el_range_answer *mine = answer->succeeded ? NULL : el_range_at(answer, 0);
    const el_range_answer *record = answer->succeeded ? NULL : el_range_at(answer, 1);
    const el_key_value *kv = record && record->n_kvs > 0 ? &record->kvs[0] : NULL;
    bool is_gone =
        mine && (mine->n_kvs == 0 || mine->kvs[0].create_revision != contender->place.create_revision);
    /* An earlier attempt of ours may have done it. For an orphan, too, this decides what it leaves behind. */
    marker->is_ours = answer->succeeded || (kv && el_marker_read(&contender->place, kv->value).is_mine);
    if (marker->is_ours) marker->is_inconsistent = marker->dead != NULL;
    if (el_contender_must_go(contender)) return;
    bool is_unchanged = (kv ? kv->mod_revision : 0) == marker->seen_revision;
    if (!answer->succeeded && (!mine || !record || (is_unchanged && !is_gone))) {
        fail_and_withdraw(contender, ETCDLOCK_EPROTOCOL, "etcd's answer has not the shape of the question");
    } else if (is_gone) {
        el_contender_entry_vanished(contender);
    } else if (marker->is_ours) {
        el_contender_hold(contender);
    } else {
        found_marker(contender, kv);
    }
}

/* Somebody who grants permissions thinks of the lock's folder first. */
static void claim_refused(el_contender *contender, const el_failure *refusal)
{
    el_failure failure = *refusal;
    if (refusal->error == EACCES)
        el_fail(&failure, EACCES, "lock %.*s: its key %s: %s", (int)contender->place.queue->folder.size - 1,
                contender->place.queue->folder.data, contender->marker->bytes, refusal->text);
    el_contender_fail(contender, &failure);
    el_contender_withdraw(contender);
}

static void claimed(el_commit *commit, const el_commit_end *end)
{
    el_contender *contender = EL_CONTAINER(commit, el_contender, commit);
    if (end->answer) {
        claim_answered(contender, end->answer);
    } else if (!el_contender_must_go(contender)) {
        if (end->failure.error == ETCDLOCK_ESESSION) {
            el_session_end(contender->session, ETCDLOCK_ESESSION, "etcd says that its lease is gone");
            return;
        }
        claim_refused(contender, &end->failure);
    }
}

static void send_claim(el_contender *contender)
{
    el_contender_become(contender, EL_CONTENDER_MARKING);
    contender->commit.kind = EL_COMMIT_MARK;
    contender->commit.pinned = EL_ANY_ENDPOINT;
    contender->commit.done = claimed;
    contender->commit.write = NULL;
    contender->commit.folder = contender->place.queue->folder;
    if (!el_marker_claim(contender->marker, &contender->place, &contender->commit.txn)) {
        fail_and_withdraw(contender, ENOMEM, "out of memory");
        return;
    }
    el_commit_submit(contender->client, &contender->commit);
}

void el_contender_mark(el_contender *contender)
{
    contender->marker->contender = contender;
    send_claim(contender);
}
