#include "support/sim_cluster.h"

int64_t sim_member_revision(const sim_member *m)
{
    return m->sim->log[m->applied];
}

static sim_verdict carry_out(sim *s, sim_op *op)
{
    static const sim_verdict no_space = {EL_RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"};
    const el_request *request = op->request;
    switch (request->verb) {
    case EL_TXN:
        if (s->full && sim_txn_grows(&request->txn)) return no_space;
        return sim_txn_apply(&s->store, &request->txn, sim_lease_exists, s, &op->arena, &op->answer.txn);
    case EL_LEASE_GRANT:
        if (s->full) return no_space;
        return sim_lease_grant(s, request->lease.id, request->lease.ttl_s, &op->answer);
    case EL_LEASE_REVOKE:
        return sim_lease_revoke(s, request->lease.id);
    case EL_RANGE:
    case EL_LEASE_KEEPALIVE:
    case EL_LEASE_TIME_TO_LIVE:
    case EL_AUTHENTICATE:
    case EL_STATUS:
        break;
    }
    return (sim_verdict){EL_UNIMPLEMENTED, "not a write"};
}

void sim_apply_write(sim *s, sim_op *op)
{
    op->verdict = carry_out(s, op);
    sim_log_append(s);
    op->wait_index = (int64_t)s->log_end - 1;
}

void sim_log_append(sim *s)
{
    int64_t before = s->log[s->log_end - 1];
    s->log = sim_grow(s->log, &s->log_capacity, s->log_end + 1, sizeof *s->log);
    s->log[s->log_end++] = s->store.revision;
    for (unsigned i = 0; i < s->options.members; i++) {
        sim_member *m = &s->members[i];
        if ((int)i == s->leader && sim_member_healthy(m))
            sim_member_catch_up(m, (int64_t)s->log_end - 1);
        else
            sim_member_schedule_apply(m);
    }
    if (s->store.revision != before && s->hook) s->hook(s->hook_context, s, s->store.revision);
}

void sim_member_catch_up(sim_member *m, int64_t index)
{
    while (m->applied < index) {
        int64_t before = sim_member_revision(m);
        m->applied++;
        if (sim_member_revision(m) == before) continue;
        m->busy_ns = sim_now(m->sim);
        sim_watches_notify(m, sim_member_revision(m));
    }
    sim_serve_applied(m);
}

void sim_member_schedule_apply(sim_member *m)
{
    sim *s = m->sim;
    if (m->apply.slot || !sim_member_healthy(m) || m->applied + 1 == (int64_t)s->log_end) return;
    sim_schedule(s, &m->apply, sim_now(s) + sim_between(s, 0, s->faults.lag_max_ns));
}

/* A follower applies the log in bites of any size, so that all its intermediate states can be seen. */
void sim_member_apply_event(void *member)
{
    sim_member *m = member;
    int64_t behind = (int64_t)m->sim->log_end - 1 - m->applied;
    if (behind == 0 || !sim_member_healthy(m)) return;
    sim_member_catch_up(m, m->applied + sim_between(m->sim, 1, behind));
    sim_member_schedule_apply(m);
}
