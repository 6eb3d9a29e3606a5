#include "bench/goal.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef enum kind {
    RATIO_AT_LEAST,
    AT_MOST,
    ABOVE_PEER_AT_MOST, /* by so much */
} kind;

typedef struct goal {
    const char *name; /* a shell pattern */
    const char *measure;
    const char *peer; /* "*": whichever */
    kind kind;
    double number;
} goal;

static const goal goals[] = {
    {"uncontended", "cycle p50", "floor", RATIO_AT_LEAST, 1 / 1.10},
    {"uncontended", "cycle p50", "go", RATIO_AT_LEAST, 1},
    {"distinct-64", "rate", "go", RATIO_AT_LEAST, 8},
    {"distinct-64", "rate", "redlock", RATIO_AT_LEAST, 6},
    {"handover-[24]", "hand-overs", "go", RATIO_AT_LEAST, 20},
    {"handover-[24]", "hand-over p99", "*", AT_MOST, 20},
    {"handover-8", "hand-overs", "go", RATIO_AT_LEAST, 10},
    {"handover-16", "hand-overs", "go", RATIO_AT_LEAST, 6},
    {"handover-64", "hand-overs", "go", RATIO_AT_LEAST, 2},
    {"handover-*", "hand-overs", "zookeeper", RATIO_AT_LEAST, 1.2},
    {"trylock-held", "rate", "go", RATIO_AT_LEAST, 3},
    {"trylock-held", "writes", "*", AT_MOST, 0},
    {"waiters-10000", "memory each", "*", AT_MOST, 2048},
    {"waiters-10000", "threads", "*", AT_MOST, 4},
    {"waiters-10000", "connections", "*", AT_MOST, 4},
    {"takeover", "slowest", "time to live", ABOVE_PEER_AT_MOST, 1},
    {"leader-kill", "longest gap", "election", ABOVE_PEER_AT_MOST, 1},
    {"leader-kill", "false losses", "*", AT_MOST, 0},
};

static bool is_for(const goal *g, const char *name, const char *measure, const char *peer)
{
    return fnmatch(g->name, name, 0) == 0 && strcmp(g->measure, measure) == 0 &&
           fnmatch(g->peer, peer, 0) == 0;
}

static bool judge(const goal *g, char text[GOAL_ROOM], double ours, double peer_value, double ratio)
{
    switch (g->kind) {
    case RATIO_AT_LEAST:
        snprintf(text, GOAL_ROOM, ">= %.3g x", g->number);
        return ratio >= g->number;
    case AT_MOST:
        snprintf(text, GOAL_ROOM, "<= %.4g", g->number);
        return ours <= g->number;
    case ABOVE_PEER_AT_MOST:
        snprintf(text, GOAL_ROOM, "<= %.3g", peer_value + g->number);
        return ours <= peer_value + g->number;
    }
    return false;
}

goal_verdict goal_judge(char text[GOAL_ROOM], const char *name, const char *measure, const char *peer,
                        double ours, double peer_value, double ratio)
{
    text[0] = '\0';
    for (size_t i = 0; i < sizeof goals / sizeof *goals; i++)
        if (is_for(&goals[i], name, measure, peer))
            return judge(&goals[i], text, ours, peer_value, ratio) ? GOAL_MET : GOAL_MISSED;
    return GOAL_NONE;
}
