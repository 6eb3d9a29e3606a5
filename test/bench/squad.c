#include "bench/squad.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NUMBER_ROOM = 16 };

extern char **environ;

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(EXIT_FAILURE);
}

/* ---- starting and ending ---------------------------------------------------------------------------- */

static void start_member(squad *s, int i, const squad_order *order)
{
    char contenders[NUMBER_ROOM], first[NUMBER_ROOM], total[NUMBER_ROOM], ttl[NUMBER_ROOM];
    int each = order->contenders / order->processes, in[2], out[2];
    snprintf(contenders, sizeof contenders, "%d", each);
    snprintf(first, sizeof first, "%d", i * each);
    snprintf(total, sizeof total, "%d", order->contenders);
    snprintf(ttl, sizeof ttl, "%d", order->ttl_s);
    const char *words[] = {
        order->program, order->mode, order->endpoints, order->name, contenders, first, total, ttl, NULL};
    posix_spawn_file_actions_t actions;
    /* Close-on-exec, or a sister would keep the input of one that is to end open. */
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) give_up("no pipe to be had");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    if (posix_spawn(&s->members[i].pid, order->program, &actions, NULL, (char *const *)(uintptr_t)words,
                    environ))
        give_up(order->program);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    s->members[i].to = in[1];
    s->members[i].from = fdopen(out[0], "r");
    if (!s->members[i].from) give_up("memory is short");
}

void squad_start(squad *s, const squad_order *order)
{
    if (order->processes > SQUAD_MOST || order->contenders % order->processes) give_up("too many processes");
    s->n = order->processes;
    for (int i = 0; i < s->n; i++)
        start_member(s, i, order);
    for (int i = 0; i < s->n; i++) {
        char line[64] = "";
        if (!fgets(line, sizeof line, s->members[i].from) || strcmp(line, "ready\n") != 0)
            give_up("a worker did not become ready");
    }
}

void squad_go(squad *s, int64_t end_us)
{
    for (int i = 0; i < s->n; i++) {
        if (dprintf(s->members[i].to, "go %lld\n", (long long)end_us) < 0) give_up("a worker has ended");
    }
}

static void reap(squad *s)
{
    for (int i = 0; i < s->n; i++) {
        close(s->members[i].to);
        fclose(s->members[i].from);
    }
    for (int i = 0; i < s->n; i++)
        waitpid(s->members[i].pid, NULL, 0);
}

void squad_dismiss(squad *s)
{
    reap(s);
}

void squad_kill(squad *s)
{
    for (int i = 0; i < s->n; i++)
        kill(s->members[i].pid, SIGKILL);
    reap(s);
}

/* ---- what they tell --------------------------------------------------------------------------------- */

static int integer(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item)) give_up("a worker's report lacks a number");
    return item->valueint;
}

static void add_contender(slice *out, const cJSON *contender)
{
    const cJSON *at = cJSON_GetObjectItemCaseSensitive(contender, "at_us");
    const cJSON *span = cJSON_GetObjectItemCaseSensitive(contender, "span_us");
    int number = integer(contender, "number");
    out->errors += integer(contender, "errors");
    out->losses += integer(contender, "losses");
    size_t more = (size_t)cJSON_GetArraySize(at);
    out->all = realloc(out->all, (out->n + more + 1) * sizeof *out->all);
    if (!out->all) give_up("memory is short");
    for (at = at ? at->child : NULL, span = span ? span->child : NULL; at && span;
         at = at->next, span = span->next) {
        int64_t at_us = (int64_t)at->valuedouble;
        if (at_us < out->begin_us || at_us > out->end_us) continue;
        out->all[out->n++] = (sample){at_us, (int64_t)span->valuedouble, number};
    }
}

static void add_report(slice *out, const char *line)
{
    cJSON *report = cJSON_Parse(line);
    const cJSON *complaint = cJSON_GetObjectItemCaseSensitive(report, "complaint"), *contender;
    if (!cJSON_IsString(complaint)) give_up("a worker told nothing");
    if (!out->complaint[0]) snprintf(out->complaint, sizeof out->complaint, "%s", complaint->valuestring);
    cJSON_ArrayForEach(contender, cJSON_GetObjectItemCaseSensitive(report, "contenders"))
        add_contender(out, contender);
    cJSON_Delete(report);
}

static int by_time(const void *a, const void *b)
{
    const sample *x = a, *y = b;
    return (x->at_us > y->at_us) - (x->at_us < y->at_us);
}

void squad_collect(squad *s, slice *out, int64_t begin_us, int64_t end_us)
{
    char *line = NULL;
    size_t room = 0;
    *out = (slice){.begin_us = begin_us, .end_us = end_us};
    for (int i = 0; i < s->n; i++) {
        if (getline(&line, &room, s->members[i].from) <= 0) give_up("a worker has died");
        add_report(out, line);
    }
    free(line);
    if (out->n > 0) qsort(out->all, out->n, sizeof *out->all, by_time);
}

void slice_free(slice *s)
{
    free(s->all);
    *s = (slice){0};
}
