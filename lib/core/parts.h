/* Parts of transactions: room for those of a small one, and what all of them are made of and answered with.
 */
#ifndef EL_PARTS_H
#define EL_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "transport/transport.h"

/* What a request points to. */
typedef struct el_parts {
    el_compare compare;
    el_op success[2];
    el_op failure[2];
} el_parts;

/* A linearizable look at one key. */
el_op el_range_of(el_span key, bool keys_only);

/* Number i of the answers, if it is one to a range; NULL: the answer has not the shape of the question. */
const el_range_answer *el_range_at(const el_txn_answer *answer, size_t i);

#endif
