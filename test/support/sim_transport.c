#include <stdlib.h>

#include "support/sim_client.h"

static sim_client *client_of(el_transport *t)
{
    return (sim_client *)t;
}

/* ---- completions -----------------------------------------------------------------------------------------
 */

void sim_complete(sim_client *client, el_completion *completion)
{
    sim_lane *lane = &client->lanes[completion->lane];
    *lane->last = completion;
    lane->last = &completion->next;
    if (client->sim->options.realtime) pthread_cond_broadcast(&lane->changed);
}

void sim_call_finish(sim_call *call, const el_status *status, sim_op *op)
{
    sim_client *client = call->client;
    el_completion *completion = sim_alloc(sizeof *completion);
    completion->kind = SIM_CALL_DONE;
    completion->lane = call->face->lane;
    completion->call = call->face;
    completion->status = *status;
    if (op) {
        completion->answer = op->answer;
        completion->arena = op->arena;
        op->arena = (sim_arena){0};
    }
    call->face->impl = NULL;
    if (call->op) call->op->origin = NULL;
    if (op) sim_op_free(op);
    sim_event_clear(&client->sim->agenda, &call->deadline);
    if (call->previous)
        call->previous->next = call->next;
    else
        client->calls = call->next;
    if (call->next) call->next->previous = call->previous;
    free(call);
    sim_complete(client, completion);
}

static el_completion *pop(sim_lane *lane)
{
    el_completion *completion = lane->first;
    if (!completion) return NULL;
    lane->first = completion->next;
    if (!lane->first) lane->last = &lane->first;
    return completion;
}

/* What there is to give at once; otherwise NULL, with *wait telling whether it is worth waiting. */
static el_completion *look(sim_client *client, el_lane which, int64_t now_ns, bool *ended, bool *wait)
{
    sim_lane *lane = &client->lanes[which];
    *wait = false;
    if (now_ns < client->frozen_until_ns) {
        *wait = true;
        return NULL;
    }
    el_completion *completion = pop(lane);
    if (completion) return completion;
    if (client->shut_down && lane->alive == 0) {
        *ended = true;
        return NULL;
    }
    *wait = !lane->woken;
    lane->woken = false;
    return NULL;
}

static void wait_until(sim_client *client, sim_lane *lane, int64_t until_ns, int64_t now_ns)
{
    sim *s = client->sim;
    if (until_ns == INT64_MAX) {
        pthread_cond_wait(&lane->changed, &s->mutex);
        return;
    }
    struct timespec until;
    sim_real_deadline(s, until_ns - now_ns, &until);
    pthread_cond_timedwait(&lane->changed, &s->mutex, &until);
}

static el_completion *next(el_transport *t, el_lane which, int64_t deadline_ns, bool *ended)
{
    sim_client *client = client_of(t);
    sim *s = client->sim;
    sim_lane *lane = &client->lanes[which];
    bool wait;
    sim_lock(s);
    *ended = false;
    el_completion *completion = look(client, which, sim_now(s), ended, &wait);
    while (!completion && wait && s->options.realtime) {
        int64_t now_ns = sim_now(s);
        bool frozen = now_ns < client->frozen_until_ns;
        if (!frozen && now_ns >= deadline_ns) break;
        wait_until(client, lane, frozen ? client->frozen_until_ns : deadline_ns, now_ns);
        completion = look(client, which, sim_now(s), ended, &wait);
    }
    sim_unlock(s);
    return completion;
}

static void deliver(el_transport *t, el_completion *completion)
{
    sim_client *client = client_of(t);
    if (completion->kind == SIM_WATCH_MESSAGE) {
        completion->stream->message(completion->stream, &completion->message);
    } else {
        sim_lock(client->sim);
        client->lanes[completion->lane].alive--;
        sim_unlock(client->sim);
        if (completion->kind == SIM_WATCH_CLOSED)
            completion->stream->closed(completion->stream, &completion->status);
        else
            completion->call->done(completion->call, &completion->status,
                                   completion->status.code == EL_OK ? &completion->answer : NULL);
    }
    sim_arena_free(&completion->arena);
    free(completion);
}

/* ---- calls -----------------------------------------------------------------------------------------------
 */

static void deadline_event(void *owner)
{
    el_status status = {.code = EL_DEADLINE_EXCEEDED, .message = "Deadline Exceeded"};
    sim_call_finish(owner, &status, NULL);
}

static bool refuse_at_once(sim_client *client, const el_call *face, el_status *status)
{
    *status = (el_status){.message = ""};
    if (client->shut_down)
        *status = (el_status){.code = EL_CANCELLED, .message = "shut down", .not_sent = true};
    else if (client->sim->members[face->endpoint].dead || client->links[face->endpoint].refused)
        *status = (el_status){.code = EL_UNAVAILABLE, .message = "connection refused", .not_sent = true};
    else if (face->deadline_ns <= sim_now(client->sim))
        *status = (el_status){.code = EL_DEADLINE_EXCEEDED, .message = "Deadline Exceeded"};
    return status->code != EL_OK;
}

/* EL_OK: this call is not the one to spoil. */
static el_code countdown(sim_client *client)
{
    if (client->fail_after < 0 || client->fail_after-- > 0) return EL_OK;
    return client->fail_code;
}

static void call(el_transport *t, el_call *face, const el_request *request)
{
    sim_client *client = client_of(t);
    sim *s = client->sim;
    sim_lock(s);
    sim_call *c = sim_alloc(sizeof *c);
    c->client = client;
    c->face = face;
    c->deadline.run = deadline_event;
    c->deadline.owner = c;
    c->next = client->calls;
    if (c->next) c->next->previous = c;
    client->calls = c;
    client->lanes[face->lane].alive++;
    client->calls_made++;
    face->impl = c;

    el_status status;
    el_code spoilt = countdown(client);
    if (refuse_at_once(client, face, &status)) {
        sim_call_finish(c, &status, NULL);
    } else if (spoilt && !client->fail_served) {
        status = (el_status){.code = spoilt, .message = "spoilt by the simulator"};
        sim_call_finish(c, &status, NULL);
    } else {
        sim_op *op = sim_op_new(client, face->endpoint, request);
        op->token = sim_arena_span(&op->arena, face->token);
        op->spoilt = spoilt;
        op->origin = c;
        c->op = op;
        sim_schedule(s, &c->deadline, face->deadline_ns);
        sim_net_send(op);
    }
    sim_unlock(s);
}

static void cancel(el_transport *t, el_call *face)
{
    sim *s = client_of(t)->sim;
    el_status status = {.code = EL_CANCELLED, .message = "cancelled"};
    sim_lock(s);
    if (face->impl) sim_call_finish(face->impl, &status, NULL);
    sim_unlock(s);
}

/* ---- watches ---------------------------------------------------------------------------------------------
 */

static void watch_open(el_transport *t, el_watch_stream *stream)
{
    sim_client *client = client_of(t);
    sim_lock(client->sim);
    client->lanes[stream->lane].alive++;
    sim_stream_open(client, stream);
    sim_unlock(client->sim);
}

static void watch_create(el_transport *t, el_watch_stream *stream, int64_t watch_id, el_span key,
                         int64_t start_revision, bool deletes_only)
{
    sim *s = client_of(t)->sim;
    sim_lock(s);
    if (stream->impl)
        sim_stream_send(stream->impl, SIM_WIRE_CREATE, watch_id, key, start_revision, deletes_only);
    sim_unlock(s);
}

static void watch_cancel(el_transport *t, el_watch_stream *stream, int64_t watch_id)
{
    sim *s = client_of(t)->sim;
    sim_lock(s);
    if (stream->impl) sim_stream_send(stream->impl, SIM_WIRE_CANCEL, watch_id, (el_span){"", 0}, 0, false);
    sim_unlock(s);
}

static void watch_close(el_transport *t, el_watch_stream *stream)
{
    sim *s = client_of(t)->sim;
    sim_lock(s);
    if (stream->impl) sim_stream_close(stream->impl);
    sim_unlock(s);
}

/* ---- the rest of the table -------------------------------------------------------------------------------
 */

static int64_t now_ns(el_transport *t)
{
    return sim_now(client_of(t)->sim);
}

static uint64_t random64(el_transport *t)
{
    return sim_random(client_of(t)->sim);
}

static void timer_event(void *owner)
{
    (void)owner; /* the step itself is all that was wanted */
}

static void wake(el_transport *t, el_lane which)
{
    sim_client *client = client_of(t);
    sim *s = client->sim;
    sim_lane *lane = &client->lanes[which];
    sim_lock(s);
    lane->woken = true;
    if (s->options.realtime)
        pthread_cond_broadcast(&lane->changed);
    else if (!lane->timer.slot || lane->timer.at_ns > s->now_ns)
        sim_schedule(s, &lane->timer, s->now_ns);
    sim_unlock(s);
}

static void shut_down(el_transport *t)
{
    sim_client *client = client_of(t);
    sim *s = client->sim;
    el_status status = {.code = EL_CANCELLED, .message = "shut down"};
    sim_lock(s);
    client->shut_down = true;
    while (client->calls)
        sim_call_finish(client->calls, &status, NULL);
    while (client->streams)
        sim_stream_close(client->streams);
    for (int lane = 0; lane < EL_LANES; lane++)
        if (s->options.realtime) pthread_cond_broadcast(&client->lanes[lane].changed);
    sim_unlock(s);
}

static void free_client(el_transport *t)
{
    sim_client *client = client_of(t);
    sim *s = client->sim;
    sim_lock(s);
    client->gone = true;
    sim_event_clear(&s->agenda, &client->thaw);
    for (int lane = 0; lane < EL_LANES; lane++)
        sim_event_clear(&s->agenda, &client->lanes[lane].timer);
    sim_unlock(s);
}

el_transport *sim_client_new(sim *s)
{
    sim_client *client = sim_alloc(sizeof *client);
    client->table = (el_transport){
        .n_endpoints = s->options.members,
        .now_ns = now_ns,
        .random = random64,
        .call = call,
        .cancel = cancel,
        .watch_open = watch_open,
        .watch_create = watch_create,
        .watch_cancel = watch_cancel,
        .watch_close = watch_close,
        .next = next,
        .deliver = deliver,
        .wake = wake,
        .shutdown = shut_down,
        .free = free_client,
    };
    client->sim = s;
    client->fail_after = -1;
    client->thaw.run = timer_event;
    for (int i = 0; i < EL_LANES; i++) {
        sim_lane *lane = &client->lanes[i];
        lane->last = &lane->first;
        lane->timer.run = timer_event;
        if (s->options.realtime) sim_cond_init(&lane->changed);
    }
    sim_lock(s);
    client->next = s->clients;
    s->clients = client;
    sim_unlock(s);
    return &client->table;
}

/* ---- by hand ---------------------------------------------------------------------------------------------
 */

void sim_wake_at(el_transport *t, el_lane which, int64_t at_ns)
{
    sim_client *client = client_of(t);
    sim *s = client->sim;
    sim_event *timer = &client->lanes[which].timer;
    sim_lock(s);
    if (at_ns == INT64_MAX)
        sim_event_clear(&s->agenda, timer);
    else
        sim_schedule(s, timer, at_ns);
    sim_unlock(s);
}

void sim_freeze(el_transport *t, int64_t until_ns)
{
    sim_client *client = client_of(t);
    sim *s = client->sim;
    sim_lock(s);
    client->frozen_until_ns = until_ns;
    sim_schedule(s, &client->thaw, until_ns);
    for (int lane = 0; lane < EL_LANES; lane++)
        if (s->options.realtime) pthread_cond_broadcast(&client->lanes[lane].changed);
    sim_unlock(s);
}

bool sim_frozen(el_transport *t)
{
    sim_client *client = client_of(t);
    sim_lock(client->sim);
    bool frozen = sim_now(client->sim) < client->frozen_until_ns;
    sim_unlock(client->sim);
    return frozen;
}

void sim_fail_call_after(el_transport *t, long n, el_code code, bool served)
{
    sim_client *client = client_of(t);
    sim_lock(client->sim);
    client->fail_after = n;
    client->fail_code = code;
    client->fail_served = served;
    sim_unlock(client->sim);
}

long sim_calls_made(el_transport *t)
{
    sim_client *client = client_of(t);
    sim_lock(client->sim);
    long made = client->calls_made;
    sim_unlock(client->sim);
    return made;
}
