#include "torture/judge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "etcdlock.h"
#include "torture/resource.h"

/* What a busy machine may add to a documented bound. */
enum { SLACK_MS = 2000 };

void breach(breaches *b, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    if (b->n < MOST_BREACHES) vsnprintf(b->text[b->n], BREACH_ROOM, format, words);
    b->n++;
    va_end(words);
}

static oracle_record *read_history(const char *folder, size_t *n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/history", folder);
    FILE *file = fopen(path, "rbe");
    if (!file || fseek(file, 0, SEEK_END) != 0) abort();
    *n = (size_t)ftell(file) / sizeof(oracle_record);
    rewind(file);
    oracle_record *records = calloc(*n + 1, sizeof *records);
    if (!records || fread(records, sizeof *records, *n, file) != *n) abort();
    fclose(file);
    return records;
}

static int lock_of(const char *name)
{
    int lock = 0;
    while (lock < LOCKS && strcmp(name, lock_name(lock)) != 0)
        lock++;
    return lock;
}

/* ---- the holds
 * ------------------------------------------------------------------------------------------------- */

/* A hold ends with its process, and, as far as the rules go, when an operator breaks it: nobody can promise
 * anything from then on. False: nothing is left of the record. */
static bool clip(const story *s, oracle_record *r)
{
    if (r->event == ORACLE_WRITE) return true;
    const story_hold *held = story_find(s, lock_of(r->name), r->token);
    int64_t end_ns = story_death_ns(s, r->pid, r->at_ns);
    if (held) {
        int64_t broken_ns = story_break_ns(s, held->lock, held->token, held->lease);
        if (broken_ns < end_ns) end_ns = broken_ns;
    }
    if (r->event != ORACLE_ENTER && r->at_ns > end_ns) return false;
    if (r->valid_until_ns > end_ns) r->valid_until_ns = end_ns;
    return true;
}

static void judge_holds(judgement *j, const story *s, oracle_record *records, size_t n, const char *folder)
{
    char path[512];
    oracle judged;
    snprintf(path, sizeof path, "%s/history-judged", folder);
    unlink(path);
    oracle_open(&judged, path);
    for (size_t i = 0; i < n; i++) {
        oracle_record r = records[i];
        if (clip(s, &r)) oracle_append(&judged, &r);
    }
    oracle_close(&judged);
    if (!oracle_judge(path, &j->holds)) breach(&j->breaches, "%s", j->holds.breach);
    unlink(path);
}

/* ---- the writes
 * ------------------------------------------------------------------------------------------------ */

static void judge_writes(judgement *j, const story *s, const oracle_record *records, size_t n, int lock,
                         const char *folder)
{
    size_t writes_n;
    resource_write *writes = resource_read(folder, lock, &writes_n);
    bool *told = calloc(writes_n + 1, sizeof *told);
    if (!told) abort();
    for (size_t i = 0; i < n; i++) {
        const oracle_record *r = &records[i];
        if (r->event != ORACLE_WRITE || strcmp(r->name, lock_name(lock)) != 0) continue;
        bool is_there = r->order >= 1 && (size_t)r->order <= writes_n && !told[r->order - 1] &&
                        writes[r->order - 1].token == r->token && writes[r->order - 1].tid == r->tid;
        if (is_there)
            told[r->order - 1] = true;
        else
            breach(&j->breaches, "an accepted write is lost: lock %s, token %llu, number %lld", r->name,
                   (unsigned long long)r->token, (long long)r->order);
    }
    for (size_t i = 0; i < writes_n; i++) {
        const resource_write *w = &writes[i];
        if (w->counter != (int64_t)i + 1 || (i > 0 && w->token < writes[i - 1].token))
            breach(&j->breaches, "the resource of %s has write %lld, token %llu, in place %zu",
                   lock_name(lock), (long long)w->counter, (unsigned long long)w->token, i + 1);
        if (told[i]) continue;
        j->untold_writes++;
        /* Killed between the write and the word; then it was the thread's last one. */
        bool was_last = true;
        for (size_t k = i + 1; k < writes_n; k++)
            was_last = was_last && writes[k].tid != w->tid;
        if (!was_last || story_death_ns(s, w->pid, 0) == INT64_MAX)
            breach(&j->breaches, "a write nobody told of: lock %s, token %llu", lock_name(lock),
                   (unsigned long long)w->token);
    }
    j->writes += writes_n;
    free(told);
    free(writes);
}

/* ---- the calls
 * ------------------------------------------------------------------------------------------------- */

static bool was_cancelled(const story *s, const tale_record *call)
{
    const story_list *cancels = &s->kinds[TALE_CANCEL];
    for (size_t i = 0; i < cancels->n; i++) {
        const tale_record *r = cancels->at[i];
        if (r->pid == call->pid && r->lock == call->lock && r->at_ns >= call->at_ns &&
            r->at_ns <= call->at_ns + call->span_ns + SLACK_MS * INT64_C(1000000))
            return true;
    }
    return story_death_ns(s, call->pid, call->at_ns) != INT64_MAX;
}

/* What the header says of each call, as far as it can happen here. */
static bool is_documented(const story *s, const tale_record *call)
{
    switch (call->code) {
    case 0:
    case ETCDLOCK_ESESSION:
        return true;
    case ETCDLOCK_EENTRY:
        for (size_t i = 0; i < s->kinds[TALE_BREAK].n; i++)
            if (s->kinds[TALE_BREAK].at[i]->lease == call->lease) return true;
        return story_resumed_ns(s, call->lease) != INT64_MAX;
    case ECANCELED:
        return was_cancelled(s, call);
    case ETIMEDOUT:
        return call->what == CALL_LOCK_FOR;
    case EBUSY:
    case ETCDLOCK_EUNREACHABLE:
    case ETCDLOCK_EUNKNOWN:
        return call->what == CALL_TRY;
    default:
        return false;
    }
}

static void judge_calls(judgement *j, const story *s)
{
    const story_list *calls = &s->kinds[TALE_CALL], *odd = &s->kinds[TALE_ODD];
    for (size_t i = 0; i < calls->n; i++) {
        const tale_record *r = calls->at[i];
        if (!is_documented(s, r))
            breach(&j->breaches, "%s returned %d (%s), client %d process %d/%d, at %lld ns after %lld ms",
                   call_name(r->what), r->code, etcdlock_strerror(r->code), r->slot, r->pid, r->tid,
                   (long long)r->at_ns, (long long)(r->span_ns / 1000000));
        if (r->what == CALL_LOCK) continue;
        int64_t late_ms = r->span_ns / 1000000 - r->asked_ms;
        int64_t *latest_ms = r->what == CALL_TRY ? &j->longest_try_ms : &j->latest_for_ms;
        if (late_ms <= *latest_ms) continue;
        late_ms -= story_stopped_ns(s, r->pid, r->at_ns, r->at_ns + r->span_ns) / 1000000;
        if (late_ms > *latest_ms) *latest_ms = late_ms;
        if (late_ms > COMMAND_TIMEOUT_MS + SLACK_MS)
            breach(&j->breaches, "%s for %lld ms took %lld ms, client %d process %d/%d, at %lld ns",
                   call_name(r->what), (long long)r->asked_ms, (long long)(r->span_ns / 1000000), r->slot,
                   r->pid, r->tid, (long long)r->at_ns);
    }
    for (size_t i = 0; i < odd->n; i++)
        breach(&j->breaches, "client %d process %d met, in line %d, result %d (%s)", odd->at[i]->slot,
               odd->at[i]->pid, odd->at[i]->what, odd->at[i]->code, etcdlock_strerror(odd->at[i]->code));
}

/* ---- the losses
 * ------------------------------------------------------------------------------------------------ */

static bool was_called_back(const story *s, const tale_record *loss)
{
    const story_list *losses = &s->kinds[TALE_LOSS];
    for (size_t i = 0; i < losses->n; i++) {
        const tale_record *r = losses->at[i];
        if (r->what == HOW_CALLBACK && r->pid == loss->pid && r->token == loss->token) return true;
    }
    return false;
}

static void judge_losses(judgement *j, const story *s)
{
    const story_list *losses = &s->kinds[TALE_LOSS];
    for (size_t i = 0; i < losses->n; i++) {
        const tale_record *r = losses->at[i];
        if (r->what == HOW_CALLBACK || r->token == 0) continue;
        bool is_told = was_called_back(s, r);
        j->lost++;
        j->told += is_told;
        if (!is_told && r->what != HOW_UNLOCK && story_death_ns(s, r->pid, r->at_ns) == INT64_MAX)
            breach(&j->breaches,
                   "no callback told client %d process %d/%d of the loss of %s, token %llu, at %lld ns",
                   r->slot, r->pid, r->tid, lock_name(r->lock), (unsigned long long)r->token,
                   (long long)r->at_ns);
        if (r->code == ETCDLOCK_EENTRY && story_break_ns(s, r->lock, r->token, r->lease) > r->at_ns)
            breach(&j->breaches,
                   "client %d process %d/%d was told that %s, token %llu, was deleted, at %lld ns", r->slot,
                   r->pid, r->tid, lock_name(r->lock), (unsigned long long)r->token, (long long)r->at_ns);
    }
}

void judge_recovery(breaches *b, const story *s, int64_t from_ns, int64_t to_ns)
{
    int grants[CLIENTS] = {0};
    for (size_t i = 0; i < s->kinds[TALE_ENTER].n; i++) {
        const tale_record *r = s->kinds[TALE_ENTER].at[i];
        if (r->at_ns >= from_ns && r->at_ns <= to_ns) grants[r->slot]++;
    }
    for (int i = 0; i < CLIENTS; i++)
        if (grants[i] == 0) breach(b, "client %d was granted nothing after everything was healed", i);
}

void judge_run(judgement *j, const story *s, const char *folder)
{
    size_t n;
    oracle_record *records = read_history(folder, &n);
    judge_holds(j, s, records, n, folder);
    for (int lock = 0; lock < LOCKS; lock++)
        judge_writes(j, s, records, n, lock, folder);
    judge_calls(j, s);
    judge_losses(j, s);
    free(records);
}
