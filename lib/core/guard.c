#include "core/guard.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/contender_steps.h"

static const char suffix[] = "/guard";

static void begin_next(el_guard *guard);

/* ---- the transaction
 * ---------------------------------------------------------------------------------------------- */

static el_op put_record(const el_guard *guard, bool succeeded)
{
    el_op op = {.kind = EL_OP_PUT};
    op.put.key = guard->key;
    op.put.value = (el_span){guard->texts[succeeded], strlen(guard->texts[succeeded])};
    op.put.lease = guard->contender->place.lease;
    return op;
}

static void write_texts(el_guard *guard, int64_t number)
{
    for (int succeeded = 0; succeeded < 2; succeeded++)
        snprintf(guard->texts[succeeded], EL_GUARD_TEXT_MAX, "%" PRId64 " %" PRId64 " %s",
                 guard->contender->place.create_revision, number, succeeded ? "yes" : "no");
}

static el_txn_request make_txn(el_guard *guard)
{
    el_guard_call *call = guard->call;
    const el_place *place = &guard->contender->place;
    guard->compares[0] = (el_compare){.target = EL_TARGET_CREATE_REVISION,
                                      .relation = EL_EQUAL,
                                      .key = place->key,
                                      .number = place->create_revision};
    guard->compares[1] = (el_compare){
        .target = EL_TARGET_MOD_REVISION, .relation = EL_EQUAL, .key = guard->key, .number = guard->revision};
    guard->failure[0] = el_range_of(place->key, true);
    guard->failure[1] = el_range_of(guard->key, false);
    el_txn_request txn = {guard->compares, 2, call->success, call->n_success, guard->failure, 2};
    if (guard->is_plain) {
        txn.n_compares = txn.n_success = txn.n_failure = 1;
        txn.success = call->success + 1;
        return txn;
    }
    write_texts(guard, call->number);
    call->success[0] = put_record(guard, true);
    if (call->n_compares == 0) return txn;
    call->failure[0] = put_record(guard, false);
    guard->nested = (el_txn_request){call->compares,  call->n_compares, call->success,
                                     call->n_success, call->failure,    call->n_failure};
    guard->success = (el_op){.kind = EL_OP_TXN, .txn = &guard->nested};
    txn.success = &guard->success;
    txn.n_success = 1;
    return txn;
}

/* ---- what the answer says
 * ----------------------------------------------------------------------------------------- */

/* Only after the call has been taken out: the callback may free it. */
static void finish(el_guard *guard, el_guard_end *end)
{
    el_guard_call *call = guard->call;
    guard->call = NULL;
    call->done(call, end);
}

static void finish_failed(el_guard *guard, int error, const char *reason)
{
    el_guard_end end = {.revision = 0};
    bool is_read = guard->call->is_read;
    if (guard->call->maybe_applied) guard->is_unsettled = true;
    if (guard->call->maybe_applied && !is_read) {
        el_fail(&end.failure, ETCDLOCK_EUNKNOWN, "guarded write: it may have been applied or not: %s",
                reason);
    } else {
        if (is_read && error == ETCDLOCK_EUNKNOWN) error = ETCDLOCK_EUNREACHABLE;
        el_fail(&end.failure, error, "%s", reason);
    }
    finish(guard, &end);
}

static void finish_malformed(el_guard *guard)
{
    guard->call->maybe_applied = !guard->is_plain;
    finish_failed(guard, ETCDLOCK_EPROTOCOL, "etcd's answer has not the shape of the question");
}

static void finish_applied(el_guard *guard, bool succeeded, int64_t revision, const el_range_answer *range)
{
    el_guard_end end = {.succeeded = succeeded, .revision = revision, .range = range};
    finish(guard, &end);
}

static void take_success(el_guard *guard, const el_rpc_end *end)
{
    el_guard_call *call = guard->call;
    const el_txn_answer *txn = &end->answer->txn;
    size_t at = guard->is_plain ? 0 : 1; /* of the answer to a read, after that of the record */
    bool succeeded = true;
    const el_range_answer *range = NULL;
    if (!guard->is_plain) {
        guard->revision = end->answer->revision;
        guard->is_unsettled = false;
    }
    if (call->is_read) {
        if (txn->n_answers > at && txn->answers[at].kind == EL_OP_RANGE) range = &txn->answers[at].range;
    } else if (call->n_compares > 0) {
        const el_txn_answer *nested =
            txn->n_answers == 1 && txn->answers[0].kind == EL_OP_TXN ? txn->answers[0].txn : NULL;
        if (!nested) {
            finish_malformed(guard);
            return;
        }
        succeeded = nested->succeeded;
    }
    if (call->is_read && !range) {
        finish_malformed(guard);
        return;
    }
    finish_applied(guard, succeeded, end->answer->revision, range);
}

/* 1 or 0: this write was applied, by that branch; -1: the record is of another write, or there is none. */
static int branch_recorded(const el_guard *guard, const el_range_answer *record)
{
    if (record->n_kvs == 0) return -1;
    for (int succeeded = 0; succeeded < 2; succeeded++) {
        size_t size = strlen(guard->texts[succeeded]);
        el_span value = record->kvs[0].value;
        if (value.size == size && memcmp(value.data, guard->texts[succeeded], size) == 0) return succeeded;
    }
    return -1;
}

static void send(el_guard *guard);

/* Whichever write of this hold it tells of. */
static bool is_our_record(const el_guard *guard, const el_range_answer *record)
{
    if (!record || record->n_kvs == 0) return false;
    size_t size = strcspn(guard->texts[0], " ") + 1;
    el_span value = record->kvs[0].value;
    return value.size > size && memcmp(value.data, guard->texts[0], size) == 0;
}

static void entry_is_not_there(el_guard *guard, const el_range_answer *record)
{
    el_contender *contender = guard->contender;
    bool is_live = el_session_is_live(contender->session); /* may end all of this contender's calls */
    int error = is_live ? ETCDLOCK_EENTRY : contender->session->over_error;
    /* The record may outlive an entry that somebody has deleted. It does not tell of this write, and never
     * will. */
    if (is_our_record(guard, record)) guard->call->maybe_applied = false;
    finish_failed(guard, error, "guarded write: the lock is lost: its key is gone from etcd");
    if (contender->state == EL_CONTENDER_HELD) el_contender_entry_vanished(contender);
}

static void take_failure(el_guard *guard, const el_rpc_end *end)
{
    const el_range_answer *mine = el_range_at(&end->answer->txn, 0);
    const el_range_answer *record = guard->is_plain ? NULL : el_range_at(&end->answer->txn, 1);
    if (!mine || (!guard->is_plain && !record)) {
        finish_malformed(guard);
        return;
    }
    int branch = record ? branch_recorded(guard, record) : -1;
    int64_t record_revision = record && record->n_kvs > 0 ? record->kvs[0].mod_revision : 0;
    bool is_mine = mine->n_kvs > 0 && mine->kvs[0].create_revision == guard->contender->place.create_revision;
    if (branch >= 0) {
        guard->revision = record_revision;
        guard->is_unsettled = guard->call->maybe_applied = false;
    }
    if (branch >= 0 && !guard->call->is_read) {
        finish_applied(guard, branch == 1, record_revision, NULL);
    } else if (!is_mine) {
        entry_is_not_there(guard, record);
    } else if (guard->is_plain || (branch < 0 && record_revision == guard->revision)) {
        finish_malformed(guard); /* both compares hold */
    } else if (guard->stopped.error) {
        finish_failed(guard, guard->stopped.error, guard->stopped.text);
    } else {
        /* Moved by an earlier write; or this is a read, which was carried out and its answer lost. */
        guard->revision = record_revision;
        guard->is_plain = branch >= 0;
        send(guard);
    }
}

static void take_no_answer(el_guard *guard, const el_rpc_end *end)
{
    el_session *session = guard->contender->session;
    bool is_lease_gone = end->failure.error == ETCDLOCK_ESESSION;
    if (guard->stopped.error) {
        finish_failed(guard, guard->stopped.error, guard->stopped.text);
    } else {
        finish_failed(guard, end->failure.error, end->failure.text);
    }
    if (is_lease_gone) el_session_end(session, ETCDLOCK_ESESSION, "etcd says that its lease is gone");
}

static void answered(el_rpc *rpc, const el_rpc_end *end)
{
    el_guard *guard = EL_CONTAINER(rpc, el_guard, rpc);
    el_contender *contender = guard->contender;
    if (rpc->maybe_applied && !guard->is_plain) guard->call->maybe_applied = true;
    guard->is_answering = true; /* the end of the session, too, leaves it in place until all is said */
    if (!end->answer) {
        take_no_answer(guard, end);
    } else if (end->answer->txn.succeeded) {
        take_success(guard, end);
    } else {
        take_failure(guard, end);
    }
    guard->is_answering = false;
    if (!guard->call) begin_next(guard);
    el_contender_free_if_gone(contender);
}

/* ---- sending
 * ------------------------------------------------------------------------------------------------------ */

static void send(el_guard *guard)
{
    guard->rpc = (el_rpc){
        .request = {.verb = EL_TXN, .txn = make_txn(guard)},
        .is_write = !guard->is_plain,
        .pinned = EL_ANY_ENDPOINT,
        .deadline_ns = guard->call->deadline_ns,
        .done = answered,
    };
    el_rpc_start(guard->contender->client, &guard->rpc);
}

static void begin_next(el_guard *guard)
{
    while (!guard->call) {
        el_list *link = el_list_take(&guard->waiting);
        if (!link) return;
        guard->call = EL_CONTAINER(link, el_guard_call, link);
        if (el_now(guard->contender->client) >= guard->call->deadline_ns)
            finish_failed(guard, ETCDLOCK_EUNREACHABLE,
                          "guarded write: the calls before it took all of its time");
    }
    guard->is_plain = guard->call->is_read && !guard->is_unsettled;
    if (!guard->is_plain) guard->call->number = ++guard->number;
    send(guard);
}

void el_guard_submit(el_guard *guard, el_guard_call *call)
{
    assert(!guard->stopped.error);
    call->maybe_applied = false;
    el_list_append(&guard->waiting, &call->link);
    if (!guard->call) begin_next(guard);
}

void el_guard_stop(el_guard *guard, const el_failure *failure)
{
    if (!guard->stopped.error) guard->stopped = *failure;
    for (el_list *link = el_list_take(&guard->waiting); link; link = el_list_take(&guard->waiting)) {
        el_guard_call *call = EL_CONTAINER(link, el_guard_call, link);
        el_guard_end end = {.failure = *failure};
        call->done(call, &end);
    }
    /* Of what is under way etcd will say so too, and with that, that it has not been applied. */
    if (failure->error != ETCDLOCK_EENTRY) el_rpc_stop(&guard->rpc);
}

bool el_guard_is_idle(const el_guard *guard)
{
    return !guard->call && !guard->is_answering;
}

el_guard *el_guard_of(el_contender *contender)
{
    if (contender->guard) return contender->guard;
    el_span entry = contender->place.key;
    size_t size = entry.size + sizeof(suffix) - 1;
    el_guard *guard = el_alloc(sizeof(*guard) + size + 1);
    if (!guard) return NULL;
    memcpy(guard->bytes, entry.data, entry.size);
    memcpy(guard->bytes + entry.size, suffix, sizeof(suffix));
    guard->key = (el_span){guard->bytes, size};
    guard->contender = contender;
    el_list_init(&guard->waiting);
    contender->guard = guard;
    return guard;
}

el_txn_request el_guard_sweep(el_guard *guard, int64_t revision)
{
    /* A record that a later hold under the same name writes is younger, should this arrive late. */
    guard->sweep = (el_compare){
        .target = EL_TARGET_CREATE_REVISION, .relation = EL_LESS, .key = guard->key, .number = revision + 1};
    guard->leave[0] = (el_op){.kind = EL_OP_DELETE, .del = {.key = guard->key}};
    el_txn_request txn = {&guard->sweep, 1, guard->leave, 1, NULL, 0};
    return txn;
}
