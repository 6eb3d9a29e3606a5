/* One transaction of one place in a queue, on its way to etcd.
 *
 * Every enter, try and leave passes through here and nowhere else. Today each of them travels alone;
 * gathering those that come while another is in flight into one outer transaction changes this file only: an
 * answer is already handed out as revision + part, the way a nested one arrives. */
#ifndef EL_COMMIT_H
#define EL_COMMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/rpc.h"
#include "transport/transport.h"

struct etcdlock_client;
typedef struct el_commit el_commit;

typedef enum el_commit_kind {
    EL_COMMIT_ENTER, /* never two of one lock at one revision: they would tie in its queue */
    EL_COMMIT_LEAVE,
    EL_COMMIT_LOOK, /* reads only */
} el_commit_kind;

typedef struct el_commit_end {
    el_failure failure; /* error 0: answered */
    el_outcome outcome; /* of the last attempt */
    int64_t revision;
    const el_txn_answer *answer; /* NULL unless answered; lives while `done` runs */
} el_commit_end;

/* The owner keeps it, and all that the transaction points to, in place until done. */
struct el_commit {
    el_commit_kind kind;
    el_txn_request txn;
    int pinned;     /* LOOK: the one endpoint to ask, once; or EL_ANY_ENDPOINT */
    el_span folder; /* of the lock's queue */
    void (*done)(el_commit *commit, const el_commit_end *end);
    bool maybe_applied; /* an attempt is unaccounted for: it may have been applied, or may yet be */
    bool is_under_way;
    el_rpc rpc;
};

void el_commit_submit(struct etcdlock_client *client, el_commit *commit);

/* No further attempt; done follows soon. */
void el_commit_stop(el_commit *commit);

#endif
