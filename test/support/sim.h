/* A simulated etcd cluster with clients, for tests: deterministic from one seed, with faults at will.
 *
 * Stepped (the default): the clock is virtual and one thread does everything. The test loop is: sim_step,
 * then for every client and lane `next` and `deliver` until `next` gives NULL, then the due timers of the
 * client's state machines (asked for by sim_wake_at).
 *
 * Realtime: the clock is CLOCK_BOOTTIME times `speed`, a thread of its own plays the cluster and the network,
 * `next` blocks, and every function here may be called by any thread.
 *
 * All times are nanoseconds of the transport's clock, absolute where called `_at` or `until`. Memory comes
 * from malloc, never from el_alloc, and the simulator aborts when there is none. */
#ifndef SIM_H
#define SIM_H

#include "transport/transport.h"

#define SIM_MEMBERS_MAX 5u
#define SIM_MS          INT64_C(1000000)
#define SIM_S           INT64_C(1000000000)

typedef struct sim sim;

/* ---- a cluster ---------------------------------------------------------------------------------------- */

typedef struct sim_options {
    uint64_t seed;
    unsigned members; /* 1 to SIM_MEMBERS_MAX; 0 means 1 */
    long max_txn_ops; /* 0: etcd's default, 128 */
    bool realtime;
    unsigned speed; /* realtime only: simulated seconds per real second; 0 means 1 */
} sim_options;

/* Rates are probabilities from 0 to 1, drawn for each request. */
typedef struct sim_faults {
    double request_lost;       /* never arrives; the client learns nothing before its deadline */
    double answer_lost;        /* served, but the client learns nothing before its deadline */
    double answer_unavailable; /* served, but the client gets UNAVAILABLE in place of the answer */
    double delayed;            /* request or answer is held back up to delay_max_ns, past any deadline */
    double reset;              /* the connection breaks as the request is sent */
    double unsynced;           /* a watch from now on on a busy member is caught up by the 100 ms tick only */
    int64_t delay_max_ns;
    int64_t latency_min_ns, latency_max_ns; /* of every message */
    int64_t lag_max_ns;                     /* by which followers apply later than the leader */
} sim_faults;

/* Nothing goes wrong: short latencies, a small lag, and etcd's own habit of unsynced watches. */
sim_faults sim_calm(void);

sim *sim_new(const sim_options *options); /* NULL: one member, seed 0, stepped */
void sim_free(sim *s);                    /* requires that every client has been freed */

void sim_set_faults(sim *s, const sim_faults *faults);
void sim_heal(sim *s); /* calm, all members up and connected, all links whole, space, no countdowns */

int64_t sim_now(sim *s);
uint64_t sim_random(sim *s);
double sim_chance(sim *s); /* from 0 up to, not including, 1 */

/* ---- stepping ----------------------------------------------------------------------------------------- */

bool sim_step(sim *s);       /* moves the clock to the next event and runs it; false: there is none */
int64_t sim_next_ns(sim *s); /* when that would be; INT64_MAX: never */

/* ---- clients ------------------------------------------------------------------------------------------ */

/* A transport with one endpoint per member, endpoint i leading to member i. `free` of the table frees it. */
el_transport *sim_client_new(sim *s);

/* Makes sim_step stop at that time, so that the test can run the client's timers. A later request for the
 * same lane replaces it; INT64_MAX: none. */
void sim_wake_at(el_transport *client, el_lane lane, int64_t at_ns);

/* The client's process stands still until then: `next` gives nothing. What arrives is kept for later. */
void sim_freeze(el_transport *client, int64_t until_ns);
bool sim_frozen(el_transport *client); /* then the test must not run its timers either */

/* Lets n more calls through and spoils the one after them, once: it ends with `code`, after having been
 * served if `served`. n < 0: nothing more is spoilt. */
void sim_fail_call_after(el_transport *client, long n, el_code code, bool served);
long sim_calls_made(el_transport *client);

/* The way between a client and one of its endpoints. */
typedef struct sim_link {
    bool refused;     /* connections are refused: UNAVAILABLE, not_sent; those in place break */
    bool no_requests; /* what the client sends does not arrive */
    bool no_answers;  /* what the member sends does not arrive */
    int64_t delay_ns; /* added to every message */
} sim_link;

void sim_set_link(el_transport *client, unsigned endpoint, const sim_link *link); /* NULL: whole */
void sim_reset(el_transport *client, unsigned endpoint); /* breaks its connections of both lanes */

/* ---- members ------------------------------------------------------------------------------------------ */

void sim_kill(sim *s, unsigned member);    /* kill -9: connections break, new ones are refused */
void sim_restart(sim *s, unsigned member); /* of a dead one; it catches up with the log */
void sim_isolate(sim *s, unsigned member, bool isolated);    /* from the other members, not from clients */
void sim_pause(sim *s, unsigned member);                     /* SIGSTOP: requests pile up */
void sim_resume(sim *s, unsigned member);                    /* and are all served now, wanted or not */
void sim_set_learner(sim *s, unsigned member, bool learner); /* not the leader's; a learner has no vote */
int sim_leader(sim *s);                                      /* -1: none that works */
void sim_move_leader(sim *s, unsigned member);               /* at once; leases start anew */
void sim_set_nospace(sim *s, bool full);                     /* the NOSPACE alarm */

/* With a user, what touches keys needs the token of an authenticate with that user and password, and a bad
 * token spoils grants too; renewals are never looked at. NULL: no auth. The strings are kept. */
void sim_set_auth(sim *s, const char *user, const char *password);
void sim_expire_tokens(sim *s);

/* Every watch asked for from now on is refused with this reason. NULL: no longer. The string is kept. */
void sim_refuse_watches(sim *s, const char *reason);

/* ---- a stranger at work ------------------------------------------------------------------------------- */

/* Done at once, on the leader's store. Keys and values are C strings. */
void sim_put_key(sim *s, const char *key, const char *value,
                 int64_t lease);              /* a dead lease: nothing is put */
bool sim_delete_key(sim *s, const char *key); /* false: there was none */
bool sim_grant_lease(sim *s, int64_t id, int64_t ttl_s);
bool sim_revoke_lease(sim *s, int64_t id);
void sim_compact(sim *s, int64_t revision);

/* ---- looking inside ----------------------------------------------------------------------------------- */

typedef struct sim_key_info {
    el_span key; /* bytes live as long as the sim */
    el_span value;
    int64_t create_revision, mod_revision, version, lease;
} sim_key_info;

/* The live keys that start with the prefix, in key order, at most `max` of them; returns how many there are.
 */
size_t sim_keys(sim *s, const char *prefix, sim_key_info *out, size_t max);

int64_t sim_revision(sim *s);
bool sim_lease_alive(sim *s, int64_t id);
int64_t sim_lease_left_ns(sim *s, int64_t id); /* until it expires; 0: not alive */
size_t sim_leases_alive(sim *s);
size_t sim_watches_open(sim *s);  /* on the members, of all clients */
size_t sim_requests_left(sim *s); /* requests still under way or waiting in a member, ghosts included */

/* Called after every write that raised the revision, inside the simulator: it may look, not change. */
void sim_set_hook(sim *s, void (*hook)(void *context, sim *s, int64_t revision), void *context);

#endif
