#include "core/auth.h"

#include <errno.h>
#include <string.h>

#include "core/alloc.h"
#include "core/client.h"
#include "core/log.h"

void el_auth_init(el_client *client)
{
    el_list_init(&client->auth.waiting);
}

void el_auth_destroy(el_client *client)
{
    el_free(client->auth.token);
}

static void tell_all(el_client *client, const el_failure *failure)
{
    el_list waiting;
    el_list_init(&waiting);
    el_list_splice(&waiting, &client->auth.waiting);
    for (el_list *link = el_list_take(&waiting); link; link = el_list_take(&waiting)) {
        el_auth_waiter *waiter = EL_CONTAINER(link, el_auth_waiter, link);
        waiter->ready(waiter, failure);
    }
}

static void fetched(el_rpc *rpc, const el_rpc_end *end)
{
    el_client *client = rpc->client;
    el_auth *auth = &client->auth;
    el_failure failure = end->failure;
    el_free(auth->token);
    auth->token = NULL;
    auth->token_size = 0;
    auth->state = EL_AUTH_NONE;
    if (failure.error == 0) {
        auth->token = el_memdup(end->answer->token.data, end->answer->token.size);
        if (auth->token) {
            auth->token_size = end->answer->token.size;
            auth->state = EL_AUTH_VALID;
        } else {
            el_fail(&failure, ENOMEM, "out of memory for the auth token");
        }
    } else if (strstr(failure.text, "authentication is not enabled")) {
        failure.error = 0;
        auth->state = EL_AUTH_VALID;
    } else {
        el_log(client, ETCDLOCK_LOG_WARNING, "no auth token for user %s: %s", client->user, failure.text);
    }
    auth->generation++;
    tell_all(client, &failure);
}

bool el_auth_is_ready(el_client *client, el_auth_waiter *waiter)
{
    el_auth *auth = &client->auth;
    if (!client->user || auth->state == EL_AUTH_VALID) return true;
    el_list_append(&auth->waiting, &waiter->link);
    if (auth->state == EL_AUTH_FETCHING) return false;
    auth->state = EL_AUTH_FETCHING;
    auth->rpc = (el_rpc){
        .request = {.verb = EL_AUTHENTICATE},
        .pinned = EL_ANY_ENDPOINT,
        .deadline_ns = el_now(client) + client->command_timeout_ns,
        .done = fetched,
    };
    el_span user = {client->user, strlen(client->user)};
    el_span password = {client->password, client->password ? strlen(client->password) : 0};
    auth->rpc.request.authenticate.user = user;
    auth->rpc.request.authenticate.password = password;
    el_rpc_start(client, &auth->rpc);
    return false;
}

void el_auth_refused(el_client *client, unsigned generation)
{
    el_auth *auth = &client->auth;
    if (auth->generation != generation || auth->state != EL_AUTH_VALID) return;
    auth->state = EL_AUTH_NONE;
}
