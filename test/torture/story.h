/* The records of a torture run put in order, and the questions that judge and report ask them. */
#ifndef TORTURE_STORY_H
#define TORTURE_STORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "torture/tale.h"

/* A stay in a lock as its thread saw it. */
typedef struct story_hold {
    int lock, pid, tid, slot;
    uint64_t token;
    int64_t lease;
    int64_t enter_ns, leave_ns; /* leave: INT64_MAX if it never came to it */
} story_hold;

/* Pointers into records, each kind by itself in the order of writing. */
typedef struct story_list {
    const tale_record **at;
    size_t n;
} story_list;

typedef struct story {
    tale_record *records;
    size_t n;
    story_list kinds[TALE_ODD + 1];
    story_hold *holds; /* by lock and token */
    size_t holds_n;
} story;

/* What may have cost a client its session. */
typedef enum story_cause {
    CAUSE_OPERATOR,
    CAUSE_RESUMED, /* see story_resumed_ns */
    CAUSE_STOPPED, /* the process itself */
    CAUSE_NETWORK, /* its proxies */
    CAUSE_MEMBER,  /* a member or the leader */
    CAUSE_NONE,
    CAUSES,
} story_cause;

void story_read(story *s, const char *folder);
void story_free(story *s);

/* When that process was killed, if it was after the given time; else INT64_MAX. */
int64_t story_death_ns(const story *s, int pid, int64_t after_ns);
/* When a member that had been stopped went on, if the lease was lost so soon after that this may be why: a
 * leader that was stopped finds leases expired which others have renewed since, and etcd without its pull
 * request 16822, such as 3.4.23, ends them at its word (issue 12528). Then no client can know in time. That
 * the member had led is not asked. INT64_MAX: none did. */
int64_t story_resumed_ns(const story *s, int64_t lease);
/* When an operator, or such a member, ended that hold; INT64_MAX: never. */
int64_t story_break_ns(const story *s, int lock, uint64_t token, int64_t lease);
/* The hold of a token; NULL: none. */
const story_hold *story_find(const story *s, int lock, uint64_t token);
/* For how long of that time a process was stopped. */
int64_t story_stopped_ns(const story *s, int pid, int64_t from_ns, int64_t to_ns);
/* The cause of a loss of session, the most obvious one first. */
story_cause story_cause_of(const story *s, const tale_record *lost);
const char *story_cause_name(int cause);

#endif
