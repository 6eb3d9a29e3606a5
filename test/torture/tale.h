/* What the clients and the nemesis of a torture run did and met, one record each in one file: the report's
 * figures come from here, while the holds themselves go to the oracle. Times are those of oracle_now_ns. */
#ifndef TORTURE_TALE_H
#define TORTURE_TALE_H

#include <stddef.h>
#include <stdint.h>

enum {
    LOCKS = 3,
    CLIENTS = 8,
    MEMBERS = 3,
    COMMAND_TIMEOUT_MS = 5000,
    LONGEST_TTL_S = 6,
};
#define TORTURE_PREFIX "torture/"

typedef enum tale_kind {
    TALE_STARTED = 1, /* a client process; what: its time to live */
    TALE_KILLED,      /* it is dead, by the nemesis */
    TALE_SESSION,     /* what: tale_session */
    TALE_CALL,        /* a lock call has returned; what: tale_call */
    TALE_ENTER,       /* it was granted */
    TALE_LOSS,        /* a hold was lost; what: tale_how */
    TALE_UNLOCK,      /* code: what it returned */
    TALE_REFUSED,     /* the resource refused a write */
    TALE_CANCEL,      /* etcdlock_mutex_cancel was called */
    TALE_FAULT,       /* what: fault_kind; from at_ns for span_ns */
    TALE_BREAK,       /* an operator ends a lease (token 0), or the hold of a token, from now on */
    TALE_ODD,         /* something that must not be; what: the line, code: the result */
} tale_kind;

typedef enum tale_call { CALL_LOCK, CALL_LOCK_FOR, CALL_TRY, CALL_KINDS } tale_call;
typedef enum tale_session {
    SESSION_OPENED,
    SESSION_NOT_OPENED,
    SESSION_WAS_LOST,
    SESSION_CLOSED
} tale_session;
/* How a holder learned of its loss. */
typedef enum tale_how { HOW_CALLBACK, HOW_DESCRIPTOR, HOW_ENSURE, HOW_TOKEN, HOW_UNLOCK, HOW_KINDS } tale_how;

typedef struct tale_record {
    int32_t kind, slot, pid, tid;
    int32_t what, code;
    int32_t lock;   /* its index; -1: none */
    int32_t target; /* of a fault: member from 0, slot, or -1 */
    int64_t at_ns;
    int64_t span_ns;
    int64_t asked_ms; /* by lock_for */
    int64_t lease;
    uint64_t token;
} tale_record;

/* Opens the file for appending, for this process. Aborts if it cannot, as all of these do. */
void tale_open(const char *folder);
/* Appends; at_ns is set if it is 0, pid and tid are set if pid is 0. */
void tale_tell(tale_record record);
/* All records so far, to be freed. */
tale_record *tale_read(const char *folder, size_t *n);

/* The slot of who holds the lock, as far as the end of the file says; -1: nobody, or it does not say. */
int tale_holder(const char *folder, int lock);

const char *call_name(int call);
const char *how_name(int how);
/* The lock's name for the library and the oracle. */
const char *lock_name(int lock);

#endif
