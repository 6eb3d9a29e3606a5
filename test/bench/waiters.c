#include "bench/waiters.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/ledger.h"

enum { WAITERS = 10000 };

static const struct {
    const char *key; /* in what the program tells */
    const char *measure;
    const char *unit;
} figures[] = {
    {"bytes_each", "memory each", "B"},   {"heap_each", "whole heap each", "B"},
    {"threads", "threads", ""},           {"connections", "connections", ""},
    {"all_threads", "with gRPC's", ""},   {"descriptors", "descriptors", ""},
    {"enter_s", "all have entered", "s"}, {"serve_s", "all are served", "s"},
};
enum { FIGURES_TOLD = sizeof figures / sizeof *figures };

/* One run of a program that tells such an object; NULL, and a failure noted, if it does not. */
static cJSON *run(bench *b, const char *program, const char *mode)
{
    char command[1200], line[1024] = "";
    const squad_order order = bench_order(b, PARTY_OURS, mode, 1, 1);
    fprintf(stderr, "  waiters-10000: %s                         \r", mode);
    snprintf(command, sizeof command, "'%s' %s '%s' %s %d", program, mode, b->endpoints, order.name, WAITERS);
    FILE *out = popen(command, "r");
    if (!out || !fgets(line, sizeof line, out)) line[0] = '\0';
    if (out && pclose(out) != 0) line[0] = '\0';
    cJSON *told = cJSON_Parse(line);
    if (told) return told;
    fprintf(stderr, "bench: TROUBLE: waiters-10000: %s failed\n", command);
    b->failures++;
    return NULL;
}

static double number(const cJSON *told, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(told, key);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

void waiters_run(bench *b)
{
    char program[512];
    snprintf(program, sizeof program, "%s/waiters_ours", b->folder);
    bool has_go = party_is_there(b, PARTY_GO, "waiters-10000");
    cJSON *ours = run(b, program, "waiters");
    cJSON *go = ours && has_go ? run(b, b->parties[PARTY_GO].program, "waiters") : NULL;
    for (int i = 0; ours && i < FIGURES_TOLD; i++) {
        double theirs = number(go, figures[i].key);
        ledger_add(&(ledger_row){.name = "waiters-10000",
                                 .measure = figures[i].measure,
                                 .unit = figures[i].unit,
                                 .less_is_better = true,
                                 .ours = number(ours, figures[i].key),
                                 .peer = isnan(theirs) ? NULL : party_name(PARTY_GO),
                                 .peer_value = theirs});
    }
    cJSON_Delete(ours);
    cJSON_Delete(go);
}
