/* Judges what all processes together did with their locks: each appends what it does to one file, and at the
 * end the file is held against the rules. Times are nanoseconds of CLOCK_BOOTTIME. */
#ifndef TEST_ORACLE_H
#define TEST_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { ORACLE_NAME_ROOM = 88 };

typedef enum oracle_event {
    ORACLE_ENTER = 1,
    ORACLE_STILL,  /* asked again: valid until a later time */
    ORACLE_UNLOCK, /* left by unlock */
    ORACLE_LOSS,   /* left, having been told of the loss */
    ORACLE_WRITE,  /* a fenced write was accepted */
    ORACLE_KILLED, /* this process was dead by then */
} oracle_event;

/* One record of the file, written at once, so that those of many writers do not mix. */
typedef struct oracle_record {
    char name[ORACLE_NAME_ROOM];
    int32_t event;
    int32_t shared; /* holds with others who share, as readers do */
    int32_t pid, tid;
    uint64_t token;
    int64_t at_ns;
    int64_t valid_until_ns; /* as the holder believes */
    int64_t order; /* of a write: the place among all writes where the store put it, such as its revision */
} oracle_record;

typedef struct oracle {
    int fd;
} oracle;

int64_t oracle_now_ns(void);

/* Opens the file, made if need be, for appending. Children may go on with it after a fork. Aborts if it
 * cannot, as all of these do. */
void oracle_open(oracle *o, const char *path);
void oracle_close(oracle *o);

/* To be called after the lock call has returned, and before the unlock call begins. A holder that dies
 * in between is taken to have held until the last time it named, or its recorded death. */
void oracle_enter(const oracle *o, const char *name, uint64_t token, int64_t valid_until_ns);
void oracle_enter_shared(const oracle *o, const char *name, uint64_t token, int64_t valid_until_ns);
void oracle_still(const oracle *o, const char *name, uint64_t token, int64_t valid_until_ns);
void oracle_leave(const oracle *o, const char *name, uint64_t token, int64_t valid_until_ns, bool lost);
void oracle_wrote(const oracle *o, const char *name, uint64_t token, int64_t order);
/* After waitpid has returned. */
void oracle_killed(const oracle *o, pid_t pid);
/* A record as it is, for histories made up. */
void oracle_append(const oracle *o, const oracle_record *record);

typedef struct oracle_verdict {
    char breach[400]; /* the first one found; "": none */
    size_t holds;
    size_t stale; /* of these, over before they were recorded: the process had been stopped in between */
    size_t losses;
    size_t writes;
    size_t kills;
} oracle_verdict;

/* True if the history keeps the rules:
 *  - nobody entered while another holder of the same lock had neither left nor passed the end of its own
 *    validity, save two who share;
 *  - a token is given once, and each is greater than those of the earlier grants of its lock;
 *  - in the order of the store, no accepted write carries a smaller token than one before it;
 *  - every record makes sense. */
bool oracle_judge(const char *path, oracle_verdict *verdict);

#endif
