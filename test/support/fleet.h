/* Many locks at once, each with a holder and waiters behind it, on a cluster of three with a proxy before
 * each member, so that one fault hits them all at every phase of their renewals. */
#ifndef TEST_FLEET_H
#define TEST_FLEET_H

#include "support/holder.h"
#include "support/live.h"
#include "support/oracle.h"
#include "support/proxy.h"

enum { FLEET_MEMBERS = 3, FLEET_LOCKS = 20, FLEET_WAITERS = 20, FLEET_ANY = -1 };

typedef struct fleet {
    proxy ways[FLEET_MEMBERS];
    char endpoints[256]; /* of the proxies */
    int lost_waiters;    /* whose lease went while they waited; counted at the end */
    char history_path[40];
    oracle history;
    char names[FLEET_LOCKS][64];
    party parties[FLEET_LOCKS]; /* of the holders */
    holder holders[FLEET_LOCKS];
    party crowd; /* client and first session of the waiters */
    etcdlock_session *sessions[FLEET_WAITERS];
    etcdlock_mutex *mutexes[FLEET_WAITERS];
    holder waiters[FLEET_WAITERS];
} fleet;

/* Starts the proxies, then the holders by way of this member (0 to 2, or FLEET_ANY), spread over one renewal
 * interval, then the waiters: number i waits for lock number i / per_lock. All hold or wait at the end. */
void fleet_start(fleet *f, int member, int64_t ttl_s, int per_lock);

/* How many holders have lost their lock, and how many waiters are in. */
int fleet_losses(fleet *f);
int fleet_heirs(fleet *f);
/* Fails the case unless, for so long, nothing is lost and no waiter returns. */
void fleet_watch(fleet *f, int64_t ms);

/* Lets the holders go, then the waiters one after the other, in order; judges the history; ends all. So many
 * waiters may have been told of a loss. */
void fleet_end(fleet *f, int lost_waiters_max);

#endif
