#include "transport/codec.h"

#include <errno.h>

#include "etcd.pb-c.h"

/* protobuf-c has no const: packing only reads. */
static ProtobufCBinaryData bytes_of(el_span span)
{
    return (ProtobufCBinaryData){.len = span.size, .data = (uint8_t *)(uintptr_t)span.data};
}

static void fill_range(Etcdserverpb__RangeRequest *out, const el_range_request *in)
{
    etcdserverpb__range_request__init(out);
    out->key = bytes_of(in->key);
    out->range_end = bytes_of(in->range_end);
    out->limit = in->limit;
    out->max_create_revision = in->max_create_revision;
    out->serializable = in->serializable;
    out->keys_only = in->keys_only;
    out->count_only = in->count_only;
    if (in->sort == EL_SORT_NONE) return;
    out->sort_target = ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__CREATE;
    out->sort_order = in->sort == EL_SORT_CREATE_ASCENDING ? ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__ASCEND
                                                           : ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__DESCEND;
}

static void fill_put(Etcdserverpb__PutRequest *out, const el_put_request *in)
{
    etcdserverpb__put_request__init(out);
    out->key = bytes_of(in->key);
    out->value = bytes_of(in->value);
    out->lease = in->lease;
}

static void fill_delete(Etcdserverpb__DeleteRangeRequest *out, const el_delete_request *in)
{
    etcdserverpb__delete_range_request__init(out);
    out->key = bytes_of(in->key);
    out->range_end = bytes_of(in->range_end);
}

static Etcdserverpb__Compare__CompareResult relation_of(el_compare_relation relation)
{
    switch (relation) {
    case EL_EQUAL:
        break;
    case EL_GREATER:
        return ETCDSERVERPB__COMPARE__COMPARE_RESULT__GREATER;
    case EL_LESS:
        return ETCDSERVERPB__COMPARE__COMPARE_RESULT__LESS;
    case EL_NOT_EQUAL:
        return ETCDSERVERPB__COMPARE__COMPARE_RESULT__NOT_EQUAL;
    }
    return ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL;
}

static void fill_compare(Etcdserverpb__Compare *out, const el_compare *in)
{
    etcdserverpb__compare__init(out);
    out->result = relation_of(in->relation);
    out->key = bytes_of(in->key);
    out->range_end = bytes_of(in->range_end);
    switch (in->target) {
    case EL_TARGET_VERSION:
        out->target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__VERSION;
        out->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION;
        out->version = in->number;
        break;
    case EL_TARGET_CREATE_REVISION:
        out->target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE;
        out->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
        out->create_revision = in->number;
        break;
    case EL_TARGET_MOD_REVISION:
        out->target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD;
        out->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
        out->mod_revision = in->number;
        break;
    case EL_TARGET_VALUE:
        out->target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE;
        out->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE;
        out->value = bytes_of(in->value);
        break;
    case EL_TARGET_LEASE:
        out->target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__LEASE;
        out->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_LEASE;
        out->lease = in->number;
        break;
    }
}

static bool fill_txn(el_arena *arena, Etcdserverpb__TxnRequest *out, const el_txn_request *in);

static bool fill_op(el_arena *arena, Etcdserverpb__RequestOp *out, const el_op *in)
{
    etcdserverpb__request_op__init(out);
    switch (in->kind) {
    case EL_OP_RANGE:
        out->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
        out->request_range = el_arena_take(arena, sizeof *out->request_range);
        if (out->request_range) fill_range(out->request_range, &in->range);
        return out->request_range;
    case EL_OP_PUT:
        out->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
        out->request_put = el_arena_take(arena, sizeof *out->request_put);
        if (out->request_put) fill_put(out->request_put, &in->put);
        return out->request_put;
    case EL_OP_DELETE:
        out->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
        out->request_delete_range = el_arena_take(arena, sizeof *out->request_delete_range);
        if (out->request_delete_range) fill_delete(out->request_delete_range, &in->del);
        return out->request_delete_range;
    case EL_OP_TXN:
        out->request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN;
        out->request_txn = el_arena_take(arena, sizeof *out->request_txn);
        return out->request_txn && fill_txn(arena, out->request_txn, in->txn);
    }
    return false;
}

/* NULL: no memory. */
static Etcdserverpb__RequestOp **ops_of(el_arena *arena, const el_op *in, size_t count)
{
    Etcdserverpb__RequestOp **pointers = el_arena_take_array(arena, count, sizeof *pointers);
    Etcdserverpb__RequestOp *ops = el_arena_take_array(arena, count, sizeof *ops);
    if (!pointers || !ops) return NULL;
    for (size_t i = 0; i < count; i++) {
        if (!fill_op(arena, &ops[i], &in[i])) return NULL;
        pointers[i] = &ops[i];
    }
    return pointers;
}

static Etcdserverpb__Compare **compares_of(el_arena *arena, const el_compare *in, size_t count)
{
    Etcdserverpb__Compare **pointers = el_arena_take_array(arena, count, sizeof *pointers);
    Etcdserverpb__Compare *compares = el_arena_take_array(arena, count, sizeof *compares);
    if (!pointers || !compares) return NULL;
    for (size_t i = 0; i < count; i++) {
        fill_compare(&compares[i], &in[i]);
        pointers[i] = &compares[i];
    }
    return pointers;
}

static bool fill_txn(el_arena *arena, Etcdserverpb__TxnRequest *out, const el_txn_request *in)
{
    etcdserverpb__txn_request__init(out);
    out->n_compare = in->n_compares;
    out->compare = compares_of(arena, in->compares, in->n_compares);
    out->n_success = in->n_success;
    out->success = ops_of(arena, in->success, in->n_success);
    out->n_failure = in->n_failure;
    out->failure = ops_of(arena, in->failure, in->n_failure);
    return out->compare && out->success && out->failure;
}

/* Any request message, before it is filled in. The first member of each is the common base. */
typedef union any_request {
    ProtobufCMessage base;
    Etcdserverpb__TxnRequest txn;
    Etcdserverpb__RangeRequest range;
    Etcdserverpb__LeaseGrantRequest grant;
    Etcdserverpb__LeaseRevokeRequest revoke;
    Etcdserverpb__LeaseKeepAliveRequest keepalive;
    Etcdserverpb__LeaseTimeToLiveRequest time_to_live;
    Etcdserverpb__AuthenticateRequest authenticate;
    Etcdserverpb__StatusRequest status;
    Etcdserverpb__WatchRequest watch;
} any_request;

static bool fill_request(el_arena *arena, any_request *out, const el_request *in)
{
    switch (in->verb) {
    case EL_TXN:
        return fill_txn(arena, &out->txn, &in->txn);
    case EL_RANGE:
        fill_range(&out->range, &in->range);
        break;
    case EL_LEASE_GRANT:
        etcdserverpb__lease_grant_request__init(&out->grant);
        out->grant.id = in->lease.id;
        out->grant.ttl = in->lease.ttl_s;
        break;
    case EL_LEASE_REVOKE:
        etcdserverpb__lease_revoke_request__init(&out->revoke);
        out->revoke.id = in->lease.id;
        break;
    case EL_LEASE_KEEPALIVE:
        etcdserverpb__lease_keep_alive_request__init(&out->keepalive);
        out->keepalive.id = in->lease.id;
        break;
    case EL_LEASE_TIME_TO_LIVE:
        etcdserverpb__lease_time_to_live_request__init(&out->time_to_live);
        out->time_to_live.id = in->lease.id;
        break;
    case EL_AUTHENTICATE:
        etcdserverpb__authenticate_request__init(&out->authenticate);
        out->authenticate.name = bytes_of(in->authenticate.user);
        out->authenticate.password = bytes_of(in->authenticate.password);
        break;
    case EL_STATUS:
        etcdserverpb__status_request__init(&out->status);
        break;
    }
    return true;
}

static any_request *start(el_encoding *encoding)
{
    encoding->size = 0;
    el_arena_init(&encoding->arena, encoding->space, sizeof encoding->space);
    encoding->message = el_arena_take(&encoding->arena, sizeof(any_request));
    return encoding->message;
}

static int finish(el_encoding *encoding)
{
    encoding->size = protobuf_c_message_get_packed_size(encoding->message);
    return 0;
}

int el_encode_request(el_encoding *encoding, const el_request *request)
{
    any_request *message = start(encoding);
    if (!message || !fill_request(&encoding->arena, message, request)) return ENOMEM;
    return finish(encoding);
}

int el_encode_watch_create(el_encoding *encoding, int64_t watch_id, el_span key, int64_t start_revision,
                           bool deletes_only)
{
    static Etcdserverpb__WatchCreateRequest__FilterType no_puts[] = {
        ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT};
    any_request *message = start(encoding);
    Etcdserverpb__WatchCreateRequest *create = el_arena_take(&encoding->arena, sizeof *create);
    if (!message || !create) return ENOMEM;
    etcdserverpb__watch_create_request__init(create);
    create->key = bytes_of(key);
    create->start_revision = start_revision;
    create->watch_id = watch_id;
    create->n_filters = deletes_only ? 1 : 0;
    create->filters = no_puts;
    etcdserverpb__watch_request__init(&message->watch);
    message->watch.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    message->watch.create_request = create;
    return finish(encoding);
}

int el_encode_watch_cancel(el_encoding *encoding, int64_t watch_id)
{
    any_request *message = start(encoding);
    Etcdserverpb__WatchCancelRequest *cancel = el_arena_take(&encoding->arena, sizeof *cancel);
    if (!message || !cancel) return ENOMEM;
    etcdserverpb__watch_cancel_request__init(cancel);
    cancel->watch_id = watch_id;
    etcdserverpb__watch_request__init(&message->watch);
    message->watch.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST;
    message->watch.cancel_request = cancel;
    return finish(encoding);
}

void el_encoding_write(const el_encoding *encoding, uint8_t *out)
{
    protobuf_c_message_pack(encoding->message, out);
}

void el_encoding_release(el_encoding *encoding)
{
    el_arena_release(&encoding->arena);
}
