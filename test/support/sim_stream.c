#include <stdlib.h>

#include "support/sim_client.h"

#define PING_TIMEOUT_NS (15 * SIM_S) /* an HTTP/2 ping every 10 s, 5 s for its answer */

static sim_member *member_of(const sim_stream *stream)
{
    return &stream->sim->members[stream->endpoint];
}

static void release(sim_stream *stream)
{
    if (--stream->references) return;
    sim_span_free(stream->token);
    free(stream);
}

static void wire_free(sim_wire *wire)
{
    sim_stream *stream = wire->stream;
    sim_arena_free(&wire->arena);
    free(wire);
    release(stream);
}

static void drop_held(sim_pipe *pipe)
{
    sim_wire *wire = pipe->first;
    pipe->first = NULL;
    pipe->last = &pipe->first;
    while (wire) {
        sim_wire *next = wire->next;
        wire_free(wire);
        wire = next;
    }
}

/* ---- the two ends ----------------------------------------------------------------------------------------
 */

static void serve(sim_stream *stream)
{
    sim_member *m = member_of(stream);
    stream->served = true;
    stream->references++;
    stream->next_of_member = m->streams;
    stream->previous_of_member = NULL;
    if (m->streams) m->streams->previous_of_member = stream;
    m->streams = stream;
}

static void stop_serving(sim_stream *stream)
{
    if (!stream->served) return;
    sim_watches_drop(stream);
    stream->served = false;
    if (stream->previous_of_member)
        stream->previous_of_member->next_of_member = stream->next_of_member;
    else
        member_of(stream)->streams = stream->next_of_member;
    if (stream->next_of_member) stream->next_of_member->previous_of_member = stream->previous_of_member;
    if (!stream->face) drop_held(&stream->up); /* nobody is left to let it through */
    release(stream);
}

static void tell_closed(sim_client *client, el_watch_stream *face, sim_verdict why, bool not_sent)
{
    el_completion *completion = sim_alloc(sizeof *completion);
    completion->kind = SIM_WATCH_CLOSED;
    completion->lane = face->lane;
    completion->stream = face;
    completion->status = (el_status){.code = why.code, .message = why.message, .not_sent = not_sent};
    face->impl = NULL;
    sim_complete(client, completion);
}

static void end_at_client(sim_stream *stream, sim_verdict why)
{
    if (!stream->face) return;
    tell_closed(stream->client, stream->face, why, false);
    stream->face = NULL;
    sim_event_clear(&stream->sim->agenda, &stream->watchdog);
    if (stream->previous)
        stream->previous->next = stream->next;
    else
        stream->client->streams = stream->next;
    if (stream->next) stream->next->previous = stream->previous;
    drop_held(&stream->down);
    if (!stream->served) drop_held(&stream->up);
    release(stream);
}

/* ---- messages --------------------------------------------------------------------------------------------
 */

static void arrive_at_member(sim_wire *wire)
{
    static const sim_verdict no_leader = {EL_UNAVAILABLE, "etcdserver: no leader"};
    static const sim_verdict learner = {EL_UNAVAILABLE, "etcdserver: rpc not supported for learner"};
    sim_stream *stream = wire->stream;
    if (wire->kind == SIM_WIRE_OPEN) {
        if (!stream->face) return; /* it broke meanwhile */
        serve(stream);
        if (member_of(stream)->learner)
            sim_stream_end(stream, learner);
        else if (!member_of(stream)->knows_leader)
            sim_stream_end(stream, no_leader);
        return;
    }
    if (!stream->served) return;
    if (wire->kind == SIM_WIRE_CREATE)
        sim_watch_add(stream, wire->watch_id, wire->key, wire->start_revision, wire->deletes_only);
    else if (wire->kind == SIM_WIRE_CANCEL)
        sim_watch_remove(stream, wire->watch_id);
    else
        stop_serving(stream);
}

static void arrive_at_client(sim_wire *wire)
{
    sim_stream *stream = wire->stream;
    if (!stream->face) return;
    if (wire->kind == SIM_WIRE_CLOSED) {
        end_at_client(stream, wire->verdict);
        return;
    }
    el_completion *completion = sim_alloc(sizeof *completion);
    completion->kind = SIM_WATCH_MESSAGE;
    completion->lane = stream->lane;
    completion->stream = stream->face;
    completion->message = wire->message;
    completion->arena = wire->arena;
    wire->arena = (sim_arena){0};
    sim_complete(stream->client, completion);
}

static bool goes_up(const sim_wire *wire)
{
    return wire->kind < SIM_WIRE_MESSAGE;
}

static bool blocked(const sim_stream *stream, bool up)
{
    const sim_link *link = &stream->client->links[stream->endpoint];
    return up ? link->no_requests || member_of(stream)->paused : link->no_answers;
}

static void arrive(void *owner)
{
    sim_wire *wire = owner;
    bool up = goes_up(wire);
    sim_pipe *pipe = up ? &wire->stream->up : &wire->stream->down;
    bool wanted = wire->stream->face || (up && wire->stream->served);
    if (wanted && blocked(wire->stream, up)) {
        *pipe->last = wire;
        pipe->last = &wire->next;
        return;
    }
    if (wanted && up) arrive_at_member(wire);
    if (wanted && !up) arrive_at_client(wire);
    wire_free(wire);
}

static void post(sim_wire *wire)
{
    sim_stream *stream = wire->stream;
    sim *s = stream->sim;
    sim_pipe *pipe = goes_up(wire) ? &stream->up : &stream->down;
    int64_t at_ns = sim_now(s) + sim_latency(s) + stream->client->links[stream->endpoint].delay_ns;
    if (sim_chance(s) < s->faults.delayed) at_ns += sim_between(s, 0, s->faults.delay_max_ns);
    if (at_ns < pipe->last_ns) at_ns = pipe->last_ns;
    pipe->last_ns = at_ns;
    stream->references++;
    wire->event.run = arrive;
    wire->event.owner = wire;
    sim_schedule(s, &wire->event, at_ns);
}

void sim_stream_send(sim_stream *stream, sim_wire_kind kind, int64_t watch_id, el_span key,
                     int64_t start_revision, bool deletes_only)
{
    sim_wire *wire = sim_alloc(sizeof *wire);
    wire->stream = stream;
    wire->kind = kind;
    wire->watch_id = watch_id;
    wire->key = sim_arena_span(&wire->arena, key);
    wire->start_revision = start_revision;
    wire->deletes_only = deletes_only;
    post(wire);
}

void sim_stream_tell(sim_stream *stream, const el_watch_message *message, sim_arena *arena)
{
    sim_wire *wire = sim_alloc(sizeof *wire);
    wire->stream = stream;
    wire->kind = SIM_WIRE_MESSAGE;
    wire->message = *message;
    wire->arena = *arena;
    post(wire);
}

void sim_stream_end(sim_stream *stream, sim_verdict why)
{
    sim_wire *wire = sim_alloc(sizeof *wire);
    wire->stream = stream;
    wire->kind = SIM_WIRE_CLOSED;
    wire->verdict = why;
    post(wire);
    stop_serving(stream);
}

/* ---- life ------------------------------------------------------------------------------------------------
 */

void sim_stream_break(sim_stream *stream, sim_verdict why)
{
    stream->references++;
    stop_serving(stream);
    end_at_client(stream, why);
    drop_held(&stream->up);
    release(stream);
}

static void ping_unanswered(void *owner)
{
    sim_stream_break(owner, (sim_verdict){EL_UNAVAILABLE, "keepalive watchdog timeout"});
}

static void let_through(sim_pipe *pipe)
{
    sim_wire *wire = pipe->first;
    pipe->first = NULL;
    pipe->last = &pipe->first;
    while (wire) {
        sim_wire *next = wire->next;
        wire->next = NULL;
        arrive(wire);
        wire = next;
    }
}

void sim_stream_unblock(sim_stream *stream)
{
    sim *s = stream->sim;
    stream->references++;
    if (!blocked(stream, true) && !blocked(stream, false))
        sim_event_clear(&s->agenda, &stream->watchdog);
    else if (!stream->watchdog.slot && stream->face)
        sim_schedule(s, &stream->watchdog, sim_now(s) + PING_TIMEOUT_NS);
    let_through(&stream->up);
    let_through(&stream->down);
    release(stream);
}

void sim_stream_open(sim_client *client, el_watch_stream *face)
{
    sim *s = client->sim;
    if (client->shut_down) {
        tell_closed(client, face, (sim_verdict){EL_CANCELLED, "shut down"}, true);
        return;
    }
    if (s->members[face->endpoint].dead || client->links[face->endpoint].refused) {
        tell_closed(client, face, (sim_verdict){EL_UNAVAILABLE, "connection refused"}, true);
        return;
    }
    sim_stream *stream = sim_alloc(sizeof *stream);
    stream->sim = s;
    stream->client = client;
    stream->face = face;
    stream->endpoint = face->endpoint;
    stream->lane = face->lane;
    stream->token = sim_span_dup(face->token);
    stream->references = 1;
    stream->up.last = &stream->up.first;
    stream->down.last = &stream->down.first;
    stream->watchdog.run = ping_unanswered;
    stream->watchdog.owner = stream;
    stream->next = client->streams;
    if (stream->next) stream->next->previous = stream;
    client->streams = stream;
    face->impl = stream;
    sim_stream_send(stream, SIM_WIRE_OPEN, 0, (el_span){"", 0}, 0, false);
    sim_stream_unblock(stream); /* on a way that is blocked already the ping goes unanswered from the start */
}

void sim_stream_close(sim_stream *stream)
{
    sim_stream_send(stream, SIM_WIRE_CLOSE, 0, (el_span){"", 0}, 0, false);
    end_at_client(stream, (sim_verdict){EL_CANCELLED, "closed by the client"});
}
