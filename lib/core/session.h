/* A session: a lease, when it was renewed last, and all that stands or falls with it. */
#ifndef EL_SESSION_H
#define EL_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "core/client.h"
#include "core/error.h"
#include "core/keepalive.h"
#include "core/list.h"
#include "core/map.h"
#include "core/notifier.h"
#include "core/options.h"
#include "core/rpc.h"
#include "etcdlock/session.h"

typedef struct etcdlock_session el_session;

typedef enum el_session_phase {
    EL_SESSION_OPENING, /* the lease is being granted */
    EL_SESSION_LIVE,    /* renewed; `is_suspended` tells whether in time */
    EL_SESSION_OVER,    /* lost, closed, or never opened: `over_error` tells the waiters which */
} el_session_phase;

enum { EL_PENDING_STATES = 16 };

struct etcdlock_session {
    el_client *client;
    el_list link; /* in the client's list until it is over */
    unsigned references;
    el_session_phase phase;
    bool is_suspended;
    int over_error;
    int64_t lease;
    int64_t asked_ttl_s;
    int64_t asked_margin_ms;
    int64_t ttl_ns; /* granted */
    int64_t margin_ns;
    int64_t renewed_ns;  /* when the last answered renewal was sent */
    int64_t deadline_ns; /* from this moment on nothing is held */
    char *label;
    el_keepalive keepalive;
    el_list contenders; /* all entries that etcd may have under this lease */
    unsigned n_owned;   /* those of them that somebody waits or holds by */
    bool is_poisoned;   /* an entry cannot be removed: do not keep it alive for its own sake */
    el_map queues;      /* of the locks used through this session, by folder */
    el_rpc rpc;         /* grant, then revoke */
    unsigned grants;
    bool is_revoking;
    bool is_revoked; /* definitely gone */
    void (*opened)(el_session *session, const el_failure *failure);
    void (*revoked)(el_session *session); /* the revoke has ended, well or not; once */
    void *waiter;                         /* of the blocking call behind those two */
    el_list renewal_waiters;              /* el_renewal_waiter */

    etcdlock_session_function *on_state;
    void *on_state_arg;
    el_notice notice;
    etcdlock_session_state pending[EL_PENDING_STATES]; /* states to be told */
    unsigned n_pending;
    int lost_fd; /* -1: none yet */
};

/* Someone who waits for the deadline to move. */
typedef struct el_renewal_waiter {
    el_list link;
    void (*moved)(struct el_renewal_waiter *waiter); /* or the session is over */
} el_renewal_waiter;

/* With one reference, the caller's. The label is copied. NULL if memory runs out. */
el_session *el_session_new(el_client *client, const el_session_settings *settings);
void el_session_ref(el_session *session);
void el_session_unref(el_session *session);

/* Asks for the lease; `opened` is called once. */
void el_session_open(el_session *session, void (*opened)(el_session *session, const el_failure *failure));

/* Ends it: whoever waits or holds by it is told `error` (ESESSION: lost, ECANCELED: closed), the renewals
 * stop, and the lease is revoked as well as can be; then `revoked`, if not NULL, is called. */
void el_session_end(el_session *session, int error, const char *reason);

/* True while it may be relied on, as of this instant; ends it if its deadline has passed. */
bool el_session_is_live(el_session *session);

int64_t el_session_remaining_ns(const el_session *session);

/* A renewal sent at `sent_ns` was answered with a time to live. */
void el_session_renewed(el_session *session, int64_t sent_ns, int64_t ttl_s);

/* Moves between OK and SUSPENDED, and to the end when the deadline has passed. */
void el_session_check(el_session *session);

/* The next moment at which el_session_check has something to do. */
int64_t el_session_next_check_ns(const el_session *session);

#endif
