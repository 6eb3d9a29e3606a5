/* The renewals of one session's lease, on the keepalive lane: at a third of the time to live; an attempt that
 * is not answered soon is hedged on the next endpoint, since renewals are idempotent. */
#ifndef EL_KEEPALIVE_H
#define EL_KEEPALIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/timer.h"
#include "transport/transport.h"

struct etcdlock_session;

enum { EL_RENEWALS = 4 };

typedef struct el_renewal {
    el_call call;
    struct etcdlock_session *session;
    int64_t sent_ns;
    bool is_under_way;
} el_renewal;

typedef struct el_keepalive {
    el_renewal renewals[EL_RENEWALS];
    el_timer renew; /* the next renewal, or the next hedge of one */
    el_timer check; /* the session's next possible change of state */
    unsigned endpoint;
    unsigned attempts;     /* since the last answer */
    bool is_wanted_afresh; /* as soon as what is under way has been answered */
} el_keepalive;

/* The lease was granted: renew it from now on. */
void el_keepalive_start(struct etcdlock_session *session);
void el_keepalive_stop(struct etcdlock_session *session);

/* Renews at once, unless a renewal is under way. */
void el_keepalive_now(struct etcdlock_session *session);

/* The same, but one that is under way does not do: its answer may be older than what is to be found out. */
void el_keepalive_afresh(struct etcdlock_session *session);

#endif
