/* One request on its way to etcd: attempt after attempt, endpoint after endpoint, until it is answered,
 * refused or out of time. This is the library's one retry loop; the watch hub's re-opening of its stream is
 * the only other. */
#ifndef EL_RPC_H
#define EL_RPC_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/list.h"
#include "core/outcome.h"
#include "core/timer.h"
#include "transport/transport.h"

struct etcdlock_client;
typedef struct el_rpc el_rpc;

/* How a request ended. */
typedef struct el_rpc_end {
    el_failure failure;      /* error 0: answered */
    el_outcome outcome;      /* of the last attempt */
    const el_answer *answer; /* NULL unless answered; lives while `done` runs */
    bool lease_exists;       /* refused because a lease of that id exists */
} el_rpc_end;

enum { EL_ANY_ENDPOINT = -1 };

/* Somebody who cannot go on without an auth token. */
typedef struct el_auth_waiter {
    el_list link;
    /* error 0: there is a token now; EACCES: user or password are wrong. */
    void (*ready)(struct el_auth_waiter *waiter, const el_failure *failure);
} el_auth_waiter;

/* The owner fills the first part and keeps the struct, and what the request points to, in place until done.
 */
struct el_rpc {
    el_request request;
    bool is_write;       /* an unanswered attempt may have changed something */
    bool is_single;      /* one attempt, no second */
    int pinned;          /* ask only this endpoint, or EL_ANY_ENDPOINT */
    int64_t deadline_ns; /* INT64_MAX: only el_rpc_stop ends it; each attempt is bounded all the same */
    void (*done)(el_rpc *rpc, const el_rpc_end *end); /* exactly once, never from inside start or stop */

    struct etcdlock_client *client;
    el_list link;          /* among the client's, while it is under way */
    el_call call;          /* the attempt under way */
    el_auth_waiter waiter; /* for the auth token */
    el_timer pause;        /* before the next attempt */
    unsigned attempts;
    unsigned vain_waits; /* attempts that took most of their time */
    unsigned token_generation;
    unsigned refused_tokens;
    int64_t sent_ns;         /* when the last attempt was sent */
    int64_t known_revision;  /* and the client's revision then, */
    unsigned known_restores; /* as many restores old */
    char *reason;            /* why attempts have failed; NULL: none has, or no memory for it */
    unsigned reason_endpoint;
    bool maybe_applied; /* an attempt without an answer was sent: it may have been applied, or may yet be */
    bool is_under_way;
    bool is_calling; /* an attempt is with the transport */
    bool is_stopped;
};

/* Begins. With the client shut down it ends soon with ECANCELED. */
void el_rpc_start(struct etcdlock_client *client, el_rpc *rpc);

/* No further attempt; the one under way is cut short. `done` follows with ECANCELED or what came first. */
void el_rpc_stop(el_rpc *rpc);

/* The same for all of a client. */
void el_rpc_stop_all(struct etcdlock_client *client);

#endif
