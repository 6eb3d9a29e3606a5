/* Whether a torture run kept every rule. */
#ifndef TORTURE_JUDGE_H
#define TORTURE_JUDGE_H

#include <stdarg.h>

#include "support/oracle.h"
#include "torture/story.h"

enum { MOST_BREACHES = 40, BREACH_ROOM = 480 };

typedef struct breaches {
    char text[MOST_BREACHES][BREACH_ROOM];
    int n; /* all of them, also those without room for their text */
} breaches;

typedef struct judgement {
    breaches breaches;
    oracle_verdict holds;
    size_t writes;         /* accepted by the resources */
    size_t untold_writes;  /* of these, by a process killed before it could say so */
    int64_t latest_for_ms; /* by how much a lock_for was late at most */
    int64_t longest_try_ms;
    size_t told, lost; /* holds lost, and how many of these by the callback too */
} judgement;

void breach(breaches *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* All that can be judged from the files of the folder. */
void judge_run(judgement *j, const story *s, const char *folder);
/* Each client must have been granted a lock between these times, when nothing was wrong any more. */
void judge_recovery(breaches *b, const story *s, int64_t from_ns, int64_t to_ns);

#endif
