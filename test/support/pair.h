/* Two clients over a simulated etcd that go through one fixed story: both lock the same mutex, one after the
 * other, and write under it. For making the n-th allocation or the n-th call of it fail, over every n. */
#ifndef PAIR_H
#define PAIR_H

#include <stdbool.h>

#include "core/client.h"
#include "core/guard.h"
#include "recipes/mutex.h"
#include "support/sim.h"

typedef struct pair_side {
    el_transport *transport;
    el_client *client; /* NULL: could not be made */
    el_session *session;
    el_mutex *mutex;
    el_hold *hold;
    bool is_done; /* the operation begun last has ended */
    int error;    /* and so */
    el_guard_call write;
    el_op operations[2];
    bool has_written; /* and was told so */
    bool may_have_written;
} pair_side;

typedef struct pair {
    sim *sim;
    pair_side sides[2];
    unsigned flags; /* of the mutexes; may be set by `prepare` */
    bool both_held; /* at the same time: must never be */
} pair;

/* Tells the story, with whatever fails in it, then lets nothing fail any more, settles, and ends everything.
 * `prepare` is called when the transports are there. Returns NULL, or what was wrong in the end. */
const char *pair_tell(pair *p, void (*prepare)(pair *p, void *context), void *context);

#endif
