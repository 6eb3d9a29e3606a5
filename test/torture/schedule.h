/* Which faults come when: from a seed alone, so that a seed repeats them whatever happens meanwhile. */
#ifndef TORTURE_SCHEDULE_H
#define TORTURE_SCHEDULE_H

#include <stdint.h>

#include "torture/chance.h"

typedef enum fault_kind {
    FAULT_MEMBER_KILL,
    FAULT_MEMBER_STOP,
    FAULT_MEMBERS_STOP, /* two of three, for less than the shortest time to live */
    FAULT_MEMBER_ISOLATE,
    FAULT_COMPACT,
    FAULT_MOVE_LEADER,
    FAULT_CLIENT_KILL,
    FAULT_CLIENT_BLINK,  /* stopped for much less than its time to live */
    FAULT_CLIENT_FREEZE, /* stopped for longer than that */
    FAULT_NET_DELAY,
    FAULT_NET_BLACKHOLE,
    FAULT_NET_HOLD,
    FAULT_NET_DROP_REPLIES,
    FAULT_NET_RESET,
    FAULT_NET_REFUSE,
    FAULT_REVOKE, /* an operator ends the lease of a client */
    FAULT_DELETE, /* an operator deletes the key of a holder */
    FAULT_KINDS,
} fault_kind;

typedef struct fault {
    fault_kind kind;
    int64_t at_ms; /* since the beginning */
    int64_t span_ms;
    int target; /* a member, a slot or a lock, by kind; from 0 */
    int detail; /* of proxies: a bit for each member's; else any number */
    int holder; /* a fault of clients hits who holds this lock, if somebody does; -1: the target */
} fault;

/* The next one after the one given. */
fault schedule_next(chance *c, const fault *before);
const char *fault_name(int kind);

#endif
