#include "core/doubt.h"

#include <string.h>

#include "core/alloc.h"
#include "core/client.h"

static void settled(el_rpc *rpc, const el_rpc_end *end)
{
    el_doubt *doubt = EL_CONTAINER(rpc, el_doubt, rpc);
    (void)end; /* the answer's revision was taken already; without one the next old answer asks again */
    el_free(doubt->key);
    doubt->key = NULL;
    doubt->is_under_way = false;
}

void el_doubt_revision(el_client *client, int64_t revision, el_span key)
{
    el_doubt *doubt = &client->doubt;
    if (revision >= client->revision || doubt->is_under_way || client->state != EL_CLIENT_OPEN) return;
    doubt->key = el_alloc(key.size);
    if (!doubt->key) return;
    memcpy(doubt->key, key.data, key.size);
    doubt->is_under_way = true;
    doubt->rpc = (el_rpc){
        .request = {.verb = EL_RANGE, .range = {.key = {doubt->key, key.size}, .keys_only = true}},
        .pinned = EL_ANY_ENDPOINT,
        .deadline_ns = el_now(client) + client->command_timeout_ns,
        .done = settled,
    };
    el_rpc_start(client, &doubt->rpc);
}
