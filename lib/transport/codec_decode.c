#include "transport/codec.h"

#include <errno.h>

#include "etcd.pb-c.h"

/* Deeper nesting than the library ever asks for; without a bound a hostile answer could exhaust the stack. */
enum { DEEPEST_TXN = 8 };

static void *take(void *arena, size_t size)
{
    return el_arena_take(arena, size);
}

static void leave_to_arena(void *arena, void *piece)
{
    (void)arena;
    (void)piece;
}

static void *unpack(el_arena *arena, const ProtobufCMessageDescriptor *descriptor, const uint8_t *data,
                    size_t size)
{
    ProtobufCAllocator allocator = {.alloc = take, .free = leave_to_arena, .allocator_data = arena};
    return protobuf_c_message_unpack(descriptor, &allocator, size, data);
}

/* protobuf-c says no more than "failed". */
static int why_failed(const el_arena *arena)
{
    return arena->starved ? ENOMEM : EBADMSG;
}

static el_span span_of(ProtobufCBinaryData bytes)
{
    return (el_span){.data = (const char *)bytes.data, .size = bytes.len};
}

static int64_t revision_of(const Etcdserverpb__ResponseHeader *header)
{
    return header ? header->revision : 0;
}

static el_key_value key_value_of(const Etcdserverpb__KeyValue *in)
{
    return (el_key_value){
        .key = span_of(in->key),
        .value = span_of(in->value),
        .create_revision = in->create_revision,
        .mod_revision = in->mod_revision,
        .version = in->version,
        .lease = in->lease,
    };
}

static int read_range(el_arena *arena, const Etcdserverpb__RangeResponse *in, el_range_answer *out)
{
    el_key_value *kvs = el_arena_take_array(arena, in->n_kvs, sizeof *kvs);
    if (!kvs) return ENOMEM;
    for (size_t i = 0; i < in->n_kvs; i++)
        kvs[i] = key_value_of(in->kvs[i]);
    *out = (el_range_answer){.kvs = kvs, .n_kvs = in->n_kvs, .count = in->count, .more = in->more};
    return 0;
}

static int read_txn(el_arena *arena, const Etcdserverpb__TxnResponse *in, unsigned depth, el_txn_answer *out);

static int read_nested(el_arena *arena, ProtobufCBinaryData bytes, unsigned depth, const el_txn_answer **out)
{
    if (depth > DEEPEST_TXN) return EBADMSG;
    Etcdserverpb__TxnResponse *in =
        unpack(arena, &etcdserverpb__txn_response__descriptor, bytes.data, bytes.len);
    if (!in) return why_failed(arena);
    el_txn_answer *nested = el_arena_take(arena, sizeof *nested);
    if (!nested) return ENOMEM;
    *out = nested;
    return read_txn(arena, in, depth, nested);
}

static int read_op(el_arena *arena, const Etcdserverpb__ResponseOp *in, unsigned depth, el_op_answer *out)
{
    *out = (el_op_answer){0};
    switch (in->response_case) {
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE:
        out->kind = EL_OP_RANGE;
        return read_range(arena, in->response_range, &out->range);
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_PUT:
        out->kind = EL_OP_PUT;
        return 0;
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE:
        out->kind = EL_OP_DELETE;
        out->deleted = in->response_delete_range->deleted;
        return 0;
    case ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_TXN:
        out->kind = EL_OP_TXN;
        return read_nested(arena, in->response_txn, depth + 1, &out->txn);
    default:
        return EBADMSG;
    }
}

static int read_txn(el_arena *arena, const Etcdserverpb__TxnResponse *in, unsigned depth, el_txn_answer *out)
{
    el_op_answer *answers = el_arena_take_array(arena, in->n_responses, sizeof *answers);
    if (!answers) return ENOMEM;
    for (size_t i = 0; i < in->n_responses; i++) {
        int error = read_op(arena, in->responses[i], depth, &answers[i]);
        if (error) return error;
    }
    *out = (el_txn_answer){.succeeded = in->succeeded, .answers = answers, .n_answers = in->n_responses};
    return 0;
}

static void read_status(const Etcdserverpb__StatusResponse *in, el_answer *out)
{
    if (in->header) {
        out->revision = in->header->revision;
        out->status.member_id = in->header->member_id;
    }
    out->status.leader_id = in->leader;
    out->status.is_learner = in->islearner;
    out->status.db_size = in->dbsize;
    out->status.version = span_of(in->version);
}

static const ProtobufCMessageDescriptor *answer_to(el_verb verb)
{
    switch (verb) {
    case EL_TXN:
        return &etcdserverpb__txn_response__descriptor;
    case EL_RANGE:
        return &etcdserverpb__range_response__descriptor;
    case EL_LEASE_GRANT:
        return &etcdserverpb__lease_grant_response__descriptor;
    case EL_LEASE_REVOKE:
        return &etcdserverpb__lease_revoke_response__descriptor;
    case EL_LEASE_KEEPALIVE:
        return &etcdserverpb__lease_keep_alive_response__descriptor;
    case EL_LEASE_TIME_TO_LIVE:
        return &etcdserverpb__lease_time_to_live_response__descriptor;
    case EL_AUTHENTICATE:
        return &etcdserverpb__authenticate_response__descriptor;
    case EL_STATUS:
        break;
    }
    return &etcdserverpb__status_response__descriptor;
}

/* Any answer message; which one, the verb says. */
typedef union any_response {
    Etcdserverpb__TxnResponse txn;
    Etcdserverpb__RangeResponse range;
    Etcdserverpb__LeaseGrantResponse grant;
    Etcdserverpb__LeaseRevokeResponse revoke;
    Etcdserverpb__LeaseKeepAliveResponse keepalive;
    Etcdserverpb__LeaseTimeToLiveResponse time_to_live;
    Etcdserverpb__AuthenticateResponse authenticate;
    Etcdserverpb__StatusResponse status;
} any_response;

int el_decode_answer(el_arena *arena, el_verb verb, const uint8_t *data, size_t size, el_answer *out)
{
    const any_response *in = unpack(arena, answer_to(verb), data, size);
    if (!in) return why_failed(arena);
    *out = (el_answer){.verb = verb};
    switch (verb) {
    case EL_TXN:
        out->revision = revision_of(in->txn.header);
        return read_txn(arena, &in->txn, 0, &out->txn);
    case EL_RANGE:
        out->revision = revision_of(in->range.header);
        return read_range(arena, &in->range, &out->range);
    case EL_LEASE_GRANT:
        out->revision = revision_of(in->grant.header);
        out->lease.id = in->grant.id;
        out->lease.ttl_s = in->grant.ttl;
        return 0;
    case EL_LEASE_REVOKE:
        out->revision = revision_of(in->revoke.header);
        return 0;
    case EL_LEASE_KEEPALIVE:
        out->revision = revision_of(in->keepalive.header);
        out->lease.id = in->keepalive.id;
        out->lease.ttl_s = in->keepalive.ttl;
        return 0;
    case EL_LEASE_TIME_TO_LIVE:
        out->revision = revision_of(in->time_to_live.header);
        out->lease.id = in->time_to_live.id;
        out->lease.ttl_s = in->time_to_live.ttl;
        out->lease.granted_ttl_s = in->time_to_live.grantedttl;
        return 0;
    case EL_AUTHENTICATE:
        out->revision = revision_of(in->authenticate.header);
        out->token = span_of(in->authenticate.token);
        return 0;
    case EL_STATUS:
        read_status(&in->status, out);
        return 0;
    }
    return EBADMSG;
}

int el_decode_watch_message(el_arena *arena, const uint8_t *data, size_t size, el_watch_message *out)
{
    const Etcdserverpb__WatchResponse *in =
        unpack(arena, &etcdserverpb__watch_response__descriptor, data, size);
    if (!in) return why_failed(arena);
    el_watch_event *events = el_arena_take_array(arena, in->n_events, sizeof *events);
    if (!events) return ENOMEM;
    for (size_t i = 0; i < in->n_events; i++) {
        const Etcdserverpb__Event *event = in->events[i];
        if (!event->kv) return EBADMSG;
        events[i] = (el_watch_event){
            .deleted = event->type == ETCDSERVERPB__EVENT__EVENT_TYPE__DELETE,
            .kv = key_value_of(event->kv),
        };
    }
    *out = (el_watch_message){
        .watch_id = in->watch_id,
        .revision = revision_of(in->header),
        .created = in->created,
        .canceled = in->canceled,
        .compact_revision = in->compact_revision,
        .reason = in->cancel_reason,
        .events = events,
        .n_events = in->n_events,
    };
    return 0;
}
