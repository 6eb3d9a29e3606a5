/* The auth token: fetched once for all who need it, and anew when the server refuses it. */
#ifndef EL_AUTH_H
#define EL_AUTH_H

#include <stdbool.h>

#include "core/error.h"
#include "core/list.h"
#include "core/rpc.h"

struct etcdlock_client;

typedef enum el_auth_state {
    EL_AUTH_NONE,     /* to be fetched when somebody needs it */
    EL_AUTH_FETCHING, /* one request for all who wait */
    EL_AUTH_VALID,    /* as far as we know; no token at all if the server has authentication switched off */
} el_auth_state;

typedef struct el_auth {
    el_auth_state state;
    char *token;
    size_t token_size;
    unsigned generation; /* of the token; tells a refusal of this one from one of its predecessor */
    el_list waiting;
    el_rpc rpc;
} el_auth;

void el_auth_init(struct etcdlock_client *client);
void el_auth_destroy(struct etcdlock_client *client);

/* True if a request can be sent now; otherwise the waiter is called later. */
bool el_auth_is_ready(struct etcdlock_client *client, el_auth_waiter *waiter);

/* The server refused the token of that generation. */
void el_auth_refused(struct etcdlock_client *client, unsigned generation);

#endif
