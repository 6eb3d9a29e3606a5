#include "torture/schedule.h"

#include "torture/tale.h"

/* How often, in which range of spans, and on one of how many targets. */
static const struct kind {
    const char *name;
    int weight;
    int shortest_ms, longest_ms;
    int targets;
} kinds[FAULT_KINDS] = {
    [FAULT_MEMBER_KILL] = {"member killed", 12, 500, 5000, MEMBERS},
    [FAULT_MEMBER_STOP] = {"member stopped", 10, 500, 6000, MEMBERS},
    [FAULT_MEMBERS_STOP] = {"majority stopped", 4, 300, 1500, MEMBERS},
    [FAULT_MEMBER_ISOLATE] = {"member isolated", 10, 1000, 6000, MEMBERS},
    [FAULT_COMPACT] = {"compaction", 8, 0, 0, 1},
    [FAULT_MOVE_LEADER] = {"leader moved", 8, 0, 0, MEMBERS},
    /* The first client lives from the beginning to the end. */
    [FAULT_CLIENT_KILL] = {"client killed", 10, 0, 500, CLIENTS - 1},
    [FAULT_CLIENT_BLINK] = {"client stopped shortly", 8, 50, 800, CLIENTS},
    [FAULT_CLIENT_FREEZE] = {"client frozen", 9, 3000, 9000, CLIENTS},
    [FAULT_NET_DELAY] = {"network delay", 6, 500, 6000, CLIENTS},
    [FAULT_NET_BLACKHOLE] = {"network blackhole", 6, 500, 8000, CLIENTS},
    [FAULT_NET_HOLD] = {"network held back", 5, 500, 8000, CLIENTS},
    [FAULT_NET_DROP_REPLIES] = {"replies dropped", 5, 500, 6000, CLIENTS},
    [FAULT_NET_RESET] = {"connections reset", 7, 0, 0, CLIENTS},
    [FAULT_NET_REFUSE] = {"connections refused", 5, 500, 6000, CLIENTS},
    [FAULT_REVOKE] = {"lease revoked by operator", 2, 0, 0, LOCKS},
    [FAULT_DELETE] = {"key deleted by operator", 3, 0, 0, LOCKS},
};

fault schedule_next(chance *c, const fault *before)
{
    fault next = {.at_ms = before->at_ms + chance_between(c, 200, 3300)};
    int sum = 0, kind = 0;
    for (int i = 0; i < FAULT_KINDS; i++)
        sum += kinds[i].weight;
    for (int64_t n = chance_between(c, 1, sum); n > kinds[kind].weight; kind++)
        n -= kinds[kind].weight;
    next.kind = (fault_kind)kind;
    next.span_ms = chance_between(c, kinds[kind].shortest_ms, kinds[kind].longest_ms);
    next.target = (int)chance_between(c, 0, kinds[kind].targets - 1);
    if (kind == FAULT_CLIENT_KILL) next.target++;
    next.detail = (int)chance_between(c, 1, (1 << MEMBERS) - 1);
    next.holder = (int)chance_between(c, -2, LOCKS - 1);
    return next;
}

const char *fault_name(int kind)
{
    return kind >= 0 && kind < FAULT_KINDS ? kinds[kind].name : "?";
}
