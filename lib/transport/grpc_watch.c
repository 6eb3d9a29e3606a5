#include "transport/grpc_watch.h"

#include <assert.h>
#include <errno.h>

#include "core/alloc.h"
#include "transport/grpc_exchange.h"

/* A message that waits until the one before it has been written: gRPC takes one at a time. */
typedef struct outgoing {
    struct outgoing *next;
    grpc_byte_buffer *bytes;
} outgoing;

/* A create request that the server has not answered yet. */
typedef struct unanswered {
    struct unanswered *next;
    int64_t watch_id;
} unanswered;

typedef struct stream {
    el_completion closed; /* first: the lane hands out this at the end */
    el_grpc_running running;
    el_grpc_tag on_opened;
    el_grpc_tag on_sent;
    el_grpc_tag on_received;
    el_grpc_tag on_status;
    el_grpc_lane *lane;
    el_grpc_channel *channel;
    el_watch_stream *owner;
    int64_t begun_ns;
    el_status status; /* of `closed` */

    pthread_mutex_t mutex; /* guards what follows, between the lane's thread and the client's */
    unsigned in_flight;    /* batches whose tag is to come */
    bool over;             /* the status is known, nothing more can be sent */
    bool failed;           /* ended by this side, and `status` says why */
    outgoing *sending;     /* in gRPC's hands now, the head of the queue */
    outgoing *last_outgoing;
    unanswered *oldest;
    unanswered *newest;
    grpc_byte_buffer *received;
    el_grpc_exchange exchange;
} stream;

/* One message received, until it is delivered. */
typedef struct message {
    el_completion completion; /* first */
    el_watch_stream *owner;
    el_watch_message content;
    el_arena arena;
    max_align_t space[32];
} message;

/* ---- the end of a stream ---- */

static void drop_outgoing(stream *s)
{
    while (s->sending) {
        outgoing *next = s->sending->next;
        grpc_byte_buffer_destroy(s->sending->bytes);
        el_free(s->sending);
        s->sending = next;
    }
}

static void drop_unanswered(stream *s)
{
    while (s->oldest) {
        unanswered *next = s->oldest->next;
        el_free(s->oldest);
        s->oldest = next;
    }
}

static void deliver_closed(el_completion *completion)
{
    stream *s = (stream *)(void *)completion;
    el_grpc_lane *lane = s->lane;
    s->owner->closed(s->owner, &s->status);
    drop_outgoing(s);
    drop_unanswered(s);
    if (s->received) grpc_byte_buffer_destroy(s->received);
    el_grpc_exchange_clear(&s->exchange);
    pthread_mutex_destroy(&s->mutex);
    el_free(s);
    el_grpc_lane_settle(lane);
}

/* Ends the stream from this side; `closed` comes with gRPC's last tag. The first reason stands, also against
 * an end by the server that has been noticed only in part. */
static void fail(stream *s, el_status status)
{
    if (s->failed) return;
    s->failed = true;
    s->status = status;
    el_grpc_lane_cancel(s->lane, &s->running);
}

/* A batch is over. Returns whether it was the last: then the stream is only to be delivered. */
static bool landed(stream *s)
{
    if (--s->in_flight > 0 || !s->over) return false;
    el_status status = el_grpc_exchange_status(&s->exchange, s->channel);
    if (!s->failed) s->status = status;
    el_grpc_lane_finish(s->lane, &s->running);
    return true;
}

/* ---- sending ---- */

static bool start(stream *s, grpc_op op, el_grpc_tag *tag)
{
    bool started = grpc_call_start_batch(s->running.call, &op, 1, tag, NULL) == GRPC_CALL_OK;
    if (started) s->in_flight++;
    return started;
}

static void send_head(stream *s)
{
    if (start(s, el_grpc_send_message(s->sending->bytes), &s->on_sent)) return;
    fail(s, el_grpc_refused_status(GRPC_CALL_ERROR));
}

static el_completion *sent(void *owner, bool ok)
{
    stream *s = owner;
    pthread_mutex_lock(&s->mutex);
    outgoing *done = s->sending;
    s->sending = done->next;
    grpc_byte_buffer_destroy(done->bytes);
    el_free(done);
    /* After a failed write the status is on its way, and the rest has nowhere to go. */
    if (!ok || s->over) {
        drop_outgoing(s);
    } else if (s->sending) {
        send_head(s);
    }
    bool last = landed(s);
    pthread_mutex_unlock(&s->mutex);
    return last ? &s->closed : NULL;
}

/* Takes over the encoding. `error`: what encoding it gave. */
static void enqueue(stream *s, el_encoding *encoding, int error)
{
    bool wanted = !s->over && !s->failed;
    outgoing *item = wanted && !error ? el_alloc(sizeof *item) : NULL;
    if (item) {
        item->bytes = el_grpc_bytes_of(encoding);
        if (s->sending) {
            s->last_outgoing->next = item;
            s->last_outgoing = item;
        } else {
            s->sending = s->last_outgoing = item;
            send_head(s);
        }
    } else if (wanted) {
        fail(s, el_grpc_starved_status);
    }
    el_encoding_release(encoding);
}

/* ---- receiving ---- */

static void drop_message(message *m)
{
    el_arena_release(&m->arena);
    el_free(m);
}

static void deliver_message(el_completion *completion)
{
    message *m = (message *)(void *)completion;
    m->owner->message(m->owner, &m->content);
    drop_message(m);
}

/* Takes the create request that the message answers off the list. A refusal carries no id of its own; etcd
 * answers creates in the order they were sent, so it is the oldest one's. */
static void match_create(stream *s, el_watch_message *content)
{
    if (!content->created || !s->oldest) return;
    unanswered **at = &s->oldest;
    unanswered *before = NULL;
    if (content->watch_id < 0) {
        content->watch_id = s->oldest->watch_id;
    } else {
        while (*at && (*at)->watch_id != content->watch_id) {
            before = *at;
            at = &before->next;
        }
    }
    unanswered *answered = *at;
    if (!answered) return;
    *at = answered->next;
    if (s->newest == answered) s->newest = before;
    el_free(answered);
}

/* NULL sets *status. */
static message *read_message(const stream *s, el_status *status)
{
    message *m = el_alloc(sizeof *m);
    if (!m) {
        *status = el_grpc_decoding_status(ENOMEM);
        return NULL;
    }
    m->completion.deliver = deliver_message;
    m->owner = s->owner;
    el_arena_init(&m->arena, m->space, sizeof m->space);
    el_grpc_bytes bytes;
    int error = EBADMSG;
    if (el_grpc_bytes_open(&bytes, s->received)) {
        error = el_decode_watch_message(&m->arena, bytes.data, bytes.size, &m->content);
    }
    el_grpc_bytes_release(&bytes);
    if (!error) return m;
    *status = el_grpc_decoding_status(error);
    drop_message(m);
    return NULL;
}

/* Decoding needs no mutex: until the next receive is started, only this thread looks at what came. */
static el_completion *received(void *owner, bool ok)
{
    (void)ok;
    stream *s = owner;
    el_status status = {0};
    bool came = s->received;
    message *m = came ? read_message(s, &status) : NULL;
    if (came) grpc_byte_buffer_destroy(s->received);
    s->received = NULL;

    pthread_mutex_lock(&s->mutex);
    if (m && s->failed) {
        /* One before it was lost, and the caller must not see a gap. */
        drop_message(m);
        m = NULL;
    } else if (m) {
        match_create(s, &m->content);
    } else if (came) {
        fail(s, status);
    }
    if (came && !start(s, el_grpc_receive_message(&s->received), &s->on_received)) {
        fail(s, el_grpc_refused_status(GRPC_CALL_ERROR));
    }
    bool last = landed(s);
    pthread_mutex_unlock(&s->mutex);
    if (last && m) el_grpc_lane_push(s->lane, &s->closed);
    if (m) return &m->completion;
    return last ? &s->closed : NULL;
}

static el_completion *ended(void *owner, bool ok)
{
    (void)ok;
    stream *s = owner;
    pthread_mutex_lock(&s->mutex);
    s->over = true;
    bool last = landed(s);
    pthread_mutex_unlock(&s->mutex);
    return last ? &s->closed : NULL;
}

static el_completion *opened(void *owner, bool ok)
{
    stream *s = owner;
    pthread_mutex_lock(&s->mutex);
    s->exchange.not_sent = !ok;
    bool last = landed(s);
    pthread_mutex_unlock(&s->mutex);
    return last ? &s->closed : NULL;
}

/* ---- the table's functions ---- */

static grpc_call_error start_stream(stream *s)
{
    s->on_opened = (el_grpc_tag){.arrived = opened, .owner = s};
    s->on_sent = (el_grpc_tag){.arrived = sent, .owner = s};
    s->on_received = (el_grpc_tag){.arrived = received, .owner = s};
    s->on_status = (el_grpc_tag){.arrived = ended, .owner = s};
    grpc_op open = el_grpc_send_headers(&s->exchange);
    grpc_call_error error = grpc_call_start_batch(s->running.call, &open, 1, &s->on_opened, NULL);
    if (error != GRPC_CALL_OK) return error;
    grpc_op first[] = {el_grpc_receive_headers(&s->exchange), el_grpc_receive_message(&s->received)};
    error = grpc_call_start_batch(s->running.call, first, 2, &s->on_received, NULL);
    s->in_flight += 2;
    /* Only what the caller gives, the headers, can be refused. */
    bool started = error == GRPC_CALL_OK && start(s, el_grpc_receive_status(&s->exchange), &s->on_status);
    assert(started);
    (void)started;
    return GRPC_CALL_OK;
}

static void close_unstarted(stream *s, el_status status)
{
    s->over = true;
    s->status = status;
    el_grpc_lane_push(s->lane, &s->closed);
}

void el_grpc_watch_open(el_grpc_lane *lane, el_grpc_channel *channel, el_watch_stream *owner)
{
    stream *s = el_alloc(sizeof *s);
    if (!s) {
        el_grpc_lane_starve_stream(lane, owner);
        return;
    }
    owner->impl = s;
    s->closed.deliver = deliver_closed;
    s->lane = lane;
    s->channel = channel;
    s->owner = owner;
    pthread_mutex_init(&s->mutex, NULL);
    el_grpc_lane_owe(lane);
    el_grpc_exchange_init(&s->exchange, true, owner->token);
    if (el_grpc_lane_is_shut(lane)) {
        close_unstarted(s, el_grpc_closed_status);
        return;
    }
    s->begun_ns = el_grpc_now_ns();
    gpr_timespec never = el_grpc_time(INT64_MAX, 0);
    el_grpc_lane_start(lane, &s->running, el_grpc_channel_call(channel, EL_GRPC_WATCH, lane->queue, never));
    pthread_mutex_lock(&s->mutex);
    grpc_call_error error = start_stream(s);
    pthread_mutex_unlock(&s->mutex);
    if (error != GRPC_CALL_OK) {
        el_grpc_lane_finish(lane, &s->running);
        close_unstarted(s, el_grpc_refused_status(error));
    }
}

void el_grpc_watch_create(el_grpc_lane *lane, el_watch_stream *owner, int64_t watch_id, el_span key,
                          int64_t start_revision, bool deletes_only)
{
    if (el_grpc_lane_is_starved_stream(lane, owner)) return;
    stream *s = owner->impl;
    el_encoding encoding;
    int error = el_encode_watch_create(&encoding, watch_id, key, start_revision, deletes_only);
    unanswered *create = el_alloc(sizeof *create);
    pthread_mutex_lock(&s->mutex);
    if (create) {
        create->watch_id = watch_id;
        if (s->newest) {
            s->newest->next = create;
        } else {
            s->oldest = create;
        }
        s->newest = create;
    }
    enqueue(s, &encoding, create ? error : ENOMEM);
    pthread_mutex_unlock(&s->mutex);
}

void el_grpc_watch_cancel(el_grpc_lane *lane, el_watch_stream *owner, int64_t watch_id)
{
    if (el_grpc_lane_is_starved_stream(lane, owner)) return;
    stream *s = owner->impl;
    el_encoding encoding;
    int error = el_encode_watch_cancel(&encoding, watch_id);
    pthread_mutex_lock(&s->mutex);
    enqueue(s, &encoding, error);
    pthread_mutex_unlock(&s->mutex);
}

void el_grpc_watch_close(el_grpc_lane *lane, el_watch_stream *owner)
{
    if (el_grpc_lane_is_starved_stream(lane, owner)) return;
    stream *s = owner->impl;
    /* One that owes an answer is closed because it does not come; others have served their time. */
    pthread_mutex_lock(&s->mutex);
    bool is_silent = s->oldest;
    pthread_mutex_unlock(&s->mutex);
    if (is_silent) el_grpc_channel_unanswered(s->channel, s->begun_ns, el_grpc_now_ns());
    el_grpc_lane_cancel(lane, &s->running);
}
