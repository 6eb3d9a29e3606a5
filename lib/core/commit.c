#include "core/commit.h"

#include <assert.h>
#include <errno.h>

#include "core/alloc.h"
#include "core/client.h"
#include "core/key.h"
#include "core/log.h"

/* etcd's default limits are 128 operations along a path and 1.5 MiB; keys and values count double here. */
enum { GROUP_BYTES_MAX = 512 * 1024 };

static void send_what_may_go(el_gathering *gathering);
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

static el_list *list_of(el_gathering *gathering, const el_commit *commit)
{
    if (commit->is_alone) return &gathering->alone;
    return commit->kind == EL_COMMIT_LEAVE ? &gathering->leaves : &gathering->enters;
}

static void gather(el_gathering *gathering, el_commit *commit)
{
    el_list_append(list_of(gathering, commit), &commit->link);
    gathering->n++;
}

static void leave_gathering(el_gathering *gathering, el_commit *commit)
{
    el_list_remove(&commit->link);
    gathering->n--;
}

/* To be told in a moment: `done` is never called from inside a submit. */
static void drop_soon(el_gathering *gathering)
{
    el_client_timer_set(gathering->client, EL_LANE_IO, &gathering->stopped, el_now(gathering->client));
}

static void send_alone(el_client *client, el_commit *commit)
{
    commit->lone = el_alloc(sizeof(*commit->lone));
    if (!commit->lone) {
        commit->is_out_of_memory = commit->is_stopped = true;
        gather(&client->gathering, commit);
        drop_soon(&client->gathering);
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

/* Moves from a list of those that gather to the group what may go together. */
static void fill(el_group *group, el_list *list, size_t *bytes)
{
    for (el_list *link = list->next, *next; link != list; link = next) {
        next = link->next;
        el_commit *commit = EL_CONTAINER(link, el_commit, link);
        if (commit->is_stopped) continue; /* about to be dropped */
        if (group->n_members == group->gathering->limit) return;
        if (commit->kind == EL_COMMIT_ENTER && shares_lock(group, commit)) continue;
        if (commit->write) commit->write(commit, &group->parts[group->n_members]);
        if (*bytes + bytes_of(commit) > GROUP_BYTES_MAX) return;
        leave_gathering(group->gathering, commit);
        *bytes += bytes_of(commit);
        commit->is_sent = true;
        commit->group = group;
        group->members[group->n_members++] = commit;
        if (commit->is_alone) return;
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
    el_gathering *gathering = group->gathering;
    if (too_many && gathering->limit >= group->n_members) {
        gathering->limit = group->n_members / 2 > 1 ? group->n_members / 2 : 1;
        el_log(gathering->client, ETCDLOCK_LOG_INFO, "this etcd takes smaller groups: at most %u from now on",
               gathering->limit);
    }
    for (unsigned i = group->n_members; i-- > 0;) {
        el_commit *commit = group->members[i];
        commit->is_alone = !too_many;
        commit->is_sent = false;
        commit->group = NULL;
        if (group->rpc.maybe_applied) commit->maybe_applied = true;
        /* Before those that came later, in the old order. */
        el_list_append(list_of(gathering, commit)->next, &commit->link);
        gathering->n++;
    }
    group->n_members = 0;
}

static void tell_members(el_group *group, const el_rpc_end *end)
{
    unsigned n_members = group->n_members;
    el_commit *members[EL_GROUP_MAX];
    for (unsigned i = 0; i < n_members; i++)
        members[i] = group->members[i];
    group->n_members = 0; /* who has been told may be gone */
    group->gathering->is_telling = true;
    for (unsigned i = 0; i < n_members; i++) {
        const el_txn_answer *answer = end->answer ? &end->answer->txn : NULL;
        if (answer && n_members > 1) answer = part_of(answer, i);
        hand_out(members[i], &group->rpc, end, answer);
    }
    group->gathering->is_telling = false;
}

static void group_done(el_rpc *rpc, const el_rpc_end *end)
{
    el_group *group = EL_CONTAINER(rpc, el_group, rpc);
    el_gathering *gathering = group->gathering;
    assert(group->is_in_flight && gathering->n_in_flight > 0);
    if (group->n_members > 1 && end->outcome == EL_OUTCOME_REFUSED) {
        split(group, end->failure.error == E2BIG);
        drop_due(&gathering->stopped); /* those that were stopped in flight have come to gather again */
    } else {
        tell_members(group, end);
    }
    group->is_in_flight = false;
    gathering->n_in_flight--;
    if (gathering->client->state == EL_CLIENT_CLOSED) {
        drop_due(&gathering->stopped);
    } else {
        send_what_may_go(gathering);
    }
}

/* Returns whether there was anything to send. */
static bool send_group(el_group *group)
{
    size_t bytes = 0;
    group->n_members = 0;
    fill(group, &group->gathering->alone, &bytes);
    if (group->n_members == 0) {
        fill(group, &group->gathering->leaves, &bytes);
        fill(group, &group->gathering->enters, &bytes);
    }
    if (group->n_members == 0) return false;
    group->is_in_flight = true;
    group->gathering->n_in_flight++;
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
    el_rpc_start(group->gathering->client, &group->rpc);
    return true;
}

/* Beside a group in flight goes another one, so that etcd is not idle while this side is busy with the
 * answers, but not before half of one has gathered: many small ones cost etcd more than that gains. */
static void send_what_may_go(el_gathering *gathering)
{
    for (int i = 0; i < EL_GROUPS && !gathering->is_telling; i++) {
        if (gathering->n_in_flight > 0 && gathering->n < gathering->limit / 2) return;
        if (!gathering->groups[i].is_in_flight && !send_group(&gathering->groups[i])) return;
    }
}

/* ---- stopping
 * ------------------------------------------------------------------------------------------------ */

static void drop_stopped(el_gathering *gathering, el_list *gathered)
{
    bool all = gathering->client->state == EL_CLIENT_CLOSED;
    el_list dropped;
    el_list_init(&dropped);
    for (el_list *link = gathered->next, *next; link != gathered; link = next) {
        next = link->next;
        el_commit *commit = EL_CONTAINER(link, el_commit, link);
        if (!all && !commit->is_stopped) continue;
        leave_gathering(gathering, commit);
        el_list_append(&dropped, link);
    }
    for (el_list *link = el_list_take(&dropped); link; link = el_list_take(&dropped))
        finish_cancelled(EL_CONTAINER(link, el_commit, link));
}

static void drop_due(el_timer *timer)
{
    el_gathering *gathering = EL_CONTAINER(timer, el_gathering, stopped);
    drop_stopped(gathering, &gathering->leaves);
    drop_stopped(gathering, &gathering->enters);
    drop_stopped(gathering, &gathering->alone);
}

static bool nobody_needs(const el_group *group)
{
    for (unsigned i = 0; i < group->n_members; i++) {
        if (!group->members[i]->is_stopped) return false;
    }
    return true;
}

void el_commit_stop(el_client *client, el_commit *commit)
{
    if (!commit->is_under_way || commit->is_stopped) return;
    commit->is_stopped = true;
    if (commit->lone) {
        el_rpc_stop(&commit->lone->rpc);
    } else if (!commit->group) {
        drop_soon(&client->gathering);
    } else if (nobody_needs(commit->group)) {
        el_rpc_stop(&commit->group->rpc);
    }
}

/* ---- beginning
 * ------------------------------------------------------------------------------------------------- */

void el_gathering_init(el_client *client)
{
    el_gathering *gathering = &client->gathering;
    gathering->client = client;
    gathering->limit = EL_GROUP_MAX;
    gathering->stopped.fire = drop_due;
    el_list_init(&gathering->leaves);
    el_list_init(&gathering->enters);
    el_list_init(&gathering->alone);
    for (int i = 0; i < EL_GROUPS; i++)
        gathering->groups[i].gathering = gathering;
}

void el_gathering_limit(el_gathering *gathering, unsigned limit)
{
    gathering->is_off = limit == 1;
    if (limit > 0 && limit < EL_GROUP_MAX) gathering->limit = limit;
}

void el_commit_submit(el_client *client, el_commit *commit)
{
    el_gathering *gathering = &client->gathering;
    commit->group = NULL;
    commit->is_under_way = true;
    commit->maybe_applied = commit->is_stopped = commit->is_alone = commit->is_sent = false;
    commit->is_out_of_memory = false;
    if (commit->kind == EL_COMMIT_LOOK || gathering->is_off) {
        send_alone(client, commit);
        return;
    }
    gather(gathering, commit);
    if (client->state == EL_CLIENT_CLOSED) {
        drop_soon(gathering);
    } else {
        send_what_may_go(gathering);
    }
}

bool el_commit_may_have_happened(const el_commit *commit)
{
    if (!commit->is_under_way || commit->kind == EL_COMMIT_LOOK) return false;
    if (!commit->lone && !commit->group) return commit->maybe_applied;
    const el_rpc *rpc = commit->lone ? &commit->lone->rpc : &commit->group->rpc;
    return commit->maybe_applied || rpc->maybe_applied || rpc->is_calling;
}
