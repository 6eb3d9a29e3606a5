#include "torture/story.h"

#include <stdio.h>
#include <stdlib.h>

#include "torture/schedule.h"

/* A fault may show so much later than the time to live after its end. */
static const int64_t after_effect_ns = INT64_C(3000000000);
static const int64_t resume_effect_ns = INT64_C(3000000000);

static void gather(story *s, int kind)
{
    story_list *list = &s->kinds[kind];
    for (size_t i = 0; i < s->n; i++)
        list->n += s->records[i].kind == kind;
    list->at = calloc(list->n + 1, sizeof *list->at);
    if (!list->at) abort();
    list->n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->records[i].kind == kind) list->at[list->n++] = &s->records[i];
}

static int by_token(const void *a, const void *b)
{
    const story_hold *x = a, *y = b;
    if (x->lock != y->lock) return x->lock < y->lock ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static void gather_holds(story *s)
{
    const story_list *enters = &s->kinds[TALE_ENTER], *unlocks = &s->kinds[TALE_UNLOCK];
    s->holds = calloc(enters->n + 1, sizeof *s->holds);
    if (!s->holds) abort();
    for (size_t i = 0; i < enters->n; i++) {
        const tale_record *r = enters->at[i];
        s->holds[s->holds_n++] = (story_hold){.lock = r->lock,
                                              .pid = r->pid,
                                              .tid = r->tid,
                                              .slot = r->slot,
                                              .token = r->token,
                                              .lease = r->lease,
                                              .enter_ns = r->at_ns,
                                              .leave_ns = INT64_MAX};
    }
    qsort(s->holds, s->holds_n, sizeof *s->holds, by_token);
    for (size_t i = 0; i < unlocks->n; i++) {
        const tale_record *r = unlocks->at[i];
        story_hold key = {.lock = r->lock, .token = r->token};
        story_hold *held = bsearch(&key, s->holds, s->holds_n, sizeof *s->holds, by_token);
        if (held) held->leave_ns = r->at_ns;
    }
}

void story_read(story *s, const char *folder)
{
    *s = (story){0};
    s->records = tale_read(folder, &s->n);
    for (int kind = TALE_STARTED; kind <= TALE_ODD; kind++)
        gather(s, kind);
    gather_holds(s);
}

void story_free(story *s)
{
    for (int kind = 0; kind <= TALE_ODD; kind++)
        free(s->kinds[kind].at);
    free(s->holds);
    free(s->records);
}

int64_t story_death_ns(const story *s, int pid, int64_t after_ns)
{
    const story_list *killed = &s->kinds[TALE_KILLED];
    for (size_t i = 0; i < killed->n; i++)
        if (killed->at[i]->pid == pid && killed->at[i]->at_ns >= after_ns) return killed->at[i]->at_ns;
    return INT64_MAX;
}

int64_t story_resumed_ns(const story *s, int64_t lease)
{
    const story_list *sessions = &s->kinds[TALE_SESSION], *faults = &s->kinds[TALE_FAULT];
    for (size_t i = 0; i < sessions->n; i++) {
        const tale_record *lost = sessions->at[i];
        if (lost->what != SESSION_WAS_LOST || lost->lease != lease) continue;
        for (size_t f = 0; f < faults->n; f++) {
            const tale_record *r = faults->at[f];
            if (r->what != FAULT_MEMBER_STOP && r->what != FAULT_MEMBERS_STOP) continue;
            int64_t resumed_ns = r->at_ns + r->span_ns;
            if (lost->at_ns >= resumed_ns && lost->at_ns <= resumed_ns + resume_effect_ns) return resumed_ns;
        }
        return INT64_MAX;
    }
    return INT64_MAX;
}

int64_t story_break_ns(const story *s, int lock, uint64_t token, int64_t lease)
{
    const story_list *breaks = &s->kinds[TALE_BREAK];
    int64_t first_ns = story_resumed_ns(s, lease);
    for (size_t i = 0; i < breaks->n; i++) {
        const tale_record *r = breaks->at[i];
        bool is_it = r->token == 0 ? r->lease == lease : r->token == token && r->lock == lock;
        if (is_it && r->at_ns < first_ns) first_ns = r->at_ns;
    }
    return first_ns;
}

const story_hold *story_find(const story *s, int lock, uint64_t token)
{
    story_hold key = {.lock = lock, .token = token};
    return bsearch(&key, s->holds, s->holds_n, sizeof *s->holds, by_token);
}

int64_t story_stopped_ns(const story *s, int pid, int64_t from_ns, int64_t to_ns)
{
    const story_list *faults = &s->kinds[TALE_FAULT];
    int64_t sum_ns = 0;
    for (size_t i = 0; i < faults->n; i++) {
        const tale_record *r = faults->at[i];
        if (r->pid != pid) continue;
        int64_t begin_ns = r->at_ns > from_ns ? r->at_ns : from_ns;
        int64_t end_ns = r->at_ns + r->span_ns < to_ns ? r->at_ns + r->span_ns : to_ns;
        if (end_ns > begin_ns) sum_ns += end_ns - begin_ns;
    }
    return sum_ns;
}

story_cause story_cause_of(const story *s, const tale_record *lost)
{
    const story_list *faults = &s->kinds[TALE_FAULT];
    int64_t from_ns = lost->at_ns - LONGEST_TTL_S * INT64_C(1000000000) - after_effect_ns;
    story_cause cause = CAUSE_NONE;
    if (story_break_ns(s, -1, 0, lost->lease) <= lost->at_ns)
        return story_resumed_ns(s, lost->lease) <= lost->at_ns ? CAUSE_RESUMED : CAUSE_OPERATOR;
    for (size_t i = 0; i < faults->n; i++) {
        const tale_record *r = faults->at[i];
        story_cause this_one = CAUSE_NONE;
        if (r->at_ns > lost->at_ns || r->at_ns + r->span_ns < from_ns) continue;
        if (r->pid == lost->pid)
            this_one = CAUSE_STOPPED;
        else if (r->what >= FAULT_NET_DELAY && r->what <= FAULT_NET_REFUSE && r->slot == lost->slot)
            this_one = CAUSE_NETWORK;
        else if (r->what <= FAULT_MEMBER_ISOLATE || r->what == FAULT_MOVE_LEADER)
            this_one = CAUSE_MEMBER;
        if (this_one < cause) cause = this_one;
    }
    return cause;
}

const char *story_cause_name(int cause)
{
    static const char *const names[CAUSES] = {"an operator",
                                              "a member that went on after a stop",
                                              "the process was stopped",
                                              "its own network",
                                              "a member or the leader",
                                              "no fault near"};
    return cause >= 0 && cause < CAUSES ? names[cause] : "?";
}
