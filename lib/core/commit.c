#include "core/commit.h"

#include "core/client.h"

static void rpc_done(el_rpc *rpc, const el_rpc_end *end)
{
    el_commit *commit = EL_CONTAINER(rpc, el_commit, rpc);
    commit->is_under_way = false;
    commit->maybe_applied = rpc->maybe_applied;
    el_commit_end own = {.failure = end->failure, .outcome = end->outcome};
    if (end->answer) {
        own.revision = end->answer->revision;
        own.answer = &end->answer->txn;
    }
    commit->done(commit, &own);
}

void el_commit_submit(el_client *client, el_commit *commit)
{
    commit->is_under_way = true;
    commit->maybe_applied = false;
    commit->rpc = (el_rpc){
        .request = {.verb = EL_TXN, .txn = commit->txn},
        .is_write = commit->kind != EL_COMMIT_LOOK,
        .is_single = commit->pinned != EL_ANY_ENDPOINT,
        .pinned = commit->pinned,
        .deadline_ns = INT64_MAX, /* the owner stops it; each attempt is bounded */
        .done = rpc_done,
    };
    el_rpc_start(client, &commit->rpc);
}

void el_commit_stop(el_commit *commit)
{
    if (commit->is_under_way) el_rpc_stop(&commit->rpc);
}
