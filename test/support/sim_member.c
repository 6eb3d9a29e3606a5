#include <stdlib.h>

#include "support/sim_client.h"

#define ELECTION_NS       SIM_S /* etcd's default election timeout; an election takes one to two of them */
#define LEADERLESS_CUT_NS (3 * SIM_S) /* etcd ends streams after three timeouts without a leader */

bool sim_member_healthy(const sim_member *m)
{
    return !m->dead && !m->paused && (!m->isolated || m->sim->options.members == 1);
}

static bool can_lead(const sim_member *m)
{
    return sim_member_healthy(m) && !m->learner;
}

static unsigned count_voters(const sim *s)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->options.members; i++)
        n += !s->members[i].learner;
    return n;
}

static unsigned count_candidates(const sim *s)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->options.members; i++)
        n += can_lead(&s->members[i]);
    return n;
}

static bool has_quorum(const sim *s)
{
    return count_candidates(s) * 2 > count_voters(s);
}

bool sim_leader_works(const sim *s)
{
    return has_quorum(s) && s->leader >= 0 && can_lead(&s->members[s->leader]);
}

static void notice_event(void *member)
{
    sim_member *m = member;
    m->knows_leader = false;
    sim_schedule(m->sim, &m->cut, sim_now(m->sim) + LEADERLESS_CUT_NS);
}

static void cut_event(void *member)
{
    sim_member *m = member;
    while (m->streams)
        sim_stream_end(m->streams, (sim_verdict){EL_UNAVAILABLE, "etcdserver: no leader"});
}

static void update_member(sim_member *m, bool leader_works)
{
    sim *s = m->sim;
    if (leader_works && sim_member_healthy(m)) {
        m->knows_leader = true;
        sim_event_clear(&s->agenda, &m->notice);
        sim_event_clear(&s->agenda, &m->cut);
        sim_member_schedule_apply(m);
        sim_serve_resumed(m);
    } else if (m->dead || m->paused) {
        sim_event_clear(&s->agenda, &m->notice);
        sim_event_clear(&s->agenda, &m->cut);
    } else if (m->knows_leader) {
        if (!m->notice.slot)
            sim_schedule(s, &m->notice, sim_now(s) + sim_between(s, ELECTION_NS, 2 * ELECTION_NS));
    } else if (!m->cut.slot) {
        sim_schedule(s, &m->cut, sim_now(s) + LEADERLESS_CUT_NS);
    }
}

void sim_topology_changed(sim *s)
{
    bool works = sim_leader_works(s);
    if (works || !has_quorum(s))
        sim_event_clear(&s->agenda, &s->election);
    else if (!s->election.slot)
        sim_schedule(s, &s->election, sim_now(s) + sim_between(s, ELECTION_NS, 2 * ELECTION_NS));
    for (unsigned i = 0; i < s->options.members; i++)
        update_member(&s->members[i], works);
    if (works) sim_leases_overdue(s);
}

/* A leader has the whole committed log. */
static void lead(sim *s, unsigned member)
{
    s->leader = (int)member;
    sim_leases_rearm(s);
    sim_event_clear(&s->agenda, &s->election);
    sim_member_catch_up(&s->members[member], (int64_t)s->log_end - 1);
    sim_topology_changed(s);
}

static void election_event(void *owner)
{
    sim *s = owner;
    int64_t chosen = sim_between(s, 1, count_candidates(s));
    for (unsigned i = 0; i < s->options.members; i++) {
        if (!can_lead(&s->members[i]) || --chosen > 0) continue;
        lead(s, i);
        return;
    }
}

void sim_members_init(sim *s)
{
    s->election.run = election_event;
    s->election.owner = s;
    for (unsigned i = 0; i < s->options.members; i++) {
        sim_member *m = &s->members[i];
        m->sim = s;
        m->id = i;
        m->knows_leader = true;
        m->busy_ns = INT64_MIN / 2;
        m->apply.run = sim_member_apply_event;
        m->notice.run = notice_event;
        m->cut.run = cut_event;
        m->tick.run = sim_watch_tick_event;
        m->apply.owner = m->notice.owner = m->cut.owner = m->tick.owner = m;
    }
    s->leader = (int)sim_between(s, 0, s->options.members - 1);
}

static void drop_streams(sim_member *m)
{
    while (m->streams)
        sim_stream_break(m->streams, (sim_verdict){EL_UNAVAILABLE, "Connection reset by peer"});
}

void sim_members_clear(sim *s)
{
    for (unsigned i = 0; i < s->options.members; i++) {
        sim_serve_drop(&s->members[i]);
        drop_streams(&s->members[i]);
    }
}

static void unblock_all(sim *s, unsigned member)
{
    for (sim_client *client = s->clients; client; client = client->next)
        sim_net_unblock(client, member);
}

/* ---- by hand ---------------------------------------------------------------------------------------------
 */

void sim_kill(sim *s, unsigned member)
{
    sim_lock(s);
    sim_member *m = &s->members[member];
    if (!m->dead) {
        m->dead = true;
        m->paused = false;
        sim_event_clear(&s->agenda, &m->apply);
        sim_event_clear(&s->agenda, &m->tick);
        for (sim_client *client = s->clients; client; client = client->next)
            sim_net_break_all(client, member, "Connection reset by peer");
        drop_streams(m);
        sim_serve_drop(m);
        sim_topology_changed(s);
    }
    sim_unlock(s);
}

/* Whoever was leader and restarts is none any more; its own death has cost it the office. */
void sim_restart(sim *s, unsigned member)
{
    sim_lock(s);
    sim_member *m = &s->members[member];
    if (m->dead) {
        m->dead = false;
        m->knows_leader = false;
        if (s->leader == (int)member) s->leader = -1;
        sim_topology_changed(s);
    }
    sim_unlock(s);
}

void sim_isolate(sim *s, unsigned member, bool isolated)
{
    sim_lock(s);
    sim_member *m = &s->members[member];
    if (m->isolated != isolated) {
        m->isolated = isolated;
        sim_topology_changed(s);
    }
    sim_unlock(s);
}

void sim_pause(sim *s, unsigned member)
{
    sim_lock(s);
    sim_member *m = &s->members[member];
    if (!m->paused && !m->dead) {
        m->paused = true;
        sim_topology_changed(s);
        unblock_all(s, member);
    }
    sim_unlock(s);
}

void sim_resume(sim *s, unsigned member)
{
    sim_lock(s);
    sim_member *m = &s->members[member];
    if (m->paused) {
        m->paused = false;
        sim_topology_changed(s);
        unblock_all(s, member);
        sim_serve_stalled(m);
        sim_watch_schedule_tick(m);
    }
    sim_unlock(s);
}

void sim_set_learner(sim *s, unsigned member, bool learner)
{
    sim_lock(s);
    if (s->leader != (int)member) {
        s->members[member].learner = learner;
        sim_topology_changed(s);
    }
    sim_unlock(s);
}

int sim_leader(sim *s)
{
    sim_lock(s);
    int leader = sim_leader_works(s) ? s->leader : -1;
    sim_unlock(s);
    return leader;
}

void sim_move_leader(sim *s, unsigned member)
{
    sim_lock(s);
    if (can_lead(&s->members[member]) && has_quorum(s)) lead(s, member);
    sim_unlock(s);
}

void sim_heal(sim *s)
{
    sim_lock(s);
    s->faults = sim_calm();
    s->full = false;
    s->watch_refusal = NULL;
    for (unsigned i = 0; i < s->options.members; i++) {
        sim_isolate(s, i, false);
        sim_resume(s, i);
        sim_restart(s, i);
    }
    for (sim_client *client = s->clients; client; client = client->next) {
        client->fail_after = -1;
        for (unsigned i = 0; i < s->options.members; i++)
            sim_set_link(&client->table, i, NULL);
    }
    sim_unlock(s);
}
