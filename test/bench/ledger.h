/* The results: a list of JSON objects in a file, which is whole after each addition, and tables made from it.
 */
#ifndef BENCH_LEDGER_H
#define BENCH_LEDGER_H

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

/* Prints the list of that file, as text or as a table in Markdown. Returns how many goals were missed. */
int ledger_print(const char *path, bool is_markdown);

#endif
