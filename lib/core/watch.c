#include "core/watch.h"

#include <errno.h>
#include <string.h>

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/client.h"

/* FIFO makes a hot queue cyclic, so the next predecessor is nearly always a recent one. Seconds are enough
 * for that; the bound keeps a client that locks thousands of names from piling up watches. */
enum { IDLE_MAX = 256, MISSED_MAX = 2 };
static const int64_t idle_limit_ns = 10 * EL_S;
static const int64_t sweep_interval_ns = 5 * EL_S;

static void forget(el_hub *hub, el_watch *watch)
{
    el_hub_stream_cancel(hub, watch);
    el_list_remove(&watch->idle);
    hub->n_idle--;
    el_list_remove(&watch->all);
    el_map_remove(&hub->by_key, &watch->by_key);
    el_free(watch);
}

static el_watch *oldest_idle(el_hub *hub)
{
    return EL_CONTAINER(hub->idle.next, el_watch, idle);
}

static void sweep(el_timer *timer)
{
    el_hub *hub = EL_CONTAINER(timer, el_hub, sweep);
    int64_t now_ns = el_now(hub->client);
    while (hub->n_idle > 0 && now_ns - oldest_idle(hub)->idle_since_ns >= idle_limit_ns)
        forget(hub, oldest_idle(hub));
    if (hub->n_idle > 0) {
        el_client_timer_set(hub->client, EL_LANE_IO, timer, now_ns + sweep_interval_ns);
    } else if (hub->n_used == 0) {
        el_hub_stream_close(hub);
    }
}

void el_hub_init(el_client *client)
{
    el_hub *hub = &client->hub;
    hub->client = client;
    hub->next_id = 1;
    hub->sweep.fire = sweep;
    el_list_init(&hub->all);
    el_list_init(&hub->idle);
    el_hub_stream_init(hub);
}

void el_hub_destroy(el_client *client)
{
    el_hub *hub = &client->hub;
    for (el_list *link = el_list_take(&hub->all); link; link = el_list_take(&hub->all)) {
        el_watch *watch = EL_CONTAINER(link, el_watch, all);
        el_map_remove(&hub->by_key, &watch->by_key);
        if (watch->is_requested) el_map_remove(&hub->by_id, &watch->by_id);
        el_free(watch);
    }
    el_map_clear(&hub->by_key);
    el_map_clear(&hub->by_id);
}

static el_watch *make(el_hub *hub, el_span key)
{
    el_watch *watch = el_alloc(sizeof(*watch) + key.size + 1);
    if (!watch) return NULL;
    memcpy(watch->key, key.data, key.size);
    watch->key_size = key.size;
    el_span own_key = {watch->key, key.size};
    if (el_map_add(&hub->by_key, &watch->by_key, own_key)) {
        el_free(watch);
        return NULL;
    }
    watch->is_deletes_only = true;
    el_list_init(&watch->watchers);
    el_list_append(&hub->all, &watch->all);
    hub->n_used++;
    return watch;
}

/* Whose deletions come and go without anybody waiting for them is not the predecessor any more. */
void el_hub_missed(el_hub *hub, el_watch *watch)
{
    if (++watch->missed >= MISSED_MAX) forget(hub, watch);
}

int el_hub_watch(el_client *client, el_watcher *watcher, el_span key)
{
    el_hub *hub = &client->hub;
    el_map_link *link = el_map_find(&hub->by_key, key);
    el_watch *watch = link ? EL_CONTAINER(link, el_watch, by_key) : make(hub, key);
    if (!watch) return ENOMEM;
    if (link && watch->n_watchers == 0) {
        el_list_remove(&watch->idle);
        hub->n_idle--;
        hub->n_used++;
    }
    watcher->watch = watch;
    watch->n_watchers++;
    el_list_append(&watch->watchers, &watcher->link);
    watch->missed = 0;
    if (watcher->calls->put && watch->is_deletes_only) {
        el_hub_stream_cancel(hub, watch);
        watch->is_deletes_only = false;
    }
    if (hub->state == EL_STREAM_OPEN && !watch->is_requested) el_hub_stream_request(hub, watch);
    el_hub_stream_want(hub);
    return 0;
}

void el_hub_unwatch(el_client *client, el_watcher *watcher)
{
    el_hub *hub = &client->hub;
    el_watch *watch = watcher->watch;
    if (!watch) return;
    watcher->watch = NULL;
    el_list_remove(&watcher->link);
    if (--watch->n_watchers > 0) return;
    watch->idle_since_ns = el_now(client);
    el_list_append(&hub->idle, &watch->idle);
    hub->n_used--;
    if (++hub->n_idle > IDLE_MAX) forget(hub, oldest_idle(hub));
    if (!el_timer_is_set(&hub->sweep))
        el_client_timer_set(client, EL_LANE_IO, &hub->sweep, watch->idle_since_ns + sweep_interval_ns);
    if (hub->n_used == 0) el_hub_stream_rest(hub);
}

void el_hub_tell(el_watch *watch, el_watcher_call *call, const void *argument)
{
    el_list untold;
    el_list_init(&untold);
    el_list_splice(&untold, &watch->watchers);
    for (el_list *link = el_list_take(&untold); link; link = el_list_take(&untold)) {
        el_list_append(&watch->watchers, link);
        call(EL_CONTAINER(link, el_watcher, link), argument);
    }
}

void el_hub_displace_all(el_hub *hub)
{
    for (el_list *link = hub->all.next; link != &hub->all; link = link->next) {
        el_watch *watch = EL_CONTAINER(link, el_watch, all);
        if (watch->is_requested) el_map_remove(&hub->by_id, &watch->by_id);
        watch->is_requested = watch->is_ready = false;
        watch->deleted_revision = 0;
    }
    while (hub->n_idle > 0)
        forget(hub, oldest_idle(hub));
}
