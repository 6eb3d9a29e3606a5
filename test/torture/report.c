#include "torture/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcdlock.h"
#include "torture/schedule.h"

enum { HIGHEST_CODE = 256 };

/* ---- one way to say a thing, in two forms
 * ---------------------------------------------------------------------- */

static bool is_json, is_first;

static void group(const char *title)
{
    if (is_json)
        printf("%s\"%s\":{", is_first ? "" : ",", title);
    else
        printf("%s\n", title);
    is_first = true;
}

static void end_group(void)
{
    if (is_json) printf("}");
    is_first = false;
}

static void number(const char *label, int64_t value)
{
    if (is_json)
        printf("%s\"%s\":%lld", is_first ? "" : ",", label, (long long)value);
    else
        printf("  %-44s %12lld\n", label, (long long)value);
    is_first = false;
}

static void line(const char *text)
{
    if (!is_json) {
        printf("  %s\n", text);
        return;
    }
    printf("%s\"", is_first ? "" : ",");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        if ((unsigned char)*text >= ' ') putchar(*text);
    }
    putchar('"');
    is_first = false;
}

static void begin_lines(const char *title)
{
    if (is_json)
        printf("%s\"%s\":[", is_first ? "" : ",", title);
    else
        printf("%s\n", title);
    is_first = true;
}

static void end_lines(void)
{
    if (is_json) printf("]");
    is_first = false;
}

/* ---- spans
 * ------------------------------------------------------------------------------------------------------- */

typedef struct spans {
    int64_t *ms;
    size_t n, room;
} spans;

static void add(spans *s, int64_t ns)
{
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 256;
        s->ms = realloc(s->ms, s->room * sizeof *s->ms);
        if (!s->ms) abort();
    }
    s->ms[s->n++] = ns / 1000000;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void say_spans(const char *title, spans *s)
{
    if (s->n > 0) qsort(s->ms, s->n, sizeof *s->ms, by_size);
    group(title);
    number("number", (int64_t)s->n);
    if (s->n > 0) {
        number("median ms", s->ms[s->n / 2]);
        number("p99 ms", s->ms[s->n * 99 / 100]);
        number("longest ms", s->ms[s->n - 1]);
    }
    end_group();
    free(s->ms);
}

/* ---- the parts
 * --------------------------------------------------------------------------------------------------- */

static void say_calls(const story *s)
{
    const story_list *calls = &s->kinds[TALE_CALL];
    spans waits = {0};
    for (int kind = 0; kind < CALL_KINDS; kind++) {
        int64_t codes[HIGHEST_CODE] = {0}, own[8] = {0};
        for (size_t i = 0; i < calls->n; i++) {
            const tale_record *r = calls->at[i];
            if (r->what != kind) continue;
            if (r->code == 0 && kind != CALL_TRY) add(&waits, r->span_ns);
            if (r->code >= 0 && r->code < HIGHEST_CODE) codes[r->code]++;
            if (r->code >= ETCDLOCK_ESESSION && r->code <= ETCDLOCK_EPROTOCOL)
                own[r->code - ETCDLOCK_ESESSION]++;
        }
        group(call_name(kind));
        number("granted", codes[0]);
        for (int code = 1; code < HIGHEST_CODE; code++)
            if (codes[code] > 0) number(strerrorname_np(code), codes[code]);
        for (int i = 0; i < 8; i++)
            if (own[i] > 0) number(etcdlock_strerror(ETCDLOCK_ESESSION + i), own[i]);
        end_group();
    }
    say_spans("waits of lock and lock_for", &waits);
}

static void say_losses(const story *s, const judgement *j)
{
    const story_list *losses = &s->kinds[TALE_LOSS], *sessions = &s->kinds[TALE_SESSION];
    int64_t how[HOW_KINDS] = {0}, causes[CAUSES] = {0}, entries = 0, opened = 0, failed = 0;
    for (size_t i = 0; i < losses->n; i++) {
        how[losses->at[i]->what]++;
        entries += losses->at[i]->what != HOW_CALLBACK && losses->at[i]->code == ETCDLOCK_EENTRY;
    }
    for (size_t i = 0; i < sessions->n; i++) {
        opened += sessions->at[i]->what == SESSION_OPENED;
        failed += sessions->at[i]->what == SESSION_NOT_OPENED;
        if (sessions->at[i]->what == SESSION_WAS_LOST) causes[story_cause_of(s, sessions->at[i])]++;
    }
    group("sessions");
    number("opened", opened);
    number("opening failed", failed);
    end_group();
    group("sessions lost, by what was near");
    for (int i = 0; i < CAUSES; i++)
        number(story_cause_name(i), causes[i]);
    end_group();
    group("holds lost, by how it was learned first");
    for (int i = HOW_DESCRIPTOR; i < HOW_KINDS; i++)
        number(how_name(i), how[i]);
    number("of these by a deleted key", entries);
    number("of these told by the callback too", (int64_t)j->told);
    end_group();
    begin_lines("false losses");
    for (size_t i = 0; i < sessions->n; i++) {
        const tale_record *r = sessions->at[i];
        char text[160];
        if (r->what != SESSION_WAS_LOST || story_cause_of(s, r) != CAUSE_NONE) continue;
        snprintf(text, sizeof text, "client %d process %d lease %llx at %lld ns", r->slot, r->pid,
                 (unsigned long long)r->lease, (long long)r->at_ns);
        line(text);
    }
    end_lines();
}

/* How long a lock stood still because its holder was killed, or stopped for good measure. */
static void say_take_over(const story *s)
{
    spans kills = {0}, freezes = {0};
    const story_list *faults = &s->kinds[TALE_FAULT];
    for (size_t i = 0; i + 1 < s->holds_n; i++) {
        const story_hold *held = &s->holds[i], *next = &s->holds[i + 1];
        if (held->lock != next->lock) continue;
        int64_t dead_ns = story_death_ns(s, held->pid, held->enter_ns);
        if (dead_ns < held->leave_ns && held->leave_ns == INT64_MAX) add(&kills, next->enter_ns - dead_ns);
        for (size_t f = 0; f < faults->n; f++) {
            const tale_record *r = faults->at[f];
            if (r->pid != held->pid || r->what != FAULT_CLIENT_FREEZE) continue;
            bool was_holding = held->enter_ns < r->at_ns && held->leave_ns > r->at_ns;
            if (was_holding && next->enter_ns > r->at_ns && next->enter_ns < r->at_ns + r->span_ns)
                add(&freezes, next->enter_ns - r->at_ns);
        }
    }
    say_spans("take-over after the holder was killed", &kills);
    say_spans("take-over after the holder was frozen", &freezes);
}

static int by_time(const void *a, const void *b)
{
    const story_hold *x = a, *y = b;
    return x->enter_ns < y->enter_ns ? -1 : x->enter_ns > y->enter_ns;
}

/* Sorts the holds anew, so it comes last. */
static void say_standstill(const story *s)
{
    int64_t last_ns[LOCKS] = {0}, longest_ns = 0;
    qsort(s->holds, s->holds_n, sizeof *s->holds, by_time);
    for (size_t i = 0; i < s->holds_n; i++) {
        const story_hold *held = &s->holds[i];
        int64_t *last = &last_ns[held->lock];
        if (*last > 0 && held->enter_ns - *last > longest_ns) longest_ns = held->enter_ns - *last;
        *last = held->enter_ns;
    }
    number("longest time without a grant of a lock ms", longest_ns / 1000000);
}

static void say_faults(const story *s)
{
    int64_t done[FAULT_KINDS] = {0};
    for (size_t i = 0; i < s->kinds[TALE_FAULT].n; i++)
        done[s->kinds[TALE_FAULT].at[i]->what]++;
    group("faults");
    for (int kind = 0; kind < FAULT_KINDS; kind++)
        number(fault_name(kind), done[kind]);
    end_group();
}

void report_print(const report *r, const story *s, const judgement *j)
{
    is_json = r->is_json;
    is_first = true;
    if (is_json) printf("{");
    group("run");
    number("seed", (int64_t)r->seed);
    number("seconds", (r->ended_ns - r->began_ns) / 1000000000);
    number("faults left out, impossible at the time", r->left_out);
    number("compactions, moves and restarts that failed", r->failed);
    number("client processes started", (int64_t)s->kinds[TALE_STARTED].n);
    end_group();
    say_faults(s);
    say_calls(s);
    say_losses(s, j);
    say_take_over(s);
    group("judged");
    number("holds", (int64_t)j->holds.holds);
    number("holds over before they were begun", (int64_t)j->holds.stale);
    number("writes accepted", (int64_t)j->writes);
    number("writes of the killed that nobody told of", (int64_t)j->untold_writes);
    number("stale writes refused", (int64_t)s->kinds[TALE_REFUSED].n);
    number("cancels", (int64_t)s->kinds[TALE_CANCEL].n);
    number("latest return of lock_for after its time ms", j->latest_for_ms);
    number("longest trylock ms", j->longest_try_ms);
    number("memory of the longest-lived client at first kB", r->rss_begin_kb);
    number("memory of the longest-lived client at last kB", r->rss_end_kb);
    say_standstill(s);
    number("breaches", j->breaches.n);
    end_group();
    begin_lines("breaches found");
    for (int i = 0; i < j->breaches.n && i < MOST_BREACHES; i++)
        line(j->breaches.text[i]);
    end_lines();
    if (is_json) printf("}\n");
    fflush(stdout);
}

void report_progress(const char *folder, int64_t began_ns, const nemesis *n)
{
    static size_t seen;
    static long long grants, losses;
    size_t records_n;
    int faults = 0;
    tale_record *records = tale_read(folder, &records_n);
    for (; seen < records_n; seen++) {
        grants += records[seen].kind == TALE_ENTER;
        losses += records[seen].kind == TALE_SESSION && records[seen].what == SESSION_WAS_LOST;
    }
    free(records);
    for (int kind = 0; kind < FAULT_KINDS; kind++)
        faults += n->done[kind];
    fprintf(stderr, "%4lld s  %8lld locks  %5lld sessions lost  %5d faults, %d now\n",
            (long long)((oracle_now_ns() - began_ns) / 1000000000), grants, losses, faults, n->n);
}
