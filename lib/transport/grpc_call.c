#include "transport/grpc_call.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>

#include "core/alloc.h"
#include "transport/grpc_exchange.h"

/* One el_call on its way. It outlives `done` where gRPC still owes a tag, so it never looks at the el_call
 * after that. */
typedef struct attempt {
    el_completion completion; /* first: the lane hands out this */
    el_grpc_running running;
    el_grpc_tag on_sent;     /* only without a connection at the start: the batch of sends */
    el_grpc_tag on_answered; /* a single call: all the rest; a renewal: all but the status */
    el_grpc_tag on_ended;    /* a renewal: the status */
    el_grpc_lane *lane;
    el_grpc_channel *channel;
    el_call *owner;
    el_verb verb;
    int64_t begun_ns;
    unsigned tags_to_come;
    atomic_uint users; /* gRPC while tags are to come, and the completion until delivered */
    bool reported;     /* the completion has been handed out */
    grpc_byte_buffer *request;
    grpc_byte_buffer *reply;
    el_grpc_exchange exchange;
    el_status status;
    el_answer answer;
    el_arena arena;
    max_align_t space[32]; /* enough for the answers of an uncontended lock */
} attempt;

static void release(attempt *a)
{
    if (atomic_fetch_sub(&a->users, 1) > 1) return;
    el_grpc_lane *lane = a->lane;
    if (a->request) grpc_byte_buffer_destroy(a->request);
    if (a->reply) grpc_byte_buffer_destroy(a->reply);
    el_grpc_exchange_clear(&a->exchange);
    el_arena_release(&a->arena);
    el_free(a);
    el_grpc_lane_settle(lane);
}

static void deliver(el_completion *completion)
{
    attempt *a = (attempt *)(void *)completion;
    a->owner->done(a->owner, &a->status, a->status.code == EL_OK ? &a->answer : NULL);
    release(a);
}

static void read_reply(attempt *a)
{
    el_grpc_bytes bytes;
    int error = EBADMSG;
    if (el_grpc_bytes_open(&bytes, a->reply)) {
        error = el_decode_answer(&a->arena, a->verb, bytes.data, bytes.size, &a->answer);
    }
    el_grpc_bytes_release(&bytes);
    a->status = error ? el_grpc_decoding_status(error) : (el_status){.code = EL_OK, .message = ""};
}

static void conclude(attempt *a)
{
    a->status = el_grpc_exchange_status(&a->exchange, a->channel);
    if (a->status.code == EL_DEADLINE_EXCEEDED && !a->status.not_sent)
        el_grpc_channel_unanswered(a->channel, a->begun_ns, el_grpc_now_ns());
    if (a->status.code != EL_OK) return;
    if (a->reply) {
        read_reply(a);
    } else {
        a->status =
            (el_status){.code = EL_UNAVAILABLE, .message = "the member ended the call without an answer"};
    }
}

/* A tag has arrived. What it was is over; `reply_complete`: a->reply may be looked at. */
static el_completion *moved(attempt *a, bool reply_complete)
{
    bool report = false;
    bool last = --a->tags_to_come == 0;
    if (!a->reported && reply_complete && a->reply && a->verb == EL_LEASE_KEEPALIVE) {
        read_reply(a);
        report = true;
        /* The stream has served; nobody waits for its trailing status. */
        if (!last) el_grpc_lane_cancel(a->lane, &a->running);
    } else if (!a->reported && last) {
        conclude(a);
        report = true;
    }
    if (report) a->reported = true;
    if (last) {
        el_grpc_lane_finish(a->lane, &a->running);
        release(a);
    }
    return report ? &a->completion : NULL;
}

static el_completion *sent(void *owner, bool ok)
{
    attempt *a = owner;
    a->exchange.not_sent = !ok;
    return moved(a, false);
}

static el_completion *answered(void *owner, bool ok)
{
    (void)ok;
    return moved(owner, true);
}

static el_completion *ended(void *owner, bool ok)
{
    (void)ok;
    return moved(owner, false);
}

/* ---- start ---- */

/* One batch for all is the cheapest. A renewal's status is awaited apart, for it may come much later than the
 * answer. And where there is no connection yet, the sends are a batch of their own, whose failure proves that
 * nothing was sent; with a connection they would hardly ever fail, and the extra tag would wake the lane's
 * thread once more per call. */
static grpc_call_error start(attempt *a, grpc_call *call, bool connected)
{
    grpc_op ops[] = {
        el_grpc_send_headers(&a->exchange),
        el_grpc_send_message(a->request),
        el_grpc_send_end(),
        el_grpc_receive_headers(&a->exchange),
        el_grpc_receive_message(&a->reply),
        el_grpc_receive_status(&a->exchange),
    };
    enum { SENDS = 3, ALL = sizeof ops / sizeof ops[0] };
    size_t from = connected ? 0 : SENDS;
    size_t to = a->verb == EL_LEASE_KEEPALIVE ? ALL - 1 : ALL;
    a->on_sent = (el_grpc_tag){.arrived = sent, .owner = a};
    a->on_answered = (el_grpc_tag){.arrived = answered, .owner = a};
    a->on_ended = (el_grpc_tag){.arrived = ended, .owner = a};
    a->tags_to_come = 1 + (from > 0) + (to < ALL);
    grpc_call_error error = GRPC_CALL_OK;
    if (from > 0) error = grpc_call_start_batch(call, ops, from, &a->on_sent, NULL);
    if (error != GRPC_CALL_OK) return error;
    error = grpc_call_start_batch(call, ops + from, to - from, &a->on_answered, NULL);
    /* Only what the caller gives, the headers, can be refused. */
    assert(from == 0 || error == GRPC_CALL_OK);
    if (error != GRPC_CALL_OK) return error;
    if (to < ALL) error = grpc_call_start_batch(call, ops + to, ALL - to, &a->on_ended, NULL);
    assert(error == GRPC_CALL_OK);
    return GRPC_CALL_OK;
}

static void fail(attempt *a, el_status status)
{
    a->status = status;
    a->users = 1;
    a->reported = true;
    el_grpc_lane_push(a->lane, &a->completion);
}

static int prepare(attempt *a, const el_request *request)
{
    el_encoding encoding;
    int error = el_encode_request(&encoding, request);
    if (!error) a->request = el_grpc_bytes_of(&encoding);
    el_encoding_release(&encoding);
    return error;
}

void el_grpc_call_start(el_grpc_lane *lane, el_grpc_channel *channel, el_call *call,
                        const el_request *request)
{
    attempt *a = el_alloc(sizeof *a);
    if (!a) {
        el_grpc_lane_starve_call(lane, call);
        return;
    }
    call->impl = a;
    a->completion.deliver = deliver;
    a->lane = lane;
    a->channel = channel;
    a->owner = call;
    a->verb = request->verb;
    a->users = 2;
    el_grpc_lane_owe(lane);
    el_arena_init(&a->arena, a->space, sizeof a->space);
    bool has_leader = request->verb != EL_STATUS && request->verb != EL_AUTHENTICATE;
    el_grpc_exchange_init(&a->exchange, has_leader, call->token);
    if (el_grpc_lane_is_shut(lane)) {
        fail(a, el_grpc_closed_status);
        return;
    }
    if (prepare(a, request)) {
        fail(a, el_grpc_starved_status);
        return;
    }
    int64_t now_ns = el_grpc_now_ns();
    a->begun_ns = now_ns;
    grpc_call *grpc = el_grpc_channel_call(channel, (int)request->verb, lane->queue,
                                           el_grpc_time(call->deadline_ns, now_ns));
    el_grpc_lane_start(lane, &a->running, grpc);
    grpc_call_error error = start(a, grpc, el_grpc_channel_is_ready(channel));
    if (error != GRPC_CALL_OK) {
        el_grpc_lane_finish(lane, &a->running);
        fail(a, el_grpc_refused_status(error));
    }
}

void el_grpc_call_cancel(el_grpc_lane *lane, el_call *call)
{
    /* A starved one is over already and has no attempt. */
    if (el_grpc_lane_is_starved_call(lane, call)) return;
    attempt *a = call->impl;
    el_grpc_lane_cancel(lane, &a->running);
}
