#include "bench/contest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/direct.h"
#include "bench/ledger.h"
#include "bench/samples.h"

enum { MOST_ROUNDS = 25, WARM_US = 400000, TTL_S = 10, NAME_ROOM = 64 };

static const char *const party_names[PARTIES] = {"ours", "floor", "go", "redlock", "zookeeper"};

const char *party_name(party who)
{
    return party_names[who];
}

bool party_is_there(const bench *b, party who, const char *name)
{
    if (b->parties[who].program[0] && b->parties[who].endpoints) return true;
    ledger_skip(name, party_names[who], "not installed: make bench-setup");
    return false;
}

const char *bench_case_name(const bench *b, const char *name)
{
    static char text[NAME_ROOM];
    snprintf(text, sizeof text, b->members == 1 ? "%s" : "%s, %d members", name, b->members);
    return text;
}

squad_order bench_order(const bench *b, party who, const char *mode, int processes, int contenders)
{
    static int last;
    static char name[NAME_ROOM];
    snprintf(name, sizeof name, "bench-%d-%d-%s", (int)getpid(), ++last, party_names[who]);
    return (squad_order){.program = b->parties[who].program,
                         .mode = mode,
                         .endpoints = b->parties[who].endpoints,
                         .name = name,
                         .processes = processes,
                         .contenders = contenders,
                         .ttl_s = TTL_S};
}

static void tell_trouble(bench *b, const char *who, const slice *s)
{
    if (s->n > 0 && s->errors == 0 && s->losses == 0) return;
    b->failures++;
    fprintf(stderr, "bench: TROUBLE: %s: %zu samples, %d errors, %d losses, the first: %s\n", who, s->n,
            s->errors, s->losses, s->complaint);
}

void bench_slice(bench *b, party who, squad_order order, double seconds, slice *out)
{
    squad workers;
    squad_start(&workers, &order);
    int64_t begin_us = clock_us() + WARM_US, end_us = begin_us + (int64_t)(seconds * 1e6);
    squad_go(&workers, end_us);
    squad_collect(&workers, out, begin_us, end_us);
    squad_dismiss(&workers);
    tell_trouble(b, party_names[who], out);
}

/* ---- a contest -------------------------------------------------------------------------------------- */

typedef struct scores {
    double of[PARTIES][FIGURES + 1][MOST_ROUNDS]; /* the last figure: writes */
    int rounds;
} scores;

static void run_slice(bench *b, const contest *c, party who, scores *s, int round)
{
    slice out;
    squad_order order = bench_order(b, who, c->mode, c->processes, c->contenders);
    char program[512];
    if (who == PARTY_OURS && c->ours) {
        snprintf(program, sizeof program, "%s/%s", b->folder, c->ours);
        order.program = program;
    }
    fprintf(stderr, "  %s, round %d of %d: %-10s\r", c->name, round + 1, s->rounds, party_names[who]);
    el_transport *etcd = c->counts_writes ? direct_open(b->endpoints) : NULL;
    int64_t before = etcd ? direct_revision(etcd) : 0;
    bench_slice(b, who, order, b->seconds, &out);
    /* Taken after the workers' own end: entering and leaving of the holder are two. */
    if (etcd) s->of[who][FIGURES][round] = (double)(direct_revision(etcd) - before - 2);
    if (etcd) direct_close(etcd);
    for (const figure *f = c->figures; *f != FIGURES; f++)
        s->of[who][*f][round] = figure_of(&out, *f);
    slice_free(&out);
}

static double median(scores *s, party who, int which)
{
    return figure_percentile(s->of[who][which], (size_t)s->rounds, 0.5);
}

static void add_rows(const bench *b, const contest *c, scores *s, party peer)
{
    ledger_row row = {.name = bench_case_name(b, c->name), .peer = party_names[peer]};
    for (const figure *f = c->figures; *f != FIGURES; f++) {
        row.measure = figure_name(*f);
        row.unit = figure_unit(*f);
        row.less_is_better = figure_is_time(*f);
        row.ours = median(s, PARTY_OURS, (int)*f);
        row.peer_value = median(s, peer, (int)*f);
        ledger_add(&row);
    }
    if (!c->counts_writes) return;
    row.measure = "writes";
    row.unit = "";
    row.less_is_better = true;
    row.ours = median(s, PARTY_OURS, FIGURES);
    row.peer_value = median(s, peer, FIGURES);
    ledger_add(&row);
}

void contest_run(bench *b, const contest *c)
{
    party taking_part[PARTIES] = {PARTY_OURS};
    int n = 1;
    scores *s = calloc(1, sizeof *s);
    if (!s) abort();
    s->rounds = b->rounds < MOST_ROUNDS ? b->rounds : MOST_ROUNDS;
    for (party who = PARTY_FLOOR; who < PARTIES; who++) {
        /* More members of etcd make no difference to the others. */
        bool is_wanted = (c->peers & 1u << who) && (b->members == 1 || who < PARTY_REDLOCK);
        if (is_wanted && party_is_there(b, who, bench_case_name(b, c->name))) taking_part[n++] = who;
    }
    /* Another one begins each round, so that none always comes after the same. */
    for (int round = 0; round < s->rounds; round++)
        for (int i = 0; i < n; i++)
            run_slice(b, c, taking_part[(i + round) % n], s, round);
    for (int i = 1; i < n; i++)
        add_rows(b, c, s, taking_part[i]);
    free(s);
}
