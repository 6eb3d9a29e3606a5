#include <stdlib.h>
#include <string.h>

#include "support/sim_client.h"

#define REQUEST_TIMEOUT_NS (7 * SIM_S) /* 5 s and two election timeouts */

static sim_member *member_of(const sim_op *op)
{
    return &op->sim->members[op->endpoint];
}

static void add(sim_ops *ops, sim_op *op)
{
    ops->items = sim_grow(ops->items, &ops->capacity, ops->n + 1, sizeof(sim_op *));
    ops->items[ops->n++] = op;
}

static void take_out(sim_ops *ops, const sim_op *op)
{
    size_t at = 0;
    while (ops->items[at] != op)
        at++;
    ops->n--;
    memmove(ops->items + at, ops->items + at + 1, (ops->n - at) * sizeof(sim_op *));
}

static void refuse(sim_op *op, el_code code, const char *message)
{
    op->verdict = (sim_verdict){code, message};
    sim_net_answer(op);
}

/* ---- answering from the member's own state --------------------------------------------------------------
 */

static bool is_write(const el_request *request)
{
    switch (request->verb) {
    case EL_TXN:
        return !sim_txn_reads_only(&request->txn);
    case EL_LEASE_GRANT:
    case EL_LEASE_REVOKE:
        return true;
    case EL_RANGE:
    case EL_LEASE_KEEPALIVE:
    case EL_LEASE_TIME_TO_LIVE:
    case EL_AUTHENTICATE:
    case EL_STATUS:
        break;
    }
    return false;
}

static void answer_read(sim_op *op)
{
    sim *s = op->sim;
    int64_t revision = sim_member_revision(member_of(op));
    op->answer.revision = revision;
    if (op->request->verb == EL_TXN)
        sim_txn_read(&s->store, &op->request->txn, revision, &op->arena, &op->answer.txn);
    else
        sim_store_range(&s->store, &op->request->range, revision, &op->arena, &op->answer.range);
    sim_net_answer(op);
}

static void answer_status(sim_op *op)
{
    const sim_member *m = member_of(op);
    op->answer.revision = sim_member_revision(m);
    op->answer.status.member_id = m->id + 1;
    op->answer.status.leader_id = m->knows_leader ? (uint64_t)op->sim->leader + 1 : 0;
    op->answer.status.is_learner = m->learner;
    op->answer.status.db_size = 16384;
    op->answer.status.version = sim_text("3.4.23");
    sim_net_answer(op);
}

static void answer_authenticate(sim_op *op)
{
    op->answer.revision = sim_member_revision(member_of(op));
    sim_auth_authenticate(op->sim, op);
    sim_net_answer(op);
}

/* The member has applied what the answer depends on. */
static void answer(sim_op *op)
{
    if (!is_write(op->request)) {
        answer_read(op);
        return;
    }
    op->answer.revision = op->sim->log[op->wait_index];
    sim_net_answer(op);
}

void sim_serve_applied(sim_member *m)
{
    sim_ops waiting = m->reading;
    m->reading = (sim_ops){0};
    for (size_t i = 0; i < waiting.n; i++) {
        if (waiting.items[i]->wait_index <= m->applied)
            answer(waiting.items[i]);
        else
            add(&m->reading, waiting.items[i]);
    }
    free(waiting.items);
}

/* ---- by way of the leader --------------------------------------------------------------------------------
 */

static void go_to_leader(void *owner);

/* Nobody hears of a ghost's answer; it only has its effect. */
static void leave_ghost(sim_op *op)
{
    sim_op *ghost = sim_op_new(op->client, op->endpoint, op->request);
    ghost->outlives = true;
    add(&member_of(op)->leaderless, ghost);
}

static void leader_awaited_in_vain(void *owner)
{
    sim_op *op = owner;
    take_out(&member_of(op)->leaderless, op);
    if (op->outlives) leave_ghost(op);
    if (op->request->verb == EL_LEASE_KEEPALIVE || op->request->verb == EL_LEASE_TIME_TO_LIVE)
        refuse(op, EL_UNAVAILABLE, "etcdserver: no leader");
    else if (op->lost || op->outlives || !is_write(op->request))
        refuse(op, EL_UNAVAILABLE, "etcdserver: request timed out");
    else
        refuse(op, EL_UNKNOWN, "context deadline exceeded");
}

/* A proposal made while there is no leader waits in the member; one that went to a leader which is gone is
 * lost, unless that leader had passed it on, which nobody can know before the members meet again. */
static void wait_for_leader(sim_op *op)
{
    sim *s = op->sim;
    if (is_write(op->request)) {
        int64_t fate = sim_between(s, 0, 3);
        op->lost = fate == 0;
        op->outlives = fate == 1;
    }
    add(&member_of(op)->leaderless, op);
    op->event.run = leader_awaited_in_vain;
    op->event.owner = op;
    sim_schedule(s, &op->event, sim_now(s) + REQUEST_TIMEOUT_NS);
}

void sim_serve_resumed(sim_member *m)
{
    sim_ops waiting = m->leaderless;
    m->leaderless = (sim_ops){0};
    for (size_t i = 0; i < waiting.n; i++) {
        sim_op *op = waiting.items[i];
        if (op->lost) {
            add(&m->leaderless, op);
            continue;
        }
        op->event.run = go_to_leader;
        op->event.owner = op;
        sim_schedule(m->sim, &op->event, sim_now(m->sim) + sim_latency(m->sim));
    }
    free(waiting.items);
}

static void at_leader(sim_op *op)
{
    sim *s = op->sim;
    sim_member *m = member_of(op);
    el_verb verb = op->request->verb;
    if (verb == EL_LEASE_KEEPALIVE || verb == EL_LEASE_TIME_TO_LIVE) {
        /* etcd makes the header before it renews, so that its revision is none of after the renewal. */
        op->answer.revision = sim_member_revision(m);
        if (verb == EL_LEASE_KEEPALIVE)
            sim_lease_renew(s, op->request->lease.id, &op->answer);
        else
            sim_lease_look(s, op->request->lease.id, &op->answer);
        sim_net_answer(op);
        return;
    }
    if (is_write(op->request))
        sim_apply_write(s, op);
    else
        op->wait_index = (int64_t)s->log_end - 1;
    if (m->applied >= op->wait_index)
        answer(op);
    else
        add(&m->reading, op);
}

static void go_to_leader(void *owner)
{
    sim_op *op = owner;
    sim_member *m = member_of(op);
    if (m->dead) {
        /* It died with the request on the way to the leader: carried out or not, nobody answers. */
        if (is_write(op->request) && sim_leader_works(op->sim) && sim_between(op->sim, 0, 1))
            sim_apply_write(op->sim, op);
        sim_op_free(op);
    } else if (m->paused) {
        add(&m->stalled, op);
    } else if (!sim_leader_works(op->sim) || !sim_member_healthy(m)) {
        wait_for_leader(op);
    } else {
        at_leader(op);
    }
}

/* ---- arrival ---------------------------------------------------------------------------------------------
 */

static bool learner_serves(const el_request *request)
{
    return request->verb == EL_STATUS || (request->verb == EL_RANGE && request->range.serializable);
}

static sim_verdict admit(const sim_op *op)
{
    const sim_member *m = member_of(op);
    const el_request *request = op->request;
    if (m->learner && !learner_serves(request))
        return (sim_verdict){EL_UNAVAILABLE, "etcdserver: rpc not supported for learner"};
    if (!m->knows_leader) return (sim_verdict){EL_UNAVAILABLE, "etcdserver: no leader"};
    sim_verdict verdict = sim_auth_admit(op->sim, request, op->token);
    if (verdict.code) return verdict;
    if (request->verb == EL_TXN) return sim_txn_check(&request->txn, op->sim->options.max_txn_ops);
    if (request->verb == EL_RANGE && request->range.key.size == 0)
        return (sim_verdict){EL_INVALID_ARGUMENT, "etcdserver: key is not provided"};
    return (sim_verdict){EL_OK, ""};
}

void sim_serve(sim_op *op)
{
    sim *s = op->sim;
    sim_member *m = member_of(op);
    const el_request *request = op->request;
    if (m->dead) {
        sim_op_free(op);
        return;
    }
    if (m->paused) {
        add(&m->stalled, op);
        return;
    }
    sim_verdict verdict = admit(op);
    if (verdict.code) {
        refuse(op, verdict.code, verdict.message);
    } else if (request->verb == EL_STATUS) {
        answer_status(op);
    } else if (request->verb == EL_AUTHENTICATE) {
        answer_authenticate(op);
    } else if ((request->verb == EL_RANGE && request->range.serializable) ||
               (request->verb == EL_TXN && sim_txn_serializable(&request->txn))) {
        answer_read(op);
    } else {
        op->event.run = go_to_leader;
        op->event.owner = op;
        bool here = s->leader == (int)m->id;
        sim_schedule(s, &op->event, sim_now(s) + (here ? 0 : sim_latency(s)));
    }
}

void sim_serve_stalled(sim_member *m)
{
    sim_ops waiting = m->stalled;
    m->stalled = (sim_ops){0};
    for (size_t i = 0; i < waiting.n; i++)
        sim_serve(waiting.items[i]);
    free(waiting.items);
}

static void drop_all(sim_ops *ops)
{
    for (size_t i = 0; i < ops->n; i++)
        sim_op_free(ops->items[i]);
    free(ops->items);
    *ops = (sim_ops){0};
}

void sim_serve_drop(sim_member *m)
{
    drop_all(&m->stalled);
    drop_all(&m->leaderless);
    drop_all(&m->reading);
}
