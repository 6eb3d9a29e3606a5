#include "core/departure.h"

#include <errno.h>

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/client.h"

/* etcd serves a watch "from now" that lost the race against a write only with its next round for late ones,
 * every 100 ms. For so long after its placement a fresh watch is backed by reads at growing intervals. */
static const int64_t fresh_ns = 110 * EL_MS;
static const int64_t first_interval_ns = 1 * EL_MS;

/* A member whose store is older than the entry lags, and catches up soon; or the cluster was restored from a
 * snapshot, and never will. A linearizable read tells, and ends the sessions in the latter case. */
static const int64_t behind_interval_ns = 1 * EL_S;

/* Of ten thousand that wait hardly one is reading. */
typedef struct el_departure_read {
    el_rpc rpc;
    el_departure *departure;
} el_departure_read;

static void read_entry(el_departure *departure);

static void fail_for_memory(el_departure *departure, const char *what)
{
    el_failure failure;
    el_fail(&failure, ENOMEM, "out of memory for %s", what);
    el_departure_stop(departure);
    departure->calls->failed(departure, &failure);
}

static void finish_gone(el_departure *departure, int64_t revision, unsigned endpoint)
{
    el_departure_stop(departure);
    departure->calls->gone(departure, revision, endpoint);
}

static void plan_backing_read(el_departure *departure)
{
    const el_watch *watch = departure->watcher.watch;
    if (!departure->is_near || !watch || !watch->is_ready || el_timer_is_set(&departure->next_read)) return;
    int64_t now_ns = el_now(departure->client);
    if (now_ns - watch->ready_ns >= fresh_ns) return;
    int64_t interval_ns = first_interval_ns << (departure->reads < 6 ? departure->reads : 6);
    el_client_timer_set(departure->client, EL_LANE_IO, &departure->next_read, now_ns + interval_ns);
}

static void read_due(el_timer *timer)
{
    el_departure *departure = EL_CONTAINER(timer, el_departure, next_read);
    if (!departure->is_waiting || !departure->watcher.watch->is_ready) return;
    if (departure->read) return; /* its answer plans the next one */
    departure->reads++;
    read_entry(departure);
}

static bool shows_gone(const el_departure *departure, const el_answer *answer)
{
    if (answer->revision < departure->create_revision) return false;
    if (answer->range.n_kvs == 0) return true;
    return answer->range.kvs[0].create_revision != departure->create_revision;
}

static void read_done(el_rpc *rpc, const el_rpc_end *end)
{
    el_departure_read *read = EL_CONTAINER(rpc, el_departure_read, rpc);
    el_departure *departure = read->departure;
    el_client *client = departure->client;
    unsigned endpoint = (unsigned)rpc->pinned;
    departure->read = NULL;
    el_free(read);
    if (!departure->is_waiting) {
        departure->calls->settled(departure);
        return;
    }
    bool again = departure->read_again;
    departure->read_again = false;
    if (departure->read_is_late) { /* it was about an earlier entry */
        if (again)
            read_entry(departure);
        else
            plan_backing_read(departure);
        return;
    }
    /* Not where a new token would do: the watch is placed anew with that, which brings us back here. */
    if (end->failure.error == EACCES && end->outcome != EL_OUTCOME_NOT_APPLIED) {
        el_departure_stop(departure);
        departure->calls->failed(departure, &end->failure);
        return;
    }
    if (!end->answer && again) { /* the watch has moved on from the member that did not answer */
        read_entry(departure);
        return;
    }
    if (!end->answer) {
        /* The member of the watch does not answer: the watch goes to another one, and its placement there
         * brings us back here. */
        el_hub_leave_endpoint(client, endpoint);
        return;
    }
    if (shows_gone(departure, end->answer)) {
        finish_gone(departure, end->answer->revision, endpoint);
        return;
    }
    if (end->answer->revision > departure->seen_revision &&
        end->answer->revision >= departure->create_revision)
        departure->seen_revision = end->answer->revision;
    if (again) {
        read_entry(departure);
    } else if (end->answer->revision < departure->create_revision) {
        departure->is_behind = true;
        el_client_timer_set(client, EL_LANE_IO, &departure->next_read, el_now(client) + behind_interval_ns);
    } else {
        plan_backing_read(departure);
    }
}

static void read_entry(el_departure *departure)
{
    el_client *client = departure->client;
    if (departure->read) {
        departure->read_again = true;
        return;
    }
    departure->read_is_late = departure->read_again = false;
    departure->read = el_alloc(sizeof(*departure->read));
    if (!departure->read) {
        fail_for_memory(departure, "a read");
        return;
    }
    departure->read->departure = departure;
    departure->read->rpc = (el_rpc){
        .request = {.verb = EL_RANGE,
                    .range = {.key = departure->key,
                              .serializable = !departure->is_behind,
                              .keys_only = true}},
        .is_single = true,
        .pinned = (int)client->hub.stream.endpoint,
        .deadline_ns = el_now(client) + client->dial_timeout_ns,
        .done = read_done,
    };
    departure->is_behind = false;
    el_rpc_start(client, &departure->read->rpc);
}

/* The watch is in place, now or since long. */
static void look(el_departure *departure)
{
    const el_watch *watch = departure->watcher.watch;
    if (watch->deleted_revision > departure->create_revision) {
        finish_gone(departure, watch->deleted_revision, departure->client->hub.stream.endpoint);
        return;
    }
    if (watch->from_revision > departure->seen_revision) {
        read_entry(departure);
    } else {
        plan_backing_read(departure);
    }
}

static void ready(el_watcher *watcher)
{
    el_departure *departure = EL_CONTAINER(watcher, el_departure, watcher);
    departure->reads = 0;
    look(departure);
}

static void deleted(el_watcher *watcher, int64_t revision)
{
    el_departure *departure = EL_CONTAINER(watcher, el_departure, watcher);
    if (revision > departure->create_revision)
        finish_gone(departure, revision, departure->client->hub.stream.endpoint);
}

static void refused(el_watcher *watcher, const el_failure *failure)
{
    el_departure *departure = EL_CONTAINER(watcher, el_departure, watcher);
    el_failure copy = *failure;
    el_departure_stop(departure);
    departure->calls->failed(departure, &copy);
}

static const el_watcher_calls watcher_calls = {.ready = ready, .deleted = deleted, .refused = refused};

/* A wait must not end inside the call that starts it: its owner would be called back in the middle of a step.
 */
static void start_due(el_timer *timer)
{
    el_departure *departure = EL_CONTAINER(timer, el_departure, next_read);
    timer->fire = read_due;
    if (!departure->watcher.watch) {
        fail_for_memory(departure, "a watch");
    } else if (departure->watcher.watch->is_ready) {
        look(departure);
    }
}

void el_departure_start(el_departure *departure, el_client *client, el_span key, int64_t create_revision,
                        int64_t seen_revision, bool is_near)
{
    departure->client = client;
    departure->key = key;
    departure->create_revision = create_revision;
    departure->seen_revision = seen_revision;
    departure->is_near = is_near;
    departure->is_waiting = true;
    departure->read_is_late = departure->read;
    departure->read_again = false;
    departure->reads = 0;
    departure->watcher.calls = &watcher_calls;
    departure->next_read.fire = read_due;
    int error = el_hub_watch(client, &departure->watcher, key);
    if (error || departure->watcher.watch->is_ready) {
        departure->next_read.fire = start_due;
        el_client_timer_set(client, EL_LANE_IO, &departure->next_read, el_now(client));
    }
}

void el_departure_stop(el_departure *departure)
{
    if (!departure->is_waiting) return;
    departure->is_waiting = false;
    departure->read_is_late = true;
    el_client_timer_clear(departure->client, EL_LANE_IO, &departure->next_read);
    el_hub_unwatch(departure->client, &departure->watcher);
}

bool el_departure_is_idle(const el_departure *departure)
{
    return !departure->is_waiting && !departure->read;
}
