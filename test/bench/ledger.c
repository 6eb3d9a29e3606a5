#include "bench/ledger.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/goal.h"

static cJSON *list;
static const char *file;

static _Noreturn void give_up(const char *path, const char *why)
{
    fprintf(stderr, "bench: %s: %s\n", path, why);
    exit(EXIT_FAILURE);
}

cJSON *ledger_read(const char *path)
{
    FILE *in = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;
    if (!in || getdelim(&text, &room, '\0', in) <= 0) give_up(path, "cannot be read");
    fclose(in);
    cJSON *read = cJSON_Parse(text);
    free(text);
    if (!cJSON_IsArray(read)) give_up(path, "is not a list");
    return read;
}

static void save(void)
{
    char *text = cJSON_Print(list);
    FILE *out = fopen(file, "w");
    if (!text || !out || fprintf(out, "%s\n", text) < 0 || fclose(out)) give_up(file, "cannot be written");
    cJSON_free(text);
}

void ledger_open(const char *path, bool goes_on)
{
    file = path;
    list = goes_on ? ledger_read(path) : cJSON_CreateArray();
    if (!list) abort();
    save();
}

/* JSON knows no NAN. */
static void add_number(cJSON *row, const char *key, double number)
{
    if (isnan(number))
        cJSON_AddNullToObject(row, key);
    else
        cJSON_AddNumberToObject(row, key, number);
}

static void print_row(FILE *out, const cJSON *row);

void ledger_add(const ledger_row *r)
{
    char goal[GOAL_ROOM];
    const char *peer = r->peer ? r->peer : "";
    double ratio = r->less_is_better ? r->peer_value / r->ours : r->ours / r->peer_value;
    if (!r->peer || !isfinite(ratio)) ratio = (double)NAN;
    goal_verdict verdict =
        goal_judge(goal, r->name, r->measure, peer, r->ours, r->peer ? r->peer_value : (double)NAN, ratio);
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", r->name);
    cJSON_AddStringToObject(row, "measure", r->measure);
    add_number(row, "ours", r->ours);
    cJSON_AddStringToObject(row, "peer", peer);
    add_number(row, "peer_value", r->peer ? r->peer_value : (double)NAN);
    cJSON_AddStringToObject(row, "unit", r->unit);
    add_number(row, "ratio", ratio);
    if (verdict != GOAL_NONE) {
        cJSON_AddStringToObject(row, "goal", goal);
        cJSON_AddBoolToObject(row, "met", verdict == GOAL_MET);
    }
    cJSON_AddItemToArray(list, row);
    save();
    print_row(stderr, row);
}

void ledger_skip(const char *name, const char *peer, const char *why)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", name);
    cJSON_AddStringToObject(row, "peer", peer);
    cJSON_AddStringToObject(row, "skipped", why);
    cJSON_AddItemToArray(list, row);
    save();
    fprintf(stderr, "%-26s %s skipped: %s\n", name, peer, why);
}

/* ---- tables ------------------------------------------------------------------------------------------ */

const char *ledger_text(const cJSON *row, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, key));
    return text ? text : "";
}

const char *ledger_number(char buffer[LEDGER_NUMBER_ROOM], const cJSON *row, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, key);
    double number = item ? item->valuedouble : 0;
    buffer[0] = '\0';
    if (cJSON_IsNumber(item))
        snprintf(buffer, LEDGER_NUMBER_ROOM, "%.*f",
                 number == floor(number) || number >= 100 ? 0
                 : number >= 10                           ? 1
                                                          : 2,
                 number);
    return buffer;
}

static const char *verdict_of(const cJSON *row)
{
    const cJSON *met = cJSON_GetObjectItemCaseSensitive(row, "met");
    return !met ? "" : cJSON_IsTrue(met) ? "met" : "MISSED";
}

static void print_row(FILE *out, const cJSON *row)
{
    char ours[LEDGER_NUMBER_ROOM], theirs[LEDGER_NUMBER_ROOM], ratio[LEDGER_NUMBER_ROOM];
    fprintf(out, "%-26s %-14s %9s %-3s %-12s %9s  %7s  %-12s %s\n", ledger_text(row, "name"),
            ledger_text(row, "measure"), ledger_number(ours, row, "ours"), ledger_text(row, "unit"),
            ledger_text(row, "peer"), ledger_number(theirs, row, "peer_value"),
            ledger_number(ratio, row, "ratio"), ledger_text(row, "goal"), verdict_of(row));
}

void ledger_print(const char *path)
{
    const cJSON *row;
    int missed = 0;
    cJSON *rows = ledger_read(path);
    printf("%-26s %-14s %9s %-3s %-12s %9s  %7s  %s\n", "case", "figure", "ours", "", "against", "", "better",
           "goal");
    cJSON_ArrayForEach(row, rows)
    {
        missed += cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(row, "met"));
        if (cJSON_HasObjectItem(row, "skipped"))
            printf("%-26s %s skipped: %s\n", ledger_text(row, "name"), ledger_text(row, "peer"),
                   ledger_text(row, "skipped"));
        else
            print_row(stdout, row);
    }
    printf("%d goals missed\n", missed);
    cJSON_Delete(rows);
}
