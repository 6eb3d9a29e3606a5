/* What a torture run comes to in figures: text for people, or one JSON object. */
#ifndef TORTURE_REPORT_H
#define TORTURE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "torture/judge.h"
#include "torture/nemesis.h"

typedef struct report {
    uint64_t seed;
    int64_t began_ns;
    int64_t ended_ns;
    int64_t rss_begin_kb, rss_end_kb; /* of the client that lives from the beginning to the end */
    int failed;                       /* compactions, moves of the leader and restarts that came to nothing */
    int left_out;                     /* faults of the schedule */
    bool is_json;
} report;

void report_print(const report *r, const story *s, const judgement *j);
/* A line on how far it has come, to standard error. */
void report_progress(const char *folder, int64_t began_ns, const nemesis *n);

#endif
