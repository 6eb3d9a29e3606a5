#include "bench/cases.h"

#include <stdio.h>
#include <string.h>

#include "bench/growth.h"
#include "bench/leader_kill.h"
#include "bench/takeover.h"
#include "bench/waiters.h"

enum {
    GO = 1u << PARTY_GO,
    ETCD_PEERS = 1u << PARTY_FLOOR | GO,
    ALL_PEERS = ETCD_PEERS | 1u << PARTY_REDLOCK | 1u << PARTY_ZOOKEEPER,
};

static const figure cycles[] = {FIGURE_CYCLE_P50, FIGURE_CYCLE_P99, FIGURES};
static const figure rate[] = {FIGURE_RATE, FIGURES};
static const figure handovers[] = {FIGURE_HANDOVERS, FIGURE_HANDOVER_P50, FIGURE_HANDOVER_P99,
                                   FIGURE_LONGEST_WAIT, FIGURES};

static const contest contests[] = {
    {.name = "uncontended",
     .mode = "distinct",
     .processes = 1,
     .contenders = 1,
     .peers = ALL_PEERS,
     .figures = cycles},
    {.name = "distinct-64",
     .mode = "distinct",
     .processes = 1,
     .contenders = 64,
     .peers = ALL_PEERS,
     .figures = rate},
    {.name = "distinct-512",
     .mode = "distinct",
     .processes = 1,
     .contenders = 512,
     .peers = ETCD_PEERS,
     .figures = rate,
     .ours = "ours_async"},
    {.name = "handover-2",
     .mode = "contended",
     .processes = 2,
     .contenders = 2,
     .peers = ALL_PEERS,
     .figures = handovers},
    {.name = "handover-4",
     .mode = "contended",
     .processes = 4,
     .contenders = 4,
     .peers = ALL_PEERS,
     .figures = handovers},
    {.name = "handover-8",
     .mode = "contended",
     .processes = 8,
     .contenders = 8,
     .peers = ALL_PEERS,
     .figures = handovers},
    {.name = "handover-16",
     .mode = "contended",
     .processes = 16,
     .contenders = 16,
     .peers = ALL_PEERS,
     .figures = handovers},
    {.name = "handover-64",
     .mode = "contended",
     .processes = 8,
     .contenders = 64,
     .peers = ALL_PEERS,
     .figures = handovers},
    {.name = "trylock-held",
     .mode = "try",
     .processes = 1,
     .contenders = 2,
     .peers = GO,
     .figures = rate,
     .counts_writes = true},
};
enum { CONTESTS = sizeof contests / sizeof *contests };

/* What does not fit that pattern. */
static const struct {
    const char *name;
    void (*run)(bench *b);
    bool of_one;   /* is run with one member */
    bool of_three; /* and with three */
} specials[] = {
    {"waiters-10000", waiters_run, true, false},        {"takeover", takeover_run, true, false},
    {"leader-kill", leader_kill_run, false, true},      {"growth-waiters", growth_of_waiters, true, false},
    {"growth-history", growth_of_history, true, false},
};
enum { SPECIALS = sizeof specials / sizeof *specials };

/* Those that show what a disk and a majority cost; the others would only take time. */
static bool is_for_three(const char *name)
{
    return !strcmp(name, "uncontended") || !strcmp(name, "distinct-64") || !strcmp(name, "handover-4");
}

static bool is_named(const char *only, const char *name)
{
    size_t size = strlen(name);
    for (const char *at = only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, size) == 0 && (at[size] == '\0' || at[size] == ',')) return true;
    return false;
}

static bool exists(const char *name)
{
    for (int i = 0; i < CONTESTS; i++)
        if (strcmp(contests[i].name, name) == 0) return true;
    for (int i = 0; i < SPECIALS; i++)
        if (strcmp(specials[i].name, name) == 0) return true;
    return false;
}

static bool all_exist(const char *only)
{
    char name[64];
    for (const char *at = only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        if (exists(name)) continue;
        fprintf(stderr, "bench: there is no case %s; the cases are:", name);
        for (int i = 0; i < CONTESTS; i++)
            fprintf(stderr, " %s", contests[i].name);
        for (int i = 0; i < SPECIALS; i++)
            fprintf(stderr, " %s", specials[i].name);
        fprintf(stderr, "\n");
        return false;
    }
    return true;
}

bool cases_run(bench *b, const char *only)
{
    if (!all_exist(only)) return false;
    for (int i = 0; i < CONTESTS; i++) {
        bool fits = b->members == 1 || is_for_three(contests[i].name);
        if (fits && (!only || is_named(only, contests[i].name))) contest_run(b, &contests[i]);
    }
    for (int i = 0; i < SPECIALS; i++) {
        bool fits = b->members == 1 ? specials[i].of_one : specials[i].of_three;
        if (fits && (!only || is_named(only, specials[i].name))) specials[i].run(b);
    }
    return true;
}
