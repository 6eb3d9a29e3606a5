/* Group commit: the transactions of contenders on their way to etcd.
 *
 * A lone transaction goes out at once. While one is in flight, those that come gather, and go out together as
 * the nested transactions of one: a Raft commit costs the same for one as for sixty. When half a group has
 * gathered it does not wait for the one in flight. Every enter, try, mark and leave passes through here.
 *
 * Rules. All of a group happen at one revision, so never two entries of one lock in it: they would tie in the
 * queue. Leaves come before enters, so that a range in an enter sees the queue as it is afterwards. A group
 * that etcd refuses has changed nothing; its members are then sent one by one, so that a dead lease or a
 * denied key fails its own transaction alone. Every transaction can be repeated, so the group can. */
#ifndef EL_COMMIT_H
#define EL_COMMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/list.h"
#include "core/parts.h"
#include "core/rpc.h"
#include "core/timer.h"
#include "transport/transport.h"

struct etcdlock_client;
typedef struct el_commit el_commit;

typedef enum el_commit_kind {
    EL_COMMIT_ENTER,
    EL_COMMIT_LEAVE,
    EL_COMMIT_MARK, /* of whoever has come to hold */
    EL_COMMIT_LOOK, /* reads only; always travels alone */
} el_commit_kind;

typedef struct el_commit_end {
    el_failure failure; /* error 0: answered */
    el_outcome outcome; /* of the last attempt */
    int64_t revision;
    const el_txn_answer *answer; /* NULL unless answered; lives while `done` runs */
} el_commit_end;

/* The owner keeps it, and all that the transaction points to, in place until done. */
struct el_commit {
    el_commit_kind kind;
    /* Writes the transaction just before it is sent, in whole or in part into the room, which lasts until it
     * is answered: ten thousand that gather have one room. It may be asked again. NULL: txn is written
     * already. */
    void (*write)(el_commit *commit, el_parts *room);
    el_txn_request txn;
    int pinned;     /* LOOK: the one endpoint to ask, once; or EL_ANY_ENDPOINT */
    el_span folder; /* of the lock's queue; not for a LOOK */
    void (*done)(el_commit *commit, const el_commit_end *end);
    bool maybe_applied; /* an attempt is unaccounted for: it may have been applied, or may yet be */
    bool is_under_way;
    bool is_stopped;
    bool is_alone;          /* was in a group that etcd refused, and goes without others */
    bool is_sent;           /* in a group, or on its own, it has been given to the transport */
    el_list link;           /* while it gathers */
    struct el_group *group; /* while it travels in one */
    struct el_lone *lone;   /* while it travels alone */
    bool is_out_of_memory;
};

enum { EL_GROUP_MAX = 64, EL_GROUPS = 2 };

/* Those that travel together, or room for them. */
typedef struct el_group {
    struct el_gathering *gathering;
    bool is_in_flight;
    unsigned n_members;
    el_commit *members[EL_GROUP_MAX];
    el_parts parts[EL_GROUP_MAX];
    el_txn_request txns[EL_GROUP_MAX];
    el_op ops[EL_GROUP_MAX];
    el_rpc rpc;
} el_group;

/* The gathering place of a client, and its groups in flight. */
typedef struct el_gathering {
    struct etcdlock_client *client;
    bool is_off;     /* every transaction goes out alone and at once */
    el_list leaves;  /* that gather */
    el_list enters;  /* that gather: marks too */
    el_list alone;   /* that gather and go one by one, before all others */
    unsigned n;      /* of all three */
    unsigned limit;  /* so many nested transactions does this server take; learned from its refusals */
    bool is_telling; /* the members of a group how it went; what they submit meanwhile gathers */
    unsigned n_in_flight;
    el_timer stopped; /* some that gather were stopped */
    el_group groups[EL_GROUPS];
} el_gathering;

void el_gathering_init(struct etcdlock_client *client);
/* 0: as many as can go together; 1: each goes alone and at once. */
void el_gathering_limit(el_gathering *gathering, unsigned limit);

/* Begins; done is called once, never from inside this call. */
void el_commit_submit(struct etcdlock_client *client, el_commit *commit);

/* The owner does not need the outcome any more; done follows as soon as nothing of it is in flight. */
void el_commit_stop(struct etcdlock_client *client, el_commit *commit);

/* True if it is under way and may already have changed something. */
bool el_commit_may_have_happened(const el_commit *commit);

#endif
