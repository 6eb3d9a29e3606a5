#include <stdlib.h>

#include "support/sim_client.h"

sim_op *sim_op_new(sim_client *client, unsigned endpoint, const el_request *request)
{
    sim_op *op = sim_alloc(sizeof *op);
    op->sim = client->sim;
    op->client = client;
    op->endpoint = endpoint;
    op->request = sim_arena_request(&op->arena, request);
    op->answer.verb = request->verb;
    op->verdict.message = "";
    op->sim->ops_alive++;
    return op;
}

void sim_op_free(sim_op *op)
{
    sim_event_clear(&op->sim->agenda, &op->event);
    if (op->origin) op->origin->op = NULL;
    op->sim->ops_alive--;
    sim_arena_free(&op->arena);
    free(op);
}

static int64_t travel_ns(sim_op *op)
{
    sim *s = op->sim;
    int64_t ns = sim_latency(s) + op->client->links[op->endpoint].delay_ns;
    if (sim_chance(s) < s->faults.delayed) ns += sim_between(s, 0, s->faults.delay_max_ns);
    return ns;
}

static void arrive_at_member(void *owner)
{
    sim_op *op = owner;
    const sim_link *link = &op->client->links[op->endpoint];
    if (link->no_requests || link->refused)
        sim_op_free(op);
    else
        sim_serve(op);
}

void sim_net_send(sim_op *op)
{
    sim *s = op->sim;
    if (sim_chance(s) < s->faults.request_lost) {
        sim_op_free(op);
        return;
    }
    op->event.run = arrive_at_member;
    op->event.owner = op;
    sim_schedule(s, &op->event, sim_now(s) + travel_ns(op));
    /* The request may have got through before the connection broke, or not. */
    if (sim_chance(s) >= s->faults.reset) return;
    bool through = sim_between(s, 0, 1);
    sim_net_break(op->client, op->endpoint, op->origin->face->lane, "Connection reset by peer");
    if (!through) sim_op_free(op);
}

static void arrive_at_client(void *owner)
{
    sim_op *op = owner;
    const sim_link *link = &op->client->links[op->endpoint];
    if (link->no_answers || link->refused || !op->origin) {
        sim_op_free(op);
        return;
    }
    el_status status = {.code = op->verdict.code, .message = op->verdict.message};
    sim_call_finish(op->origin, &status, op);
}

void sim_net_answer(sim_op *op)
{
    sim *s = op->sim;
    if (!op->origin || sim_chance(s) < s->faults.answer_lost) {
        sim_op_free(op);
        return;
    }
    if (op->spoilt) op->verdict = (sim_verdict){op->spoilt, "spoilt by the simulator"};
    if (sim_chance(s) < s->faults.answer_unavailable)
        op->verdict = (sim_verdict){EL_UNAVAILABLE, "transport is closing"};
    op->event.run = arrive_at_client;
    op->event.owner = op;
    sim_schedule(s, &op->event, sim_now(s) + travel_ns(op));
}

void sim_net_break(sim_client *client, unsigned endpoint, el_lane lane, const char *why)
{
    el_status status = {.code = EL_UNAVAILABLE, .message = why};
    sim_call *next_call;
    for (sim_call *call = client->calls; call; call = next_call) {
        next_call = call->next;
        if (call->face->endpoint == endpoint && call->face->lane == lane)
            sim_call_finish(call, &status, NULL);
    }
    sim_stream *next_stream;
    for (sim_stream *stream = client->streams; stream; stream = next_stream) {
        next_stream = stream->next;
        if (stream->endpoint == endpoint && stream->lane == lane)
            sim_stream_break(stream, (sim_verdict){EL_UNAVAILABLE, why});
    }
}

void sim_net_break_all(sim_client *client, unsigned endpoint, const char *why)
{
    for (int lane = 0; lane < EL_LANES; lane++)
        sim_net_break(client, endpoint, (el_lane)lane, why);
}

/* ---- by hand ---------------------------------------------------------------------------------------------
 */

void sim_net_unblock(sim_client *client, unsigned endpoint)
{
    sim_stream *next;
    for (sim_stream *stream = client->streams; stream; stream = next) {
        next = stream->next;
        if (stream->endpoint == endpoint) sim_stream_unblock(stream);
    }
    /* Those which the client has closed already, of which the member has yet to hear. */
    for (sim_stream *stream = client->sim->members[endpoint].streams; stream; stream = next) {
        next = stream->next_of_member;
        if (stream->client == client && !stream->face) sim_stream_unblock(stream);
    }
}

void sim_set_link(el_transport *t, unsigned endpoint, const sim_link *link)
{
    sim_client *client = (sim_client *)t;
    sim_lock(client->sim);
    client->links[endpoint] = link ? *link : (sim_link){0};
    if (client->links[endpoint].refused) sim_net_break_all(client, endpoint, "Connection reset by peer");
    sim_net_unblock(client, endpoint);
    sim_unlock(client->sim);
}

void sim_reset(el_transport *t, unsigned endpoint)
{
    sim_client *client = (sim_client *)t;
    sim_lock(client->sim);
    sim_net_break_all(client, endpoint, "Connection reset by peer");
    sim_unlock(client->sim);
}
