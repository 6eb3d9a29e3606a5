#include "support/codec_samples.h"

#include <stdlib.h>
#include <string.h>

el_span span(const char *text)
{
    return (el_span){.data = text, .size = strlen(text)};
}

ProtobufCBinaryData bytes(const char *text)
{
    static uint8_t copies[64][64];
    static unsigned turn;
    uint8_t *copy = copies[turn++ % 64];
    memcpy(copy, text, strlen(text));
    return (ProtobufCBinaryData){.len = strlen(text), .data = copy};
}

wire packed(const void *message)
{
    wire w = {.size = protobuf_c_message_get_packed_size(message)};
    w.data = malloc(w.size + 1);
    protobuf_c_message_pack(message, w.data);
    return w;
}

int decoded(el_arena *arena, el_verb verb, const uint8_t *data, size_t size, el_answer *out)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (size) memcpy(copy, data, size);
    int error = el_decode_answer(arena, verb, copy, size, out);
    free(copy);
    return error;
}

wire sample_range(void)
{
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    header.revision = 42;
    Etcdserverpb__KeyValue kv = ETCDSERVERPB__KEY_VALUE__INIT;
    kv.key = bytes("lock/1");
    kv.value = bytes("me");
    kv.create_revision = 7;
    kv.mod_revision = 8;
    kv.version = 2;
    kv.lease = -9;
    Etcdserverpb__KeyValue *kvs[] = {&kv, &kv};
    Etcdserverpb__RangeResponse range = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    range.header = &header;
    range.kvs = kvs;
    range.n_kvs = 2;
    range.count = 5;
    range.more = 1;
    return packed(&range);
}

wire sample_txn(unsigned depth)
{
    Etcdserverpb__RangeResponse range = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    Etcdserverpb__KeyValue kv = ETCDSERVERPB__KEY_VALUE__INIT;
    kv.key = bytes("k");
    kv.create_revision = 3;
    Etcdserverpb__KeyValue *kvs[] = {&kv};
    range.kvs = kvs;
    range.n_kvs = 1;
    range.count = 1;
    Etcdserverpb__PutResponse put = ETCDSERVERPB__PUT_RESPONSE__INIT;
    Etcdserverpb__DeleteRangeResponse deleted = ETCDSERVERPB__DELETE_RANGE_RESPONSE__INIT;
    deleted.deleted = 4;
    Etcdserverpb__ResponseOp ops[3] = {ETCDSERVERPB__RESPONSE_OP__INIT, ETCDSERVERPB__RESPONSE_OP__INIT,
                                       ETCDSERVERPB__RESPONSE_OP__INIT};
    ops[0].response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
    ops[0].response_range = &range;
    ops[1].response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_PUT;
    ops[1].response_put = &put;
    ops[2].response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE;
    ops[2].response_delete_range = &deleted;
    Etcdserverpb__ResponseOp *pointers[] = {&ops[0], &ops[1], &ops[2]};
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    header.revision = 11;
    Etcdserverpb__TxnResponse txn = ETCDSERVERPB__TXN_RESPONSE__INIT;
    txn.header = &header;
    txn.succeeded = 1;
    txn.responses = pointers;
    txn.n_responses = 3;
    wire w = packed(&txn);
    while (depth-- > 0) {
        wire inner = w;
        Etcdserverpb__ResponseOp nested = ETCDSERVERPB__RESPONSE_OP__INIT;
        nested.response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_TXN;
        nested.response_txn = (ProtobufCBinaryData){.len = inner.size, .data = inner.data};
        pointers[0] = &nested;
        txn.n_responses = 1;
        w = packed(&txn);
        free(inner.data);
    }
    return w;
}

wire sample_watch(void)
{
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    header.revision = 90;
    Etcdserverpb__KeyValue kv = ETCDSERVERPB__KEY_VALUE__INIT;
    kv.key = bytes("lock/1");
    kv.mod_revision = 89;
    Etcdserverpb__Event events[2] = {ETCDSERVERPB__EVENT__INIT, ETCDSERVERPB__EVENT__INIT};
    events[0].kv = events[1].kv = &kv;
    events[1].type = ETCDSERVERPB__EVENT__EVENT_TYPE__DELETE;
    Etcdserverpb__Event *pointers[] = {&events[0], &events[1]};
    Etcdserverpb__WatchResponse response;
    static char reason[] = "denied";
    etcdserverpb__watch_response__init(&response);
    response.header = &header;
    response.watch_id = -1;
    response.created = 1;
    response.canceled = 1;
    response.compact_revision = 12;
    response.cancel_reason = reason;
    response.events = pointers;
    response.n_events = 2;
    return packed(&response);
}

wire large_range(void)
{
    enum { KEYS = 500 };
    static Etcdserverpb__KeyValue *kvs[KEYS];
    Etcdserverpb__KeyValue kv = ETCDSERVERPB__KEY_VALUE__INIT;
    kv.key = bytes("lock/0123456789abcdef");
    for (unsigned i = 0; i < KEYS; i++)
        kvs[i] = &kv;
    Etcdserverpb__RangeResponse range = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    range.kvs = kvs;
    range.n_kvs = KEYS;
    return packed(&range);
}

el_request sample_request(void)
{
    static el_compare compares[5];
    static el_op inner_ops[40];
    static el_op ops[4];
    static el_txn_request inner;
    for (unsigned i = 0; i < 5; i++) {
        compares[i] = (el_compare){
            .target = (el_compare_target)i, .relation = (el_compare_relation)(i % 4), .key = span("k")};
        compares[i].number = -(int64_t)i - 1;
    }
    compares[EL_TARGET_VALUE].value = span("v");
    compares[EL_TARGET_CREATE_REVISION].range_end = span("l");
    for (unsigned i = 0; i < 40; i++) {
        inner_ops[i] = (el_op){.kind = EL_OP_PUT, .put = {.key = span("p"), .value = span("q"), .lease = -5}};
    }
    inner = (el_txn_request){.compares = compares, .n_compares = 1, .failure = inner_ops, .n_failure = 40};
    ops[0] = (el_op){.kind = EL_OP_RANGE, .range = {.key = span("r"), .range_end = {"\0", 1}, .limit = 2}};
    ops[1] = (el_op){.kind = EL_OP_PUT, .put = {.key = span("p"), .value = {"a\0b", 3}, .lease = INT64_MIN}};
    ops[2] = (el_op){.kind = EL_OP_DELETE, .del = {.key = span("d"), .range_end = span("e")}};
    ops[3] = (el_op){.kind = EL_OP_TXN, .txn = &inner};
    return (el_request){.verb = EL_TXN,
                        .txn = {.compares = compares,
                                .n_compares = 5,
                                .success = ops,
                                .n_success = 4,
                                .failure = ops,
                                .n_failure = 1}};
}
