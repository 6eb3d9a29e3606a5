/* The watch hub: one multiplexed stream for all watches of a client, each key watched once however many wait
 * for it, watches kept for a while after use, and everything put in place again after the stream was cut.
 *
 * A watch always starts "from now", never from a past revision: etcd serves a watch that starts at or below
 * its store's revision only every 100 ms. What happened before it was in place its users look up themselves,
 * which also makes compaction harmless: nothing ever has to be fetched from the past. */
#ifndef EL_WATCH_H
#define EL_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/auth.h"
#include "core/error.h"
#include "core/list.h"
#include "core/map.h"
#include "core/rpc.h"
#include "core/timer.h"
#include "transport/transport.h"

struct etcdlock_client;
typedef struct el_watcher el_watcher;

/* One watched key. */
typedef struct el_watch {
    el_map_link by_key;
    el_map_link by_id; /* while it is requested */
    el_list all;
    el_list idle; /* while nobody waits; longest first */
    int64_t id;   /* in the present stream */
    bool is_requested;
    bool is_deletes_only;     /* nobody has asked for PUTs, so etcd need not tell of them */
    unsigned missed;          /* deletions that came while nobody waited */
    bool is_ready;            /* in place: events after from_revision have been or will be seen */
    int64_t from_revision;    /* since the watch has been in place in this stream */
    int64_t ready_ns;         /* when that was */
    int64_t deleted_revision; /* the newest DELETE seen since; 0: none */
    el_list watchers;
    unsigned n_watchers;
    int64_t idle_since_ns;
    size_t key_size;
    char key[];
} el_watch;

/* What a watcher is told, with the client's lock held; it may remove any watcher. NULL: not of interest. */
typedef struct el_watcher_calls {
    void (*ready)(el_watcher *watcher); /* the watch is in place, for the first time or again after a cut */
    void (*deleted)(el_watcher *watcher, int64_t revision);
    void (*put)(el_watcher *watcher, const el_key_value *kv);
    void (*refused)(el_watcher *watcher, const el_failure *failure); /* etcd denies the watch, or all that
                                                                        this user asks. Never NULL */
} el_watcher_calls;

/* Told of one key. */
struct el_watcher {
    el_list link;
    el_watch *watch; /* NULL: not watching */
    const el_watcher_calls *calls;
};

typedef enum el_stream_state {
    EL_STREAM_NONE,
    EL_STREAM_OPEN,
    EL_STREAM_CLOSING, /* its end was asked for and has not come yet */
} el_stream_state;

typedef struct el_hub {
    struct etcdlock_client *client;
    el_map by_key;
    el_map by_id;
    el_list all;
    el_list idle;
    unsigned n_idle;
    unsigned n_used; /* watches that somebody waits for */
    int64_t next_id;

    el_stream_state state;
    el_watch_stream stream;
    unsigned failures; /* streams in a row that brought nothing */
    unsigned token_generation;
    int64_t last_message_ns;
    el_auth_waiter waiter;
    bool is_waiting_for_token;
    el_timer reopen;
    el_timer sweep;   /* forgets watches that nobody has used for a while */
    el_timer probe;   /* asks a silent stream whether it is alive, while somebody waits */
    int64_t probe_id; /* the watch that is the question; 0: none is open */
} el_hub;

void el_hub_init(struct etcdlock_client *client);
void el_hub_destroy(struct etcdlock_client *client);

/* Begins to watch a key, or takes up a kept watch: then watcher->watch->is_ready may be true at once. The
 * key's bytes are copied. 0 or ENOMEM. */
int el_hub_watch(struct etcdlock_client *client, el_watcher *watcher, el_span key);

/* Ends it; the watch is kept for the next one. A watcher that does not watch is left alone. */
void el_hub_unwatch(struct etcdlock_client *client, el_watcher *watcher);

/* The member does not do its work: if the stream is open there, it is moved to another one. */
void el_hub_leave_endpoint(struct etcdlock_client *client, unsigned endpoint);

/* ---- between the table of watches (watch.c) and their stream (watch_stream.c) ---- */

void el_hub_stream_init(el_hub *hub);
/* Opens the stream if it is not open and somebody waits. */
void el_hub_stream_want(el_hub *hub);
/* A deletion came while nobody waited; it may be forgotten at once. */
void el_hub_missed(el_hub *hub, el_watch *watch);
/* Asks for the watch on the open stream. */
void el_hub_stream_request(el_hub *hub, el_watch *watch);
void el_hub_stream_cancel(el_hub *hub, el_watch *watch);
/* Nobody waits any more. */
void el_hub_stream_rest(el_hub *hub);
void el_hub_stream_close(el_hub *hub);
/* Calls one of the watchers' callbacks for each of them; they may remove any. */
typedef void el_watcher_call(el_watcher *watcher, const void *argument);
void el_hub_tell(el_watch *watch, el_watcher_call *call, const void *argument);
/* All watches have to be put in place anew; the unused ones are forgotten. */
void el_hub_displace_all(el_hub *hub);

#endif
