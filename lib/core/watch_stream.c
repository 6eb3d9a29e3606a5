/* The stream behind the watch hub: opened where the client is at home, left when the member falls silent or
 * ends it, and filled again with every watch that somebody waits for. */
#include <errno.h>
#include <string.h>

#include "core/backoff.h"
#include "core/client.h"
#include "core/log.h"
#include "core/watch.h"

static const int64_t reopen_base_ns = 50 * EL_MS;
static const int64_t reopen_limit_ns = 1 * EL_S;

/* A stream that has been silent for so long is asked whether it is alive. */
static const int64_t probe_interval_ns = 2 * EL_S;

static void open_stream(el_hub *hub);

static void reopen_later(el_hub *hub)
{
    int64_t pause_ns = 0;
    if (hub->failures > 0)
        pause_ns = el_backoff_ns(hub->failures, reopen_base_ns, reopen_limit_ns, el_random(hub->client));
    hub->failures++;
    el_client_timer_set(hub->client, EL_LANE_IO, &hub->reopen, el_now(hub->client) + pause_ns);
}

static void reopen(el_timer *timer)
{
    open_stream(EL_CONTAINER(timer, el_hub, reopen));
}

static void call_refused(el_watcher *watcher, const void *argument)
{
    watcher->calls->refused(watcher, argument);
}

/* Who waits must not wait for ever: his place would be in everybody's way as long as his lease lives, and
 * renewals need no password. */
static void refuse_all(el_hub *hub, const el_failure *failure)
{
    el_list rest;
    el_list_init(&rest);
    el_list_splice(&rest, &hub->all);
    for (el_list *link = el_list_take(&rest); link; link = el_list_take(&rest)) {
        el_list_append(&hub->all, link);
        el_hub_tell(EL_CONTAINER(link, el_watch, all), call_refused, failure);
    }
}

static void token_ready(el_auth_waiter *waiter, const el_failure *failure)
{
    el_hub *hub = EL_CONTAINER(waiter, el_hub, waiter);
    hub->is_waiting_for_token = false;
    if (failure->error == EACCES) refuse_all(hub, failure);
    if (failure->error) {
        reopen_later(hub);
    } else {
        open_stream(hub);
    }
}

/* ---- is the stream alive? ------------------------------------------------------------------------------ */

/* A stopped or cut-off member says nothing, TCP takes minutes to notice, and a call on the same connection
 * may well be answered while the stream is stuck. So the question goes through the stream itself: one more
 * watch on a key that is watched already. etcd answers creations in order, so its answer also vouches for all
 * that were asked for before. */
static void ask(el_hub *hub)
{
    el_list *link = hub->all.next;
    while (link != &hub->all && !EL_CONTAINER(link, el_watch, all)->is_requested)
        link = link->next; /* it was refused before */
    if (link == &hub->all) return;
    el_watch *any = EL_CONTAINER(link, el_watch, all);
    el_transport *transport = hub->client->transport;
    el_span key = {any->key, any->key_size};
    /* Each key has its turn, for the permission may have gone for one of them only. */
    el_list_remove(&any->all);
    el_list_append(&hub->all, &any->all);
    hub->probe_id = hub->next_id++;
    transport->watch_create(transport, &hub->stream, hub->probe_id, key, 0, true);
}

static void probe(el_timer *timer)
{
    el_hub *hub = EL_CONTAINER(timer, el_hub, probe);
    el_client *client = hub->client;
    int64_t now_ns = el_now(client), due_ns = hub->last_message_ns + probe_interval_ns;
    if (hub->state != EL_STREAM_OPEN || hub->n_used == 0) return;
    if (hub->probe_id) {
        el_client_leave_endpoint(client, hub->stream.endpoint, "its watch stream does not answer");
        el_hub_stream_close(hub);
        return;
    }
    if (now_ns >= due_ns) {
        ask(hub);
        due_ns = now_ns + client->dial_timeout_ns;
    }
    el_client_timer_set(client, EL_LANE_IO, timer, due_ns);
}

/* ---- messages --------------------------------------------------------------------------------------- */

static void call_ready(el_watcher *watcher, const void *argument)
{
    (void)argument;
    if (watcher->calls->ready) watcher->calls->ready(watcher);
}

static void call_deleted(el_watcher *watcher, const void *argument)
{
    const int64_t *revision = argument;
    if (watcher->calls->deleted) watcher->calls->deleted(watcher, *revision);
}

static void call_put(el_watcher *watcher, const void *argument)
{
    if (watcher->calls->put) watcher->calls->put(watcher, argument);
}

static void displace(el_hub *hub, el_watch *watch)
{
    el_map_remove(&hub->by_id, &watch->by_id);
    watch->is_requested = watch->is_ready = false;
}

static bool is_about_token(const el_watch_message *message)
{
    return strstr(message->reason, "auth") || strstr(message->reason, "user name");
}

/* For good: no other token would help, or there is none to be had. */
static bool is_denied(const el_hub *hub, const el_watch_message *message)
{
    return strstr(message->reason, "permission denied") || (is_about_token(message) && !hub->client->user);
}

/* Whatever was watched is asked for again over a new stream. */
static void start_over(el_hub *hub, const el_watch_message *message)
{
    if (is_about_token(message)) el_auth_refused(hub->client, hub->token_generation);
    el_log(hub->client, ETCDLOCK_LOG_WARNING, "a watch was ended by etcd (%s): opening the stream anew",
           message->reason[0] ? message->reason : "no reason given");
    el_hub_stream_close(hub);
}

/* etcd goes on to serve a watch whose token or permission has gone since, but what its events lead to would
 * be refused; so a refused probe is as good as a refused watch. */
static void take_answer(el_hub *hub, const el_watch_message *message)
{
    hub->probe_id = 0;
    if (message->canceled) {
        start_over(hub, message);
    } else {
        hub->client->transport->watch_cancel(hub->client->transport, &hub->stream, message->watch_id);
    }
}

/* etcd says by its text alone whether the token or the permission was wanting. */
static void canceled(el_hub *hub, el_watch *watch, const el_watch_message *message)
{
    displace(hub, watch);
    if (is_denied(hub, message)) {
        el_failure failure;
        el_fail(&failure, EACCES, "etcd denies the watch of key %.200s: %s", watch->key, message->reason);
        el_hub_tell(watch, call_refused, &failure);
    } else {
        start_over(hub, message);
    }
}

static void take_event(el_hub *hub, el_watch *watch, const el_watch_event *event)
{
    if (event->deleted) {
        int64_t revision = event->kv.mod_revision;
        if (revision > watch->deleted_revision) watch->deleted_revision = revision;
        if (watch->n_watchers == 0)
            el_hub_missed(hub, watch);
        else
            el_hub_tell(watch, call_deleted, &revision);
    } else {
        el_hub_tell(watch, call_put, &event->kv);
    }
}

static void take_message(el_watch_stream *stream, const el_watch_message *message)
{
    el_hub *hub = EL_CONTAINER(stream, el_hub, stream);
    hub->last_message_ns = el_now(hub->client);
    if (message->watch_id == hub->probe_id && hub->state == EL_STREAM_OPEN) {
        take_answer(hub, message);
        return;
    }
    el_span id = {(const char *)&message->watch_id, sizeof(message->watch_id)};
    el_map_link *link = el_map_find(&hub->by_id, id);
    if (!link || hub->state != EL_STREAM_OPEN) return; /* of a watch that was cancelled meanwhile */
    el_watch *watch = EL_CONTAINER(link, el_watch, by_id);
    if (message->canceled) {
        canceled(hub, watch, message);
        return;
    }
    if (message->created) {
        el_span key = {watch->key, watch->key_size};
        if (hub->failures > 0) el_doubt_revision(hub->client, message->revision, key);
        hub->failures = 0;
        watch->is_ready = true;
        watch->from_revision = message->revision;
        watch->ready_ns = hub->last_message_ns;
        watch->deleted_revision = 0;
        el_hub_tell(watch, call_ready, NULL);
    }
    /* Looked up each time: what it leads to may have ended the watch. */
    for (size_t i = 0; i < message->n_events && el_map_find(&hub->by_id, id) == link; i++)
        take_event(hub, watch, &message->events[i]);
}

static void closed(el_watch_stream *stream, const el_status *status)
{
    el_hub *hub = EL_CONTAINER(stream, el_hub, stream);
    el_client *client = hub->client;
    bool was_asked_for = hub->state == EL_STREAM_CLOSING;
    hub->state = EL_STREAM_NONE;
    el_client_timer_clear(client, EL_LANE_IO, &hub->probe);
    el_hub_displace_all(hub);
    if (client->state == EL_CLIENT_CLOSED) return;
    if (status->code == EL_UNAUTHENTICATED) el_auth_refused(client, hub->token_generation);
    if (!was_asked_for) el_client_leave_endpoint(client, stream->endpoint, status->message);
    if (hub->n_used > 0) reopen_later(hub);
}

/* ---- opening and closing ------------------------------------------------------------------------------ */

static void open_stream(el_hub *hub)
{
    el_client *client = hub->client;
    if (hub->state != EL_STREAM_NONE || hub->n_used == 0 || client->state == EL_CLIENT_CLOSED) return;
    if (!el_auth_is_ready(client, &hub->waiter)) {
        hub->is_waiting_for_token = true;
        return;
    }
    hub->token_generation = client->auth.generation;
    hub->state = EL_STREAM_OPEN;
    hub->probe_id = 0;
    hub->last_message_ns = el_now(client);
    hub->stream = (el_watch_stream){
        .lane = EL_LANE_IO,
        .endpoint = client->endpoint,
        .token = {client->auth.token, client->auth.token_size},
        .message = take_message,
        .closed = closed,
    };
    client->transport->watch_open(client->transport, &hub->stream);
    for (el_list *link = hub->all.next; link != &hub->all; link = link->next)
        el_hub_stream_request(hub, EL_CONTAINER(link, el_watch, all));
    el_client_timer_set(client, EL_LANE_IO, &hub->probe, hub->last_message_ns + probe_interval_ns);
}

void el_hub_stream_init(el_hub *hub)
{
    hub->reopen.fire = reopen;
    hub->probe.fire = probe;
    hub->waiter.ready = token_ready;
}

void el_hub_stream_want(el_hub *hub)
{
    if (hub->state == EL_STREAM_OPEN) {
        if (!el_timer_is_set(&hub->probe))
            el_client_timer_set(hub->client, EL_LANE_IO, &hub->probe,
                                el_now(hub->client) + probe_interval_ns);
    } else if (hub->state == EL_STREAM_NONE && !el_timer_is_set(&hub->reopen) && !hub->is_waiting_for_token) {
        open_stream(hub);
    }
}

void el_hub_stream_request(el_hub *hub, el_watch *watch)
{
    if (hub->state != EL_STREAM_OPEN) return;
    watch->id = hub->next_id++;
    watch->is_ready = false;
    watch->is_requested = true;
    el_span id = {(const char *)&watch->id, sizeof(watch->id)};
    if (el_map_add(&hub->by_id, &watch->by_id, id)) {
        /* No memory for the very first watch: try again with the whole stream, a little later. */
        watch->is_requested = false;
        el_hub_stream_close(hub);
        return;
    }
    el_transport *transport = hub->client->transport;
    el_span key = {watch->key, watch->key_size};
    transport->watch_create(transport, &hub->stream, watch->id, key, 0, watch->is_deletes_only);
}

void el_hub_stream_cancel(el_hub *hub, el_watch *watch)
{
    if (!watch->is_requested) return;
    displace(hub, watch);
    el_transport *transport = hub->client->transport;
    if (hub->state == EL_STREAM_OPEN) transport->watch_cancel(transport, &hub->stream, watch->id);
}

void el_hub_stream_rest(el_hub *hub)
{
    el_client_timer_clear(hub->client, EL_LANE_IO, &hub->probe);
}

void el_hub_stream_close(el_hub *hub)
{
    if (hub->state != EL_STREAM_OPEN) return;
    hub->state = EL_STREAM_CLOSING;
    hub->client->transport->watch_close(hub->client->transport, &hub->stream);
}

void el_hub_leave_endpoint(el_client *client, unsigned endpoint)
{
    el_hub *hub = &client->hub;
    if (hub->state == EL_STREAM_OPEN && hub->stream.endpoint == endpoint) el_hub_stream_close(hub);
}
