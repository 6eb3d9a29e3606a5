/* The transactions of a place in a queue, and what their answers say: pure, it sends nothing. */
#ifndef EL_PLACE_H
#define EL_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/parts.h"
#include "core/queue.h"
#include "transport/transport.h"

/* One entry in one queue. */
typedef struct el_place {
    el_queue *queue;
    bool is_reader;
    unsigned slot;
    el_span key;
    el_span value; /* names this one acquisition: what makes a repeated write recognisable as ours */
    int64_t lease;
    int64_t create_revision; /* place in the queue and fencing token; 0: not known (yet) */
} el_place;

/* What an answer says about the queue, as of `revision`. */
typedef struct el_view {
    int64_t revision;
    bool is_mine_there;
    bool is_mine_ours; /* ... and carries our value */
    int64_t mine_create_revision;
    bool has_older;    /* somebody is before us */
    el_span older_key; /* the nearest one; lives as long as the answer */
    int64_t older_create_revision;
    bool is_older_first; /* he is the only one */
    bool is_unclear;     /* the nearest older key is no entry: look at the whole folder */
    bool is_malformed;   /* the answer has not the shape of the question */
} el_view;

/* Enters the queue unless our entry is there already. Safe to repeat. */
el_txn_request el_place_enter(const el_place *place, el_parts *parts);
el_view el_place_read_enter(const el_place *place, int64_t revision, const el_txn_answer *answer);

/* Enters the queue only if it is empty: a held lock costs no write. has_older says EBUSY. */
el_txn_request el_place_try(const el_place *place, el_parts *parts);
el_view el_place_read_try(const el_place *place, int64_t revision, const el_txn_answer *answer);

/* The same, but writes nothing where the queue is empty: then the answer has succeeded. A transaction that
 * only reads is no proposal to the cluster, which makes it twice as quick where a lock is found held. */
el_txn_request el_place_peek(const el_place *place, el_parts *parts);

/* Looks who is the nearest before us, and whether we are there. Requires the create_revision. */
el_txn_request el_place_look(const el_place *place, el_parts *parts, bool serializable, bool whole_folder);
el_view el_place_read_look(const el_place *place, int64_t revision, const el_txn_answer *answer);

/* Deletes our entry and no other: by its create_revision, or, while that is not known, by its value. */
el_txn_request el_place_leave(const el_place *place, el_parts *parts);

#endif
