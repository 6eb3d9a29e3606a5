/* A world for the simulator: several clients of the library over one simulated etcd, each with threads that
 * lock and unlock at random, a nemesis that makes trouble, and the invariants of doc/design.md checked after
 * every step. All of it follows from one seed. */
#ifndef WORLD_H
#define WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/client.h"
#include "core/guard.h"
#include "recipes/mutex.h"
#include "support/sim.h"

enum {
    WORLD_CLIENTS_MAX = 5,
    WORLD_ACTORS_MAX = 4,
    WORLD_LOCKS_MAX = 3,
    WORLD_WRITES_MAX = 4000,
    WORLD_GRANTS_MAX = 4000
};

typedef struct world world;
typedef struct world_client world_client;

typedef enum actor_state {
    ACTOR_IDLE,
    ACTOR_WAITING,
    ACTOR_HOLDING,
    ACTOR_UNLOCKING,
} actor_state;

/* A guarded write to the register of a lock, as the world knows of it. */
typedef enum world_write_state {
    WRITE_UNDER_WAY,
    WRITE_APPLIED,
    WRITE_UNKNOWN, /* given up without an answer */
    WRITE_NEVER,   /* told to have failed, or overtaken; or a read */
} world_write_state;

typedef struct world_write {
    unsigned lock;
    uint64_t token;
    unsigned number; /* in its hold, from 1 */
    world_write_state state;
    uint64_t revision; /* at which it was applied; of a read, what the register had when it was asked */
    bool is_first_branch;
} world_write;

/* The last write that was applied to the register of a lock. */
typedef struct world_register {
    uint64_t token;
    unsigned number;
    uint64_t revision;
} world_register;

/* The guarded call of an actor. */
typedef struct actor_write {
    el_guard_call call;
    bool is_under_way;
    bool is_open;    /* the last one was given up without an answer */
    unsigned record; /* in the world's list */
    el_compare compare;
    el_op success[2], failure[2];
    char key[16];
    char texts[2][48];
} actor_write;

/* A hold of a lock with a marker that somebody was told of. */
typedef struct world_grant {
    unsigned lock;
    uint64_t token;
    uint64_t told; /* whose death it was told of; 0: nobody's */
    enum { REPAIR_NONE, REPAIR_MAYBE, REPAIR_DONE } repair;
    enum {
        HOLD_ENDS_NOT,     /* its holder has not ended it */
        HOLD_ENDS_UNKNOWN, /* its unlock is under way, or was not answered */
        HOLD_ENDS_LEFT,
        HOLD_ENDS_DIED, /* it was lost */
    } end;
    int64_t vanished_ns; /* when its entry was seen to be gone; 0: not yet */
} world_grant;

/* One thread of a client. */
typedef struct actor {
    world_client *client;
    unsigned number; /* in the whole world, from 1: its thread id */
    actor_state state;
    unsigned lock;
    bool is_broken; /* an operator has removed the entry it waits or holds by */
    el_hold *hold;
    el_mutex *mutex; /* the one in use */
    el_mutex *own[WORLD_LOCKS_MAX];
    int64_t next_ns; /* when it does something of its own accord */
    uint64_t token;
    unsigned attempts; /* lock calls so far */
    unsigned n_writes; /* guarded calls of this hold so far */
    actor_write write;
    world_grant *grant; /* of this hold; NULL: the lock has no marker */
    bool is_repairing;
    el_guard_call repair;
    el_op repair_ops[2];
    char *repair_text;
} actor;

struct world_client {
    world *world;
    el_transport *transport;
    el_client *client;
    el_session *session; /* NULL between two */
    int64_t reopen_ns;
    bool was_frozen;
    el_mutex *shared[WORLD_LOCKS_MAX];
    unsigned n_actors;
    actor actors[WORLD_ACTORS_MAX];
};

typedef struct world_options {
    uint64_t seed;
    int64_t trouble_ns; /* for so long the nemesis is at work */
    bool is_loud;       /* prints what happens */
    bool is_calm;       /* no nemesis, no faults */
} world_options;

/* What happened, for reports. */
typedef struct world_counts {
    unsigned long steps, grants, timeouts, losses, refusals, ghosts, faults, checks;
    unsigned long writes, unknown_writes, refused_writes, late_writes, deaths_told, repairs;
} world_counts;

struct world {
    sim *sim;
    uint64_t seed;
    bool is_loud;
    bool is_ending; /* actors begin nothing new */
    bool is_over;   /* sessions are opened no more */
    bool is_robust; /* its mutexes */
    bool is_full;   /* etcd refuses puts */
    bool was_full;
    int64_t lock_delay_ns;
    unsigned n_clients, n_locks, n_members;
    int64_t now_ns, next_trouble_ns, trouble_end_ns;
    uint64_t last_granted[WORLD_LOCKS_MAX]; /* token */
    uint64_t last_written[WORLD_LOCKS_MAX]; /* the protected resource: the highest token it has seen */
    world_register registers[WORLD_LOCKS_MAX];
    unsigned n_writes;
    world_write writes[WORLD_WRITES_MAX];
    unsigned n_grants;
    world_grant grants[WORLD_GRANTS_MAX];
    world_client clients[WORLD_CLIENTS_MAX];
    world_counts counts;
    char breach[900]; /* "" as long as all is well */
};

/* Runs a whole life: trouble, healing, settling, the end. Returns true if no invariant was breached;
 * otherwise w->breach tells. Frees everything either way. */
bool world_run(world *w, const world_options *options);

/* ---- between its parts ---- */

/* The first breach is kept. */
void world_breach(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_say(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t world_random(world *w, uint64_t below);
bool world_chance(world *w, double probability);
const char *world_lock_name(unsigned lock);

/* One event, then whatever it makes due. */
void world_step(world *w);

void actor_act(actor *a);
/* NULL-safe for actors without a hold. */
bool actor_is_good(const actor *a);

/* What a holder of a lock with a marker is told. */
void robust_granted(actor *a);
/* Begins to say that a death is repaired; false: there is none. */
bool robust_repair(actor *a);
void robust_look(world *w);

/* Begins a guarded call; false: there is none to be made now. */
bool register_write(actor *a);
/* After each change of the store. */
void register_look(world *w);

void nemesis_act(world *w);
void nemesis_set_rates(world *w);
/* Deletes the keys that the nemesis has put in the place of entries. */
void nemesis_clean_up(world *w);
/* Deletes the entry of somebody who waits; NULL if nobody does. */
actor *nemesis_delete_waiter(world *w);

void check_after_step(world *w);
void check_grant(actor *a);
void check_write(actor *a);
void check_hook(void *context, sim *s, int64_t revision);
void check_settled(world *w);

#endif
