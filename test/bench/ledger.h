/* The results: a list of JSON objects in a file, which is whole after each addition, and tables made from it.
 */
#ifndef BENCH_LEDGER_H
#define BENCH_LEDGER_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/* Begins an empty list in this file, or goes on with the one that is there. */
void ledger_open(const char *path, bool goes_on);

typedef struct ledger_row {
    const char *name;    /* of the case */
    const char *measure; /* which of its figures */
    const char *unit;
    bool less_is_better;
    double ours;
    const char *peer;  /* what ours is measured against; NULL: nothing */
    double peer_value; /* NAN: the peer has none */
} ledger_row;

/* Adds a row and says it on standard error. */
void ledger_add(const ledger_row *row);

/* Notes that a peer had no part. */
void ledger_skip(const char *name, const char *peer, const char *why);

/* Prints the list of that file, and how many goals were missed. */
void ledger_print(const char *path);
/* Prints it as a table in Markdown, a line for each figure. */
void ledger_print_markdown(const char *path);

/* ---- for those who print ---------------------------------------------------------------------------- */

/* The list of that file; exits if there is none. Free it with cJSON_Delete. */
cJSON *ledger_read(const char *path);
/* A field of a row; "" if there is none. */
const char *ledger_text(const cJSON *row, const char *key);
/* A number of a row with three digits that count, and none after the point from 100 on; "" if there is none.
 */
enum { LEDGER_NUMBER_ROOM = 32 };
const char *ledger_number(char buffer[LEDGER_NUMBER_ROOM], const cJSON *row, const char *key);

#endif
