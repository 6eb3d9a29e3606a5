#include <stdio.h>
#include <string.h>

#include "bench/ledger.h"

/* Each with a column of its own; what other rows are compared with is said in the last column. */
static const struct {
    const char *peer;
    const char *title;
} columns[] = {{"floor", "floor"}, {"go", "Go"}, {"redlock", "Redlock"}, {"zookeeper", "ZooKeeper"}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static bool is_about_same(const cJSON *a, const cJSON *b)
{
    return strcmp(ledger_text(a, "name"), ledger_text(b, "name")) == 0 &&
           strcmp(ledger_text(a, "measure"), ledger_text(b, "measure")) == 0;
}

/* The first of the rows that are about one figure prints the line for all of them. */
static bool is_first(const cJSON *rows, const cJSON *row)
{
    const cJSON *other = rows->child;
    while (other != row && !is_about_same(other, row))
        other = other->next;
    return other == row;
}

static bool has_column(const cJSON *row)
{
    for (int i = 0; i < COLUMNS; i++)
        if (strcmp(ledger_text(row, "peer"), columns[i].peer) == 0) return true;
    return false;
}

static void print_peer(const cJSON *rows, const cJSON *about, const char *peer)
{
    char value[LEDGER_NUMBER_ROOM], ratio[LEDGER_NUMBER_ROOM];
    const cJSON *row;
    cJSON_ArrayForEach(row, rows)
    {
        if (!is_about_same(row, about) || strcmp(ledger_text(row, "peer"), peer) != 0) continue;
        printf(" %s", ledger_number(value, row, "peer_value"));
        if (*ledger_number(ratio, row, "ratio")) printf(" (%s x)", ratio);
    }
    printf(" |");
}

static void print_remarks(const cJSON *rows, const cJSON *about)
{
    char value[LEDGER_NUMBER_ROOM];
    const char *last_goal = "", *separator = " ";
    const cJSON *row;
    cJSON_ArrayForEach(row, rows)
    {
        const char *peer = ledger_text(row, "peer"), *goal = ledger_text(row, "goal");
        const cJSON *met = cJSON_GetObjectItemCaseSensitive(row, "met");
        if (!is_about_same(row, about)) continue;
        if (*peer && !has_column(row)) {
            printf("%s%s: %s", separator, peer, ledger_number(value, row, "peer_value"));
            separator = "; ";
        }
        /* A goal that is not about a peer stands beside each of them. */
        if (!met || strcmp(goal, last_goal) == 0) continue;
        bool is_ratio = strchr(goal, 'x') != NULL;
        printf("%sgoal %s%s%s: %s", separator, goal, is_ratio ? " " : "", is_ratio ? peer : "",
               cJSON_IsTrue(met) ? "met" : "**missed**");
        last_goal = goal;
        separator = "; ";
    }
    printf(" |\n");
}

void ledger_print_markdown(const char *path)
{
    char ours[LEDGER_NUMBER_ROOM];
    const cJSON *row;
    cJSON *rows = ledger_read(path);
    printf("| case | figure | unit | ours |");
    for (int i = 0; i < COLUMNS; i++)
        printf(" %s |", columns[i].title);
    printf(" |\n|---|---|---|---:|");
    for (int i = 0; i < COLUMNS; i++)
        printf("---:|");
    printf("---|\n");
    cJSON_ArrayForEach(row, rows)
    {
        if (cJSON_HasObjectItem(row, "skipped") || !is_first(rows, row)) continue;
        printf("| %s | %s | %s | %s |", ledger_text(row, "name"), ledger_text(row, "measure"),
               ledger_text(row, "unit"), ledger_number(ours, row, "ours"));
        for (int i = 0; i < COLUMNS; i++)
            print_peer(rows, row, columns[i].peer);
        print_remarks(rows, row);
    }
    cJSON_Delete(rows);
}
