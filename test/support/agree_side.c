#include "support/agree_side.h"

#include <string.h>

#include "support/agree_text.h"
#include "support/sim_memory.h"

#define CALL_TIMEOUT_NS (10 * SIM_S)

static void drain(agree_side *side, int64_t until_ns)
{
    bool ended;
    el_completion *completion;
    while ((completion = side->transport->next(side->transport, EL_LANE_IO, until_ns, &ended)))
        side->transport->deliver(side->transport, completion);
}

/* One bit of progress; returns by until_ns at the latest. */
static void advance(agree_side *side, int64_t until_ns)
{
    if (!side->sim) {
        bool ended;
        el_completion *completion = side->transport->next(side->transport, EL_LANE_IO, until_ns, &ended);
        if (completion) side->transport->deliver(side->transport, completion);
        return;
    }
    sim_wake_at(side->transport, EL_LANE_IO, until_ns);
    sim_step(side->sim);
    drain(side, 0);
}

static void settle(agree_side *side, int64_t ms)
{
    int64_t until_ns = side->transport->now_ns(side->transport) + ms * SIM_MS;
    while (side->transport->now_ns(side->transport) < until_ns)
        advance(side, until_ns);
}

static bool has_said_less(const agree_side *side, const agree_side *than)
{
    for (int id = 0; id < AGREE_WATCHES; id++)
        if (side->watches[id].used < than->watches[id].used) return true;
    return false;
}

void agree_settle_both(agree_side *simulated, agree_side *real, int64_t ms)
{
    settle(simulated, ms);
    settle(real, ms);
    for (int i = 0; i < 1000 && has_said_less(real, simulated); i++)
        settle(real, 10);
}

/* ---- requests --------------------------------------------------------------------------------------------
 */

/* The copies made by sim_arena_request may be written to. */
static void shift_txn(const el_txn_request *txn, int64_t base);

static void shift_range(el_range_request *range, int64_t base)
{
    if (range->max_create_revision) range->max_create_revision += base;
}

static void shift_ops(const el_op *ops, size_t n, int64_t base)
{
    for (size_t i = 0; i < n; i++) {
        el_op *op = (el_op *)(uintptr_t)&ops[i];
        if (op->kind == EL_OP_RANGE) shift_range(&op->range, base);
        if (op->kind == EL_OP_TXN) shift_txn(op->txn, base);
    }
}

static void shift_txn(const el_txn_request *txn, int64_t base)
{
    for (size_t i = 0; i < txn->n_compares; i++) {
        el_compare *compare = (el_compare *)(uintptr_t)&txn->compares[i];
        bool revision =
            compare->target == EL_TARGET_CREATE_REVISION || compare->target == EL_TARGET_MOD_REVISION;
        if (revision && compare->number > 0) compare->number += base;
    }
    shift_ops(txn->success, txn->n_success, base);
    shift_ops(txn->failure, txn->n_failure, base);
}

typedef struct asked {
    el_call call;
    agree_side *side;
} asked;

static void note_answer(el_call *call, const el_status *status, const el_answer *answer)
{
    agree_side *side = ((asked *)call)->side;
    side->answered = true;
    agree_print_answer(&side->answer, status, answer, side->base_revision);
    if (answer && answer->revision) side->revision = answer->revision - side->base_revision;
}

static void ask(agree_side *side, const el_request *request)
{
    el_transport *t = side->transport;
    asked a = {.call = {.lane = EL_LANE_IO, .done = note_answer}, .side = side};
    a.call.deadline_ns = t->now_ns(t) + CALL_TIMEOUT_NS;
    side->answered = false;
    side->answer.used = 0;
    t->call(t, &a.call, request);
    while (!side->answered)
        advance(side, a.call.deadline_ns + SIM_S);
}

void agree_ask(agree_side *side, const el_request *request)
{
    sim_arena arena = {0};
    el_request *copy = sim_arena_request(&arena, request);
    if (copy->verb == EL_TXN) shift_txn(&copy->txn, side->base_revision);
    if (copy->verb == EL_RANGE) shift_range(&copy->range, side->base_revision);
    ask(side, copy);
    sim_arena_free(&arena);
}

/* ---- watches ---------------------------------------------------------------------------------------------
 */

static agree_side *side_of(el_watch_stream *stream)
{
    return (agree_side *)((char *)stream - offsetof(agree_side, stream));
}

static void note_message(el_watch_stream *stream, const el_watch_message *message)
{
    agree_side *side = side_of(stream);
    bool known = message->watch_id > 0 && message->watch_id < AGREE_WATCHES;
    agree_print_message(&side->watches[known ? message->watch_id : 0], message, side->base_revision);
}

static void note_closed(el_watch_stream *stream, const el_status *status)
{
    agree_side *side = side_of(stream);
    side->stream_closed = true;
    agree_print(&side->watches[0], "closed %d; ", status->code);
}

void agree_watch_open(agree_side *side)
{
    side->stream = (el_watch_stream){.lane = EL_LANE_IO, .message = note_message, .closed = note_closed};
    side->stream_closed = false;
    side->transport->watch_open(side->transport, &side->stream);
}

void agree_watch_create(agree_side *side, int64_t id, el_span key, int64_t start_revision, bool deletes_only)
{
    if (start_revision) start_revision += side->base_revision;
    side->transport->watch_create(side->transport, &side->stream, id, key, start_revision, deletes_only);
}

void agree_watch_cancel(agree_side *side, int64_t id)
{
    side->transport->watch_cancel(side->transport, &side->stream, id);
}

/* ---- life ------------------------------------------------------------------------------------------------
 */

bool agree_start(agree_side *side)
{
    el_request look = {.verb = EL_RANGE, .range = {.key = sim_text("agree"), .count_only = true}};
    side->base_revision = 0;
    side->revision = 0;
    ask(side, &look);
    side->base_revision = side->revision;
    side->revision = 0;
    return side->base_revision > 0;
}

void agree_end(agree_side *side)
{
    el_transport *t = side->transport;
    bool ended = false;
    t->shutdown(t);
    for (int lane = 0; lane < EL_LANES; lane++) {
        do {
            el_completion *completion = t->next(t, (el_lane)lane, INT64_MAX, &ended);
            if (completion) t->deliver(t, completion);
        } while (!ended);
    }
    t->free(t);
    agree_text_free(&side->answer);
    for (int i = 0; i < AGREE_WATCHES; i++)
        agree_text_free(&side->watches[i]);
}
