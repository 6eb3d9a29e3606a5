#include "core/commit.h"

#include <errno.h>

#include "core/alloc.h"
#include "core/client.h"
#include "core/key.h"
#include "core/log.h"

/* etcd's default limits are 128 operations along a path and 1.5 MiB; keys and values count double here. */
enum { GROUP_BYTES_MAX = 512 * 1024 };

static void send_group(el_group *group);
static void drop_due(el_timer *timer);

/* ---- one that travels alone
 * -------------------------------------------------------------------------------- */

/* Made for the journey: of ten thousand contenders hardly one is looking. */
typedef struct el_lone {
    el_rpc rpc;
    el_commit *commit;
    el_parts parts;
} el_lone;

static void alone_done(el_rpc *rpc, const el_rpc_end *end)
{
    el_lone *lone = EL_CONTAINER(rpc, el_lone, rpc);
    el_commit *commit = lone->commit;
    commit->is_under_way = false;
    if (rpc->maybe_applied) commit->maybe_applied = true;
    commit->lone = NULL;
    el_free(lone);
    el_commit_end own = {.failure = end->failure, .outcome = end->outcome};
    if (end->answer) {
        own.revision = end->answer->revision;
        own.answer = &end->answer->txn;
    }
    commit->done(commit, &own);
}

/* To be told in a moment: `done` is never called from inside a submit. */
static void drop_soon(el_group *group)
{
    el_client_timer_set(group->client, EL_LANE_IO, &group->stopped, el_now(group->client));
}

static void send_alone(el_client *client, el_commit *commit)
{
    commit->lone = el_alloc(sizeof(*commit->lone));
    if (!commit->lone) {
        commit->is_out_of_memory = commit->is_stopped = true;
        el_list_append(&client->group.leaves, &commit->link);
        drop_soon(&client->group);
        return;
    }
    commit->is_sent = true;
    commit->lone->commit = commit;
    if (commit->write) commit->write(commit, &commit->lone->parts);
    commit->lone->rpc = (el_rpc){
        .request = {.verb = EL_TXN, .txn = commit->txn},
        .is_write = commit->kind != EL_COMMIT_LOOK,
        .is_single = commit->pinned != EL_ANY_ENDPOINT,
        .pinned = commit->pinned,
        .deadline_ns = INT64_MAX, /* the owner stops it; each attempt is bounded */
        .done = alone_done,
    };
    el_rpc_start(client, &commit->lone->rpc);
}

/* ---- the group
 * ---------------------------------------------------------------------------------------------- */

static void finish(el_commit *commit, const el_commit_end *end)
{
    commit->is_under_way = false;
    commit->done(commit, end);
}

static void finish_cancelled(el_commit *commit)
{
    el_commit_end end = {.outcome = EL_OUTCOME_NOT_APPLIED};
    if (commit->is_out_of_memory)
        el_fail(&end.failure, ENOMEM, "transaction: out of memory");
    else
        el_fail(&end.failure, ECANCELED, "transaction: cancelled before it was sent");
    finish(commit, &end);
}

/* Two entries of one lock at one revision would tie. */
static bool shares_lock(const el_group *group, const el_commit *commit)
{
    for (unsigned i = 0; i < group->n_members; i++) {
        if (group->members[i]->kind == EL_COMMIT_ENTER &&
            el_span_equal(group->members[i]->folder, commit->folder))
            return true;
    }
    return false;
}

static size_t bytes_of(const el_commit *commit)
{
    size_t size = 2 * commit->folder.size + 256;
    for (size_t i = 0; i < commit->txn.n_success; i++) {
        const el_op *op = &commit->txn.success[i];
        if (op->kind == EL_OP_PUT) size += op->put.key.size + op->put.value.size;
    }
    return size;
}

/* Moves from a gathering list to the group what may go together. One that has to go alone goes first and
 * takes the whole group for itself. */
static void fill(el_group *group, el_list *gathering, size_t *bytes)
{
    for (el_list *link = gathering->next, *next; link != gathering; link = next) {
        next = link->next;
        el_commit *commit = EL_CONTAINER(link, el_commit, link);
        if (commit->is_stopped) continue; /* about to be dropped */
        if (group->n_members == group->limit) return;
        if (group->n_members > 0 && group->members[0]->is_alone) return;
        if (commit->is_alone && group->n_members > 0) continue;
        if (commit->kind == EL_COMMIT_ENTER && shares_lock(group, commit)) continue;
        if (commit->write) commit->write(commit, &group->parts[group->n_members]);
        if (*bytes + bytes_of(commit) > GROUP_BYTES_MAX) return;
        el_list_remove(link);
        *bytes += bytes_of(commit);
        commit->is_sent = true;
        group->members[group->n_members++] = commit;
    }
}

static void hand_out(el_commit *commit, const el_rpc *rpc, const el_rpc_end *end, const el_txn_answer *answer)
{
    el_commit_end own = {.failure = end->failure, .outcome = end->outcome};
    if (end->answer) {
        own.revision = end->answer->revision; /* nested answers carry none of their own */
        own.answer = answer;
        if (!answer) {
            el_fail(&own.failure, ETCDLOCK_EPROTOCOL, "transaction: etcd's answer to a group lacks a part");
            own.outcome = EL_OUTCOME_MAYBE;
            commit->maybe_applied = true;
        }
    }
    if (rpc->maybe_applied) commit->maybe_applied = true;
    finish(commit, &own);
}

static const el_txn_answer *part_of(const el_txn_answer *outer, unsigned i)
{
    if (i >= outer->n_answers || outer->answers[i].kind != EL_OP_TXN) return NULL;
    return outer->answers[i].txn;
}

/* Nothing of the refused group has happened: whose fault it was comes out when each goes alone. */
static void split(el_group *group, bool too_many)
{
    if (too_many && group->limit > 1) {
        group->limit = group->n_members / 2 > 1 ? group->n_members / 2 : 1;
        el_log(group->client, ETCDLOCK_LOG_INFO, "this etcd takes smaller groups: at most %u from now on",
               group->limit);
    }
    for (unsigned i = group->n_members; i-- > 0;) {
        el_commit *commit = group->members[i];
        commit->is_alone = !too_many;
        commit->is_sent = false;
        if (group->rpc.maybe_applied) commit->maybe_applied = true;
        el_list *gathering = commit->kind == EL_COMMIT_LEAVE ? &group->leaves : &group->enters;
        el_list_append(gathering->next,
                       &commit->link); /* keeps the old order, before those that came later */
    }
    group->n_members = 0;
}

static void group_done(el_rpc *rpc, const el_rpc_end *end)
{
    el_group *group = EL_CONTAINER(rpc, el_group, rpc);
    unsigned n_members = group->n_members;
    bool is_nested = n_members > 1;
    el_commit *members[EL_GROUP_MAX];
    if (is_nested && end->outcome == EL_OUTCOME_REFUSED) {
        split(group, end->failure.error == E2BIG);
        drop_due(&group->stopped); /* those that were stopped in flight have come to gather again */
    } else {
        for (unsigned i = 0; i < n_members; i++)
            members[i] = group->members[i];
        group->n_members = 0;
        /* What the callbacks submit gathers until all of them have been called. */
        for (unsigned i = 0; i < n_members; i++) {
            const el_txn_answer *answer = end->answer ? &end->answer->txn : NULL;
            if (answer && is_nested) answer = part_of(answer, i);
            hand_out(members[i], rpc, end, answer);
        }
    }
    group->is_in_flight = false;
    if (group->client->state == EL_CLIENT_CLOSED) {
        drop_due(&group->stopped);
    } else {
        send_group(group);
    }
}

static void send_group(el_group *group)
{
    size_t bytes = 0;
    group->n_members = 0;
    fill(group, &group->leaves, &bytes);
    fill(group, &group->enters, &bytes);
    if (group->n_members == 0) return;
    group->is_in_flight = true;
    group->rpc = (el_rpc){
        .request = {.verb = EL_TXN},
        .is_write = true,
        .pinned = EL_ANY_ENDPOINT,
        .deadline_ns = INT64_MAX,
        .done = group_done,
    };
    if (group->n_members == 1) {
        group->rpc.request.txn = group->members[0]->txn;
    } else {
        for (unsigned i = 0; i < group->n_members; i++) {
            group->txns[i] = group->members[i]->txn;
            group->ops[i] = (el_op){.kind = EL_OP_TXN, .txn = &group->txns[i]};
        }
        el_txn_request outer = {.success = group->ops, .n_success = group->n_members};
        group->rpc.request.txn = outer;
    }
    el_rpc_start(group->client, &group->rpc);
}

/* ---- stopping
 * ------------------------------------------------------------------------------------------------ */

static void drop_stopped(el_group *group, el_list *gathering)
{
    bool all = group->client->state == EL_CLIENT_CLOSED;
    el_list dropped;
    el_list_init(&dropped);
    for (el_list *link = gathering->next, *next; link != gathering; link = next) {
        next = link->next;
        if (!all && !EL_CONTAINER(link, el_commit, link)->is_stopped) continue;
        el_list_remove(link);
        el_list_append(&dropped, link);
    }
    for (el_list *link = el_list_take(&dropped); link; link = el_list_take(&dropped))
        finish_cancelled(EL_CONTAINER(link, el_commit, link));
}

static void drop_due(el_timer *timer)
{
    el_group *group = EL_CONTAINER(timer, el_group, stopped);
    drop_stopped(group, &group->leaves);
    drop_stopped(group, &group->enters);
}

static bool nobody_needs(const el_group *group)
{
    for (unsigned i = 0; i < group->n_members; i++) {
        if (!group->members[i]->is_stopped) return false;
    }
    return true;
}

void el_commit_stop(el_commit *commit)
{
    if (!commit->is_under_way || commit->is_stopped) return;
    commit->is_stopped = true;
    if (commit->lone) {
        el_rpc_stop(&commit->lone->rpc);
        return;
    }
    el_group *group = commit->group;
    if (!commit->is_sent) {
        drop_soon(group);
    } else if (nobody_needs(group)) {
        el_rpc_stop(&group->rpc);
    }
}

/* ---- beginning
 * ------------------------------------------------------------------------------------------------- */

void el_group_init(el_client *client)
{
    el_group *group = &client->group;
    group->client = client;
    group->limit = EL_GROUP_MAX;
    group->stopped.fire = drop_due;
    el_list_init(&group->leaves);
    el_list_init(&group->enters);
}

void el_group_limit(el_group *group, unsigned limit)
{
    group->is_off = limit == 1;
    if (limit > 0 && limit < EL_GROUP_MAX) group->limit = limit;
}

void el_commit_submit(el_client *client, el_commit *commit)
{
    el_group *group = &client->group;
    commit->group = group;
    commit->is_under_way = true;
    commit->maybe_applied = commit->is_stopped = commit->is_alone = commit->is_sent = false;
    commit->is_out_of_memory = false;
    if (commit->kind == EL_COMMIT_LOOK || group->is_off) {
        send_alone(client, commit);
        return;
    }
    el_list_append(commit->kind == EL_COMMIT_LEAVE ? &group->leaves : &group->enters, &commit->link);
    if (client->state == EL_CLIENT_CLOSED) {
        drop_soon(group);
    } else if (!group->is_in_flight) {
        send_group(group);
    }
}

bool el_commit_may_have_happened(const el_commit *commit)
{
    if (!commit->is_under_way || commit->kind == EL_COMMIT_LOOK) return false;
    const el_rpc *rpc = commit->lone ? &commit->lone->rpc : &commit->group->rpc;
    return commit->maybe_applied || (commit->is_sent && (rpc->maybe_applied || rpc->is_calling));
}
