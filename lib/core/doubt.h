/* A doubt whether the store is still the one that was seen before: an answer that any member gives by itself
 * shows an older revision. A member that lags does that, and so does a cluster that was restored from a
 * snapshot. */
#ifndef EL_DOUBT_H
#define EL_DOUBT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/rpc.h"
#include "transport/transport.h"

struct etcdlock_client;

typedef struct el_doubt {
    el_rpc rpc;
    bool is_under_way;
    char *key;
} el_doubt;

/* An answer showed `revision`. If that is below what is known, one linearizable read of the key settles it,
 * by way of el_client_take_revision; the key is one that the user may read, and is copied. */
void el_doubt_revision(struct etcdlock_client *client, int64_t revision, el_span key);

#endif
