/* The guard of a hold: the writes that count only while its entry stands, each at most once and in order.
 *
 * A record beside the entry, `KEY/guard`, carries the number of the last write that was applied. Write n is
 * the transaction "the entry still has our create_revision and the record has not changed since we know it:
 * set it to n, and do this". So of all the attempts at all the writes only one can be applied at a time, and
 * each one makes those that are still on their way to etcd void. If it fails with the entry in place, the
 * record tells: it says n if an earlier attempt was applied and its answer lost, else it was moved by an
 * earlier write that was given up unanswered, and the same write is sent again from where the record now
 * stands.
 *
 * The record has the lease of the entry. Unlock deletes both at once; where somebody else has deleted the
 * entry, the contender sweeps the record away (contender_leave.c). */
#ifndef EL_GUARD_H
#define EL_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/contender.h"
#include "core/error.h"
#include "core/list.h"
#include "core/rpc.h"
#include "transport/transport.h"

typedef struct el_guard_call el_guard_call;

typedef struct el_guard_end {
    /* error 0: applied. The loss of the lock: not applied, now or later. EUNKNOWN: nobody knows. */
    el_failure failure;
    bool succeeded; /* the branch that was taken */
    int64_t revision;
    const el_range_answer *range; /* of a read; lives while `done` runs */
} el_guard_end;

/* One write, or read, on its way. The caller keeps it, and what it points to, in place until done. Operation
 * 0 of each branch is left free: it becomes the record's. */
struct el_guard_call {
    bool is_read; /* success[1], a range, is all there is */
    const el_compare *compares;
    size_t n_compares;
    el_op *success;
    size_t n_success; /* with operation 0 */
    el_op *failure;   /* not looked at where there are no compares */
    size_t n_failure;
    int64_t deadline_ns;
    void (*done)(el_guard_call *call, const el_guard_end *end); /* exactly once */
    void *user;                                                 /* of whoever waits */

    el_list link; /* while it waits for those before it */
    int64_t number;
    bool maybe_applied; /* an attempt is unaccounted for */
};

enum { EL_GUARD_TEXT_MAX = 48 };

struct el_guard {
    el_contender *contender;
    el_list waiting;
    el_guard_call *call; /* the one under way */
    int64_t number;      /* of the last write */
    int64_t revision;    /* mod_revision of the record as last learned; 0: there is none */
    bool is_unsettled;   /* a write that was given up may have been applied, or may yet be */
    bool is_plain;       /* what is under way is a read that moves no record */
    bool is_answering;   /* an answer is being looked at */
    el_failure stopped;  /* the hold is over, for this reason */
    el_rpc rpc;
    el_txn_request nested;
    el_compare compares[2];
    el_op success;
    el_op failure[2];
    el_op leave[3]; /* room for what the contender deletes when it leaves */
    el_compare sweep;
    char texts[2][EL_GUARD_TEXT_MAX]; /* the record after either branch */
    el_span key;                      /* of the record */
    char bytes[];
};

typedef struct el_guard el_guard;

/* The guard of a contender that holds, made if need be; NULL if memory runs out. */
el_guard *el_guard_of(el_contender *contender);

/* Begins as soon as the calls before it have ended. Requires that the contender holds. */
void el_guard_submit(el_guard *guard, el_guard_call *call);

/* The hold is over: what has not been sent ends at once with this failure, what is under way soon; where only
 * the entry is gone (EENTRY), when etcd has answered. */
void el_guard_stop(el_guard *guard, const el_failure *failure);

/* True when nothing of it is under way, so that its memory may go. */
bool el_guard_is_idle(const el_guard *guard);

/* Deletes what of the record may be there at `revision`, which is later than the end of the entry. */
el_txn_request el_guard_sweep(el_guard *guard, int64_t revision);

#endif
