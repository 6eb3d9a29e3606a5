/* Does the faults of a schedule to the cluster, the clients and the proxies, and ends each after its span. */
#ifndef TORTURE_NEMESIS_H
#define TORTURE_NEMESIS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "torture/crew.h"
#include "torture/schedule.h"

enum { MOST_UNDER_WAY = 64 };

typedef struct under_way {
    fault fault;
    int64_t began_ns, due_ns;
    pid_t pid; /* of a client that is stopped */
} under_way;

typedef struct nemesis {
    crew *crew;
    const char *script;  /* scripts/torture.sh, for what it takes several commands to do */
    const char *cluster; /* scripts/cluster.sh */
    bool has_netns;
    under_way faults[MOST_UNDER_WAY];
    int n;
    pid_t members[MEMBERS];        /* process ids; 0: killed */
    pid_t errands[MOST_UNDER_WAY]; /* commands that still run */
    int errands_n;
    pid_t restart; /* the one among them that starts a member again */
    int done[FAULT_KINDS];
    int failed;  /* commands that did not do what they should, such as a compaction without a leader */
    int skipped; /* would have taken the majority, or its target was not to be had */
} nemesis;

void nemesis_start(nemesis *n);
/* Begins the fault. */
void nemesis_do(nemesis *n, const fault *f);
/* Ends the faults that are due; to be called often. */
void nemesis_look(nemesis *n);
/* Ends every fault; true when the cluster is whole again within the time. */
bool nemesis_heal(nemesis *n, int64_t patience_ms);

#endif
