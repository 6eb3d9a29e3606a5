/* One case: ours and its peers, slice after slice in turn, round after round, and the medians of their
 * figures. */
#ifndef BENCH_CONTEST_H
#define BENCH_CONTEST_H

#include <stdbool.h>

#include "bench/figures.h"

typedef enum party {
    PARTY_OURS,
    PARTY_FLOOR,
    PARTY_GO,
    PARTY_REDLOCK,
    PARTY_ZOOKEEPER,
    PARTIES,
} party;

/* What the whole run has to do with. */
typedef struct bench {
    const char *folder;    /* of the workers */
    const char *endpoints; /* of etcd */
    const char *cluster;   /* scripts/cluster.sh */
    int members;
    int rounds;
    double seconds; /* of each slice */
    struct {
        char program[512];     /* "": not there */
        const char *endpoints; /* of its servers; NULL: there are none */
    } parties[PARTIES];
    int failures; /* slices that had errors in them */
} bench;

typedef struct contest {
    const char *name;
    const char *mode;
    int processes;
    int contenders;
    unsigned peers;        /* bits 1 << PARTY_... */
    const figure *figures; /* up to FIGURES */
    bool counts_writes;    /* how far etcd's revision rises meanwhile */
    const char *ours;      /* another program than the usual worker; NULL: that */
} contest;

void contest_run(bench *b, const contest *c);

const char *party_name(party who);
/* False, and a note in the ledger, if the party has no program or no servers here. */
bool party_is_there(const bench *b, party who, const char *name);
/* One slice: starts, lets run, collects, ends. Errors are told, and counted as a failure. */
void bench_slice(bench *b, party who, squad_order order, double seconds, slice *out);
/* An order for this party, whose lock name no other slice has. */
squad_order bench_order(const bench *b, party who, const char *mode, int processes, int contenders);
/* The case's name with the cluster's size, where that is not the usual one. Lives until the next call. */
const char *bench_case_name(const bench *b, const char *name);

#endif
