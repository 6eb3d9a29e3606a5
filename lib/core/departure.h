/* Waiting until one entry is gone: the key deleted, or taken by a later entry of the same name.
 *
 * The rule. `seen_revision` is a revision at which the entry was known to exist. A watch that has been in
 * place since a revision no later than that misses nothing. A watch placed later is followed by one read of
 * the key, on the member of the watch, serializable: the entry is gone if the key is absent or has another
 * create_revision. The read counts only from the entry's create_revision on, since a member that lags may not
 * have heard of the entry yet. */
#ifndef EL_DEPARTURE_H
#define EL_DEPARTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/rpc.h"
#include "core/timer.h"
#include "core/watch.h"

struct etcdlock_client;
typedef struct el_departure el_departure;

typedef struct el_departure_calls {
    /* The entry is gone at `revision`, as the member `endpoint` has it. The departure is over. */
    void (*gone)(el_departure *departure, int64_t revision, unsigned endpoint);
    /* It cannot be waited for: EACCES or ENOMEM. The departure is over. */
    void (*failed)(el_departure *departure, const el_failure *failure);
    /* It is over since a while and has now become idle. */
    void (*settled)(el_departure *departure);
} el_departure_calls;

/* All zero is one that is not under way. */
struct el_departure {
    const el_departure_calls *calls;
    struct etcdlock_client *client;
    el_watcher watcher;
    el_span key; /* the owner's; in place until the departure is over and idle */
    int64_t create_revision;
    int64_t seen_revision;
    bool is_waiting;
    bool is_near;      /* worth reading ahead of a watch that may be late */
    bool read_is_late; /* its answer is no longer wanted */
    bool is_behind;    /* the member showed a revision below the entry's: ask the leader */
    bool read_again;   /* the watch was placed anew while a read was under way */
    unsigned reads;
    el_timer next_read;
    struct el_departure_read *read; /* under way: the struct has to stay in place */
};

void el_departure_start(el_departure *departure, struct etcdlock_client *client, el_span key,
                        int64_t create_revision, int64_t seen_revision, bool is_near);

/* Ends the wait without a callback. */
void el_departure_stop(el_departure *departure);

/* True when nothing of it is with the transport any more, so that its memory may go. */
bool el_departure_is_idle(const el_departure *departure);

#endif
