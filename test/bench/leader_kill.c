#include "bench/leader_kill.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench/direct.h"
#include "bench/ledger.h"
#include "bench/samples.h"

enum {
    CONTENDERS = 4,
    BEFORE_MS = 1000,
    AFTER_US = 9000000,
    ELECTION_MOST_US = 8000000,
    LOOK_MS = 5,
    ASK_MS = 100
};

typedef struct outcome {
    double gap_s;
    double election_s;
    int losses;
    int errors;
} outcome;

/* A command of scripts/cluster.sh that prints a number; 0: it prints none. */
static int cluster(const bench *b, const char *command, int member)
{
    char line[600];
    int number = 0;
    snprintf(line, sizeof line, member ? "'%s' %s %d" : "'%s' %s", b->cluster, command, member);
    FILE *out = popen(line, "r");
    if (!out || (fscanf(out, "%d", &number) != 1 && !member)) number = 0;
    if (!out || pclose(out) != 0) {
        fprintf(stderr, "bench: %s failed\n", line);
        exit(EXIT_FAILURE);
    }
    return number;
}

static void pause_ms(int64_t ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* Seconds until one of the others names another leader. */
static double await_election(el_transport *etcd, int killed, uint64_t old_leader)
{
    int64_t began_us = clock_us();
    while (clock_us() - began_us < ELECTION_MOST_US) {
        for (unsigned i = 0; i < etcd->n_endpoints; i++) {
            if ((int)i + 1 == killed) continue;
            uint64_t leader = direct_leader(etcd, i, ASK_MS);
            if (leader && leader != old_leader) return (double)(clock_us() - began_us) / 1e6;
        }
        pause_ms(LOOK_MS);
    }
    return (double)ELECTION_MOST_US / 1e6;
}

static outcome kill_leader(bench *b, party who)
{
    squad workers;
    slice out;
    squad_order order = bench_order(b, who, "contended", CONTENDERS, CONTENDERS);
    el_transport *etcd = direct_open(b->endpoints);
    int leader = cluster(b, "leader", 0);
    int pid = cluster(b, "pid", leader);
    uint64_t old_leader = direct_leader(etcd, (unsigned)leader - 1, 2000);
    squad_start(&workers, &order);
    int64_t begin_us = clock_us() + BEFORE_MS * 1000, end_us = begin_us + AFTER_US;
    squad_go(&workers, end_us);
    pause_ms(2 * BEFORE_MS);
    kill(pid, SIGKILL);
    outcome result = {.election_s = await_election(etcd, leader, old_leader)};
    squad_collect(&workers, &out, begin_us, end_us);
    squad_dismiss(&workers);
    result.gap_s = figure_longest_gap_ms(&out) / 1000;
    result.losses = out.losses;
    result.errors = out.errors;
    if (out.complaint[0]) fprintf(stderr, "  leader-kill, %s: %s\n", party_name(who), out.complaint);
    slice_free(&out);
    direct_close(etcd);
    cluster(b, "restart", leader);
    return result;
}

static void add_rows(const outcome worst[PARTIES], bool has_go)
{
    ledger_row row = {.name = "leader-kill", .less_is_better = true};
    const outcome *ours = &worst[PARTY_OURS], *go = &worst[PARTY_GO];
    row.measure = "longest gap";
    row.unit = "s";
    row.ours = ours->gap_s;
    row.peer = "election";
    row.peer_value = ours->election_s;
    ledger_add(&row);
    row.peer = has_go ? party_name(PARTY_GO) : NULL;
    row.peer_value = go->gap_s;
    if (has_go) ledger_add(&row);
    row.measure = "false losses";
    row.unit = "";
    row.ours = ours->losses;
    row.peer_value = go->losses;
    ledger_add(&row);
    row.measure = "calls failed";
    row.ours = ours->errors;
    row.peer_value = go->errors;
    ledger_add(&row);
}

/* The round counts whose gap was the longest beyond its election; losses and errors are added up. */
static void take_worst(outcome *worst, outcome now, bool is_first)
{
    now.losses += worst->losses;
    now.errors += worst->errors;
    if (!is_first && worst->gap_s - worst->election_s > now.gap_s - now.election_s) {
        now.gap_s = worst->gap_s;
        now.election_s = worst->election_s;
    }
    *worst = now;
}

void leader_kill_run(bench *b)
{
    bool has_go = party_is_there(b, PARTY_GO, "leader-kill");
    outcome worst[PARTIES] = {0};
    for (int round = 0; round < b->rounds; round++) {
        for (party who = PARTY_OURS; who <= PARTY_GO; who++) {
            if (who == PARTY_FLOOR || (who == PARTY_GO && !has_go)) continue;
            fprintf(stderr, "  leader-kill, round %d of %d: %-10s\r", round + 1, b->rounds, party_name(who));
            take_worst(&worst[who], kill_leader(b, who), round == 0);
        }
    }
    add_rows(worst, has_go);
}
