/* What the parts of the simulator share: the cluster's state, requests and streams on their way, clients. */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include <pthread.h>
#include <time.h>

#include "support/sim.h"
#include "support/sim_event.h"
#include "support/sim_memory.h"
#include "support/sim_store.h"
#include "support/sim_txn.h"

typedef struct sim_client sim_client;
typedef struct sim_call sim_call;
typedef struct sim_stream sim_stream;
typedef struct sim_watch sim_watch;

/* One request from its sending to the arrival of its answer. */
typedef struct sim_op {
    sim_event event; /* its next step */
    sim *sim;
    sim_arena arena; /* of request and answer; passes to the completion */
    const el_request *request;
    el_span token;
    sim_call *origin; /* NULL: the client has given it up, and it is a ghost */
    sim_client *client;
    unsigned endpoint;  /* and the member of that number */
    int64_t wait_index; /* log index that the member must have applied before it answers */
    el_code spoilt;     /* not EL_OK: the code its client gets in place of the answer */
    bool lost;          /* went to a leader that is gone; nobody will carry it out */
    bool outlives;      /* will be carried out as soon as there is a leader, even if it timed out before */
    sim_verdict verdict;
    el_answer answer;
} sim_op;

typedef struct sim_ops {
    sim_op **items;
    size_t n, capacity;
} sim_ops;

typedef struct sim_member {
    sim *sim;
    unsigned id;
    bool dead, isolated, paused, learner;
    bool knows_leader;
    int64_t applied; /* log index */
    int64_t busy_ns; /* when it last applied something */
    sim_event apply;
    sim_event notice; /* it finds that there is no leader */
    sim_event cut;    /* and ends its streams */
    sim_event tick;   /* of the unsynced watches */
    sim_ops stalled;  /* arrived while paused */
    sim_ops leaderless;
    sim_ops reading; /* wait for `applied` */
    sim_watch *watches;
    sim_stream *streams; /* that end here */
} sim_member;

struct sim {
    sim_options options;
    sim_faults faults;
    uint64_t random; /* the generator's state */
    int64_t now_ns;  /* stepped */
    int64_t real_start_ns;
    sim_agenda agenda;

    sim_store store;
    int64_t *log; /* store revision after each entry; [0] before the first */
    size_t log_end, log_capacity;
    struct sim_lease **leases; /* by id */
    size_t n_leases, leases_capacity;
    int64_t next_lease_id;
    bool full;
    const char *user, *password; /* NULL: no auth */
    uint64_t token_generation;
    char token[24]; /* the one that is valid */
    const char *watch_refusal;

    sim_member members[SIM_MEMBERS_MAX];
    int leader; /* may be one that does not work */
    sim_event election;
    sim_client *clients; /* freed ones too, as requests of theirs may still be on their way */
    size_t ops_alive, watches_open;

    void (*hook)(void *context, sim *s, int64_t revision);
    void *hook_context;

    pthread_mutex_t mutex; /* realtime only, recursive because of the hook */
    pthread_cond_t agenda_changed;
    pthread_t server;
    bool stopping;
};

void sim_lock(sim *s);
void sim_unlock(sim *s);
void sim_schedule(sim *s, sim_event *event, int64_t at_ns);
int64_t sim_between(sim *s, int64_t low, int64_t high); /* seeded, both included */
int64_t sim_latency(sim *s);
void sim_real_deadline(const sim *s, int64_t duration_ns, struct timespec *until); /* on CLOCK_MONOTONIC */
void sim_cond_init(pthread_cond_t *cond);                                          /* on that clock too */

/* ---- sim_apply.c: the log ----------------------------------------------------------------------------- */

/* Carries out a write on the leader's store and appends it to the log; verdict and answer are in the op. */
void sim_apply_write(sim *s, sim_op *op);
void sim_log_append(sim *s); /* the store or the leases have just been written to */
void sim_member_catch_up(sim_member *m, int64_t index);
void sim_member_apply_event(void *member);
void sim_member_schedule_apply(sim_member *m);
int64_t sim_member_revision(const sim_member *m);

/* ---- sim_lease.c -------------------------------------------------------------------------------------- */

bool sim_lease_exists(const void *s, int64_t id); /* for sim_txn_apply */
sim_verdict sim_lease_grant(sim *s, int64_t id, int64_t ttl_s, el_answer *answer);
sim_verdict sim_lease_revoke(sim *s, int64_t id);
void sim_lease_renew(sim *s, int64_t id, el_answer *answer);
void sim_lease_look(sim *s, int64_t id, el_answer *answer);
void sim_leases_rearm(sim *s);   /* a new leader gives every lease its full TTL again */
void sim_leases_overdue(sim *s); /* the old one is back: what ran out meanwhile goes now */
void sim_leases_clear(sim *s);

/* ---- sim_member.c ------------------------------------------------------------------------------------- */

bool sim_member_healthy(const sim_member *m);
bool sim_leader_works(const sim *s);
void sim_topology_changed(sim *s);
void sim_members_init(sim *s);
void sim_members_clear(sim *s);

/* ---- sim_auth.c ------------------------------------------------------------------------------------------
 */

void sim_auth_renew_token(sim *s);
void sim_auth_authenticate(sim *s, sim_op *op); /* leaves verdict and answer in the op */
sim_verdict sim_auth_admit(const sim *s, const el_request *request, el_span token);
const char *sim_auth_watch_refusal(const sim *s, el_span token); /* NULL: it may watch */

/* ---- sim_serve.c: requests at a member ------------------------------------------------------------------
 */

void sim_serve(sim_op *op);            /* it has arrived at its member */
void sim_serve_stalled(sim_member *m); /* the member goes on after a pause */
void sim_serve_applied(sim_member *m); /* it has applied more of the log: answers what waited for that */
void sim_serve_resumed(sim_member *m); /* there is a leader again: what waited for one goes on */
void sim_serve_drop(sim_member *m);    /* it dies, and what waited in it with it */

/* ---- sim_watch.c -------------------------------------------------------------------------------------- */

void sim_watch_add(sim_stream *stream, int64_t id, el_span key, int64_t start_revision, bool deletes_only);
void sim_watch_remove(sim_stream *stream, int64_t id);
void sim_watches_drop(sim_stream *stream);                /* the stream is over */
void sim_watches_notify(sim_member *m, int64_t revision); /* the member has just applied it */
void sim_watch_tick_event(void *member);
void sim_watch_schedule_tick(sim_member *m); /* if anything is unsynced there */

/* ---- sim_net.c: requests and answers on their way --------------------------------------------------------
 */

sim_op *sim_op_new(sim_client *client, unsigned endpoint, const el_request *request);
void sim_op_free(sim_op *op);
void sim_net_send(sim_op *op);
void sim_net_answer(sim_op *op); /* verdict and answer are in it */
void sim_net_break(sim_client *client, unsigned endpoint, el_lane lane, const char *why);
void sim_net_break_all(sim_client *client, unsigned endpoint, const char *why); /* of both lanes */
void sim_net_unblock(sim_client *client,
                     unsigned endpoint); /* link or member have changed: streams go on, or time out */

#endif
