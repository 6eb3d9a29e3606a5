#include "transport/grpc_lane.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

#include <grpc/support/time.h>

#include "core/alloc.h"
#include "transport/grpc_exchange.h"

/* gRPC's clock stands still in suspend and ours does not, so a long wait is made of slices: after a resume
 * the deadline is noticed within one. */
static const int64_t LONGEST_WAIT_NS = 1000000000;

int64_t el_grpc_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

gpr_timespec el_grpc_time(int64_t at_ns, int64_t now_ns)
{
    if (at_ns == INT64_MAX) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    if (at_ns <= now_ns) return gpr_inf_past(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(at_ns - now_ns, GPR_TIMESPAN));
}

/* ---- calls in flight ---- */

static void owe(el_grpc_lane *lane)
{
    lane->owed++;
    if (lane->is_aside) pthread_cond_signal(&lane->roused);
}

void el_grpc_lane_owe(el_grpc_lane *lane)
{
    pthread_mutex_lock(&lane->mutex);
    owe(lane);
    pthread_mutex_unlock(&lane->mutex);
}

void el_grpc_lane_settle(el_grpc_lane *lane)
{
    pthread_mutex_lock(&lane->mutex);
    lane->owed--;
    bool last = lane->shut && lane->owed == 0;
    pthread_mutex_unlock(&lane->mutex);
    if (last) el_grpc_lane_wake(lane);
}

void el_grpc_lane_start(el_grpc_lane *lane, el_grpc_running *running, grpc_call *call)
{
    pthread_mutex_lock(&lane->mutex);
    *running = (el_grpc_running){.next = lane->running, .call = call};
    if (lane->running) lane->running->previous = running;
    lane->running = running;
    pthread_mutex_unlock(&lane->mutex);
}

void el_grpc_lane_cancel(el_grpc_lane *lane, el_grpc_running *running)
{
    pthread_mutex_lock(&lane->mutex);
    if (running->call) grpc_call_cancel(running->call, NULL);
    pthread_mutex_unlock(&lane->mutex);
}

void el_grpc_lane_finish(el_grpc_lane *lane, el_grpc_running *running)
{
    pthread_mutex_lock(&lane->mutex);
    grpc_call *call = running->call;
    if (running->previous) {
        running->previous->next = running->next;
    } else {
        lane->running = running->next;
    }
    if (running->next) running->next->previous = running->previous;
    *running = (el_grpc_running){0};
    pthread_mutex_unlock(&lane->mutex);
    grpc_call_unref(call);
}

void el_grpc_lane_shutdown(el_grpc_lane *lane)
{
    pthread_mutex_lock(&lane->mutex);
    lane->shut = true;
    for (el_grpc_running *running = lane->running; running; running = running->next) {
        grpc_call_cancel(running->call, NULL);
    }
    pthread_mutex_unlock(&lane->mutex);
    el_grpc_lane_wake(lane);
}

bool el_grpc_lane_is_shut(el_grpc_lane *lane)
{
    pthread_mutex_lock(&lane->mutex);
    bool shut = lane->shut;
    pthread_mutex_unlock(&lane->mutex);
    return shut;
}

/* ---- results ---- */

static el_completion *no_completion(void *owner, bool ok)
{
    (void)owner;
    (void)ok;
    return NULL;
}

static el_grpc_tag alarm_tag = {.arrived = no_completion};

/* C core has no alarm, nor another way to put a tag into a queue at will. But a wait for a channel's state to
 * change ends with its tag at its deadline; on a channel that leads nowhere it is nothing but a timer, and
 * with a deadline in the past it rings at once. */
void el_grpc_lane_wake(el_grpc_lane *lane)
{
    pthread_mutex_lock(&lane->mutex);
    if (lane->is_aside) {
        lane->is_woken = true;
        pthread_cond_signal(&lane->roused);
    } else if (!lane->alarm_pending && !lane->queue_shut) {
        lane->alarm_pending = true;
        grpc_channel_watch_connectivity_state(lane->alarm, GRPC_CHANNEL_TRANSIENT_FAILURE,
                                              gpr_inf_past(GPR_CLOCK_MONOTONIC), lane->queue, &alarm_tag);
    }
    pthread_mutex_unlock(&lane->mutex);
}

static void list(el_grpc_lane *lane, el_completion *completion)
{
    if (completion->listed) return;
    completion->listed = true;
    completion->next = NULL;
    if (lane->first_result) {
        lane->last_result->next = completion;
    } else {
        lane->first_result = completion;
    }
    lane->last_result = completion;
}

void el_grpc_lane_push(el_grpc_lane *lane, el_completion *completion)
{
    pthread_mutex_lock(&lane->mutex);
    list(lane, completion);
    pthread_mutex_unlock(&lane->mutex);
    el_grpc_lane_wake(lane);
}

/* The queue is shut down here, by the only thread that takes from it and only when nothing can be begun on it
 * any more. */
static el_completion *take_listed(el_grpc_lane *lane, bool *over)
{
    pthread_mutex_lock(&lane->mutex);
    el_completion *completion = lane->first_result;
    if (completion) {
        lane->first_result = completion->next;
        completion->listed = false;
    }
    *over = !completion && lane->shut && lane->owed == 0;
    if (*over && !lane->queue_shut) {
        lane->queue_shut = true;
        grpc_completion_queue_shutdown(lane->queue);
    }
    pthread_mutex_unlock(&lane->mutex);
    return completion;
}

static void drain(el_grpc_lane *lane)
{
    gpr_timespec never = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    while (!lane->drained) {
        grpc_event event = grpc_completion_queue_next(lane->queue, never, NULL);
        lane->drained = event.type == GRPC_QUEUE_SHUTDOWN;
    }
}

static int64_t slice_of(int64_t deadline_ns, int64_t now_ns)
{
    bool is_long = deadline_ns != INT64_MAX && deadline_ns > now_ns + LONGEST_WAIT_NS;
    return is_long ? now_ns + LONGEST_WAIT_NS : deadline_ns;
}

static void wait_roused(el_grpc_lane *lane, int64_t left_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t until_ns = until.tv_nsec + left_ns;
    until.tv_sec += (time_t)(until_ns / 1000000000);
    until.tv_nsec = (long)(until_ns % 1000000000);
    pthread_cond_timedwait(&lane->roused, &lane->mutex, &until);
}

/* One slice of a wait outside of gRPC, if the lane is one that stands aside and nothing can come by way of
 * the queue. Returns whether it was; *woken: by el_grpc_lane_wake. */
static bool stand_aside(el_grpc_lane *lane, int64_t deadline_ns, bool *woken)
{
    pthread_mutex_lock(&lane->mutex);
    bool stands =
        lane->stands_aside && lane->owed == 0 && !lane->alarm_pending && !lane->first_result && !lane->shut;
    if (stands) {
        int64_t now_ns = el_grpc_now_ns();
        lane->is_aside = true;
        if (deadline_ns > now_ns) wait_roused(lane, slice_of(deadline_ns, now_ns) - now_ns);
        lane->is_aside = false;
        *woken = lane->is_woken;
        lane->is_woken = false;
    }
    pthread_mutex_unlock(&lane->mutex);
    return stands;
}

el_completion *el_grpc_lane_next(el_grpc_lane *lane, int64_t deadline_ns, bool *ended)
{
    bool woken = false;
    *ended = false;
    for (;;) {
        el_completion *completion = take_listed(lane, ended);
        if (completion) return completion;
        if (*ended) {
            drain(lane);
            return NULL;
        }
        if (woken) return NULL;
        if (stand_aside(lane, deadline_ns, &woken)) {
            if (!woken && el_grpc_now_ns() >= deadline_ns) return NULL;
            continue;
        }
        int64_t now_ns = deadline_ns == INT64_MAX ? 0 : el_grpc_now_ns();
        gpr_timespec until = el_grpc_time(slice_of(deadline_ns, now_ns), now_ns);
        grpc_event event = grpc_completion_queue_next(lane->queue, until, NULL);
        if (event.type == GRPC_QUEUE_TIMEOUT) {
            if (el_grpc_now_ns() >= deadline_ns) return NULL;
        } else if (event.tag == &alarm_tag) {
            pthread_mutex_lock(&lane->mutex);
            lane->alarm_pending = false;
            pthread_mutex_unlock(&lane->mutex);
            woken = true;
        } else {
            const el_grpc_tag *tag = event.tag;
            completion = tag->arrived(tag->owner, event.success);
            if (completion) return completion;
        }
    }
}

/* ---- no memory ---- */

static el_call *next_starved_call(el_grpc_lane *lane)
{
    pthread_mutex_lock(&lane->mutex);
    el_call *call = lane->starved_calls;
    if (call) lane->starved_calls = call->impl;
    pthread_mutex_unlock(&lane->mutex);
    return call;
}

static el_watch_stream *next_starved_stream(el_grpc_lane *lane)
{
    pthread_mutex_lock(&lane->mutex);
    el_watch_stream *stream = lane->starved_streams;
    if (stream) lane->starved_streams = stream->impl;
    pthread_mutex_unlock(&lane->mutex);
    return stream;
}

/* One at a time, for a callback may cancel another of the chain. As many as there were at the start, for a
 * callback may also start, and starve, a new one, and so on for ever; that one has been listed anew. */
static void deliver_starved(el_completion *completion)
{
    el_grpc_lane *lane = (el_grpc_lane *)(void *)((char *)completion - offsetof(el_grpc_lane, starved));
    const el_status *status = el_grpc_lane_is_shut(lane) ? &el_grpc_closed_status : &el_grpc_starved_status;
    pthread_mutex_lock(&lane->mutex);
    size_t left = lane->n_starved;
    lane->n_starved = 0;
    pthread_mutex_unlock(&lane->mutex);
    for (; left > 0; left--) {
        el_call *call = next_starved_call(lane);
        el_watch_stream *stream = call ? NULL : next_starved_stream(lane);
        if (call) call->done(call, status, NULL);
        if (stream) stream->closed(stream, status);
        el_grpc_lane_settle(lane);
    }
}

void el_grpc_lane_starve_call(el_grpc_lane *lane, el_call *call)
{
    pthread_mutex_lock(&lane->mutex);
    owe(lane);
    lane->n_starved++;
    call->impl = lane->starved_calls;
    lane->starved_calls = call;
    pthread_mutex_unlock(&lane->mutex);
    el_grpc_lane_push(lane, &lane->starved);
}

void el_grpc_lane_starve_stream(el_grpc_lane *lane, el_watch_stream *stream)
{
    pthread_mutex_lock(&lane->mutex);
    owe(lane);
    lane->n_starved++;
    stream->impl = lane->starved_streams;
    lane->starved_streams = stream;
    pthread_mutex_unlock(&lane->mutex);
    el_grpc_lane_push(lane, &lane->starved);
}

bool el_grpc_lane_is_starved_call(el_grpc_lane *lane, const el_call *call)
{
    pthread_mutex_lock(&lane->mutex);
    const el_call *at = lane->starved_calls;
    while (at && at != call)
        at = at->impl;
    pthread_mutex_unlock(&lane->mutex);
    return at;
}

bool el_grpc_lane_is_starved_stream(el_grpc_lane *lane, const el_watch_stream *stream)
{
    pthread_mutex_lock(&lane->mutex);
    const el_watch_stream *at = lane->starved_streams;
    while (at && at != stream)
        at = at->impl;
    pthread_mutex_unlock(&lane->mutex);
    return at;
}

/* ---- life ---- */

int el_grpc_lane_init(el_grpc_lane *lane, unsigned n_endpoints, bool stands_aside)
{
    *lane = (el_grpc_lane){.starved = {.deliver = deliver_starved}, .stands_aside = stands_aside};
    lane->channels = el_alloc(n_endpoints * sizeof *lane->channels);
    if (!lane->channels) return ENOMEM;
    lane->n_channels = n_endpoints;
    pthread_mutex_init(&lane->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&lane->roused, &attributes);
    pthread_condattr_destroy(&attributes);
    lane->queue = grpc_completion_queue_create_for_next(NULL);
    lane->alarm = grpc_lame_client_channel_create("alarm", GRPC_STATUS_UNAVAILABLE, "leads nowhere");
    return 0;
}

void el_grpc_lane_destroy(el_grpc_lane *lane)
{
    if (!lane->channels) return;
    for (unsigned i = 0; i < lane->n_channels; i++)
        el_grpc_channel_close(&lane->channels[i]);
    if (!lane->queue_shut) grpc_completion_queue_shutdown(lane->queue);
    drain(lane);
    grpc_channel_destroy(lane->alarm);
    grpc_completion_queue_destroy(lane->queue);
    pthread_cond_destroy(&lane->roused);
    pthread_mutex_destroy(&lane->mutex);
    el_free(lane->channels);
    lane->channels = NULL;
}
