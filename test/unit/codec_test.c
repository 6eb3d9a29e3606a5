#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "support/codec_samples.h"
#include "support/runner.h"

static void assert_span(el_span got, const char *expected)
{
    ck_assert_uint_eq(got.size, strlen(expected));
    ck_assert_mem_eq(got.data, expected, got.size);
}

static void assert_bytes(ProtobufCBinaryData got, const char *expected)
{
    ck_assert_uint_eq(got.len, strlen(expected));
    if (got.len) ck_assert_mem_eq(got.data, expected, got.len);
}

static wire written(el_encoding *encoding)
{
    wire w = {.data = malloc(encoding->size + 1), .size = encoding->size};
    el_encoding_write(encoding, w.data);
    el_encoding_release(encoding);
    return w;
}

static wire encoded(const el_request *request)
{
    el_encoding encoding;
    ck_assert_int_eq(el_encode_request(&encoding, request), 0);
    return written(&encoding);
}

/* As the server would read it; the caller frees the result. */
static void *parsed(const ProtobufCMessageDescriptor *descriptor, wire w)
{
    void *message = protobuf_c_message_unpack(descriptor, NULL, w.size, w.data);
    ck_assert_ptr_nonnull(message);
    free(w.data);
    return message;
}

static void drop(void *message)
{
    protobuf_c_message_free_unpacked(message, NULL);
}

/* ---- requests ---- */

/* A transaction keeps all its compares, in order, with target, relation, operand and range. */
START_TEST(txn_compares)
{
    el_request request = sample_request();
    Etcdserverpb__TxnRequest *txn = parsed(&etcdserverpb__txn_request__descriptor, encoded(&request));
    ck_assert_uint_eq(txn->n_compare, 5);
    ck_assert_int_eq(txn->compare[0]->target, ETCDSERVERPB__COMPARE__COMPARE_TARGET__VERSION);
    ck_assert_int_eq(txn->compare[0]->result, ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL);
    ck_assert_int_eq(txn->compare[0]->version, -1);
    ck_assert_int_eq(txn->compare[1]->target, ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE);
    ck_assert_int_eq(txn->compare[1]->result, ETCDSERVERPB__COMPARE__COMPARE_RESULT__GREATER);
    ck_assert_int_eq(txn->compare[1]->create_revision, -2);
    assert_bytes(txn->compare[1]->range_end, "l");
    ck_assert_int_eq(txn->compare[2]->target, ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD);
    ck_assert_int_eq(txn->compare[2]->result, ETCDSERVERPB__COMPARE__COMPARE_RESULT__LESS);
    ck_assert_int_eq(txn->compare[2]->mod_revision, -3);
    ck_assert_int_eq(txn->compare[3]->target, ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE);
    ck_assert_int_eq(txn->compare[3]->result, ETCDSERVERPB__COMPARE__COMPARE_RESULT__NOT_EQUAL);
    assert_bytes(txn->compare[3]->value, "v");
    ck_assert_int_eq(txn->compare[4]->target, ETCDSERVERPB__COMPARE__COMPARE_TARGET__LEASE);
    ck_assert_int_eq(txn->compare[4]->lease, -5);
    drop(txn);
}
END_TEST

/* A transaction keeps its operations, nested ones too, with binary values and negative leases. */
START_TEST(txn_operations)
{
    el_request request = sample_request();
    Etcdserverpb__TxnRequest *txn = parsed(&etcdserverpb__txn_request__descriptor, encoded(&request));
    ck_assert_uint_eq(txn->n_success, 4);
    ck_assert_uint_eq(txn->n_failure, 1);
    ck_assert_int_eq(txn->success[0]->request_range->limit, 2);
    ck_assert_uint_eq(txn->success[0]->request_range->range_end.len, 1);
    ck_assert_uint_eq(txn->success[1]->request_put->value.len, 3);
    ck_assert_mem_eq(txn->success[1]->request_put->value.data, "a\0b", 3);
    ck_assert(txn->success[1]->request_put->lease == INT64_MIN);
    assert_bytes(txn->success[2]->request_delete_range->range_end, "e");
    ck_assert_int_eq(txn->success[3]->request_case, ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN);
    const Etcdserverpb__TxnRequest *inner = txn->success[3]->request_txn;
    ck_assert_uint_eq(inner->n_failure, 40);
    ck_assert_int_eq(inner->failure[39]->request_put->lease, -5);
    drop(txn);
}
END_TEST

/* Every option of a range arrives as etcd's. */
START_TEST(range_options)
{
    el_request request = {.verb = EL_RANGE, .range = {.key = span("a"), .range_end = span("b")}};
    request.range.limit = 3;
    request.range.max_create_revision = 17;
    request.range.sort = EL_SORT_CREATE_DESCENDING;
    request.range.serializable = request.range.keys_only = request.range.count_only = true;
    Etcdserverpb__RangeRequest *range = parsed(&etcdserverpb__range_request__descriptor, encoded(&request));
    assert_bytes(range->key, "a");
    assert_bytes(range->range_end, "b");
    ck_assert_int_eq(range->limit, 3);
    ck_assert_int_eq(range->max_create_revision, 17);
    ck_assert_int_eq(range->sort_target, ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__CREATE);
    ck_assert_int_eq(range->sort_order, ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__DESCEND);
    ck_assert(range->serializable && range->keys_only && range->count_only);
    drop(range);
    request.range.sort = EL_SORT_CREATE_ASCENDING;
    range = parsed(&etcdserverpb__range_request__descriptor, encoded(&request));
    ck_assert_int_eq(range->sort_order, ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__ASCEND);
    drop(range);
}
END_TEST

/* The bytes are etcd's own: spelled out here once, so that a wrong field number cannot hide behind the
 * .proto. */
START_TEST(known_bytes)
{
    static const uint8_t EXPECTED[] = {0x0a, 1,    'k', 0x12, 1, 'l',  0x18, 2,    0x28,
                                       2,    0x30, 2,   0x38, 1, 0x40, 1,    0x68, 9};
    el_request request = {.verb = EL_RANGE, .range = {.key = span("k"), .range_end = span("l"), .limit = 2}};
    request.range.sort = EL_SORT_CREATE_DESCENDING;
    request.range.serializable = request.range.keys_only = true;
    request.range.max_create_revision = 9;
    wire w = encoded(&request);
    ck_assert_uint_eq(w.size, sizeof EXPECTED);
    ck_assert_mem_eq(w.data, EXPECTED, w.size);
    free(w.data);
}
END_TEST

/* Lease requests keep negative ids and the time to live; the status request is empty. */
START_TEST(lease_requests)
{
    el_request request = {.verb = EL_LEASE_GRANT, .lease = {.id = -77, .ttl_s = 30}};
    Etcdserverpb__LeaseGrantRequest *grant =
        parsed(&etcdserverpb__lease_grant_request__descriptor, encoded(&request));
    ck_assert_int_eq(grant->id, -77);
    ck_assert_int_eq(grant->ttl, 30);
    drop(grant);
    static const el_verb BY_ID[] = {EL_LEASE_REVOKE, EL_LEASE_KEEPALIVE, EL_LEASE_TIME_TO_LIVE};
    for (unsigned i = 0; i < 3; i++) {
        request.verb = BY_ID[i];
        Etcdserverpb__LeaseRevokeRequest *by_id =
            parsed(&etcdserverpb__lease_revoke_request__descriptor, encoded(&request));
        ck_assert_int_eq(by_id->id, -77);
        drop(by_id);
    }
    request.verb = EL_STATUS;
    wire w = encoded(&request);
    ck_assert_uint_eq(w.size, 0);
    free(w.data);
}
END_TEST

/* User and password are sent as they are. */
START_TEST(authenticate_request)
{
    el_request request = {.verb = EL_AUTHENTICATE,
                          .authenticate = {.user = span("root"), .password = span("secret")}};
    Etcdserverpb__AuthenticateRequest *message =
        parsed(&etcdserverpb__authenticate_request__descriptor, encoded(&request));
    assert_bytes(message->name, "root");
    assert_bytes(message->password, "secret");
    drop(message);
}
END_TEST

/* A watch is created under the caller's id and cancelled by it. */
START_TEST(watch_requests)
{
    el_encoding encoding;
    ck_assert_int_eq(el_encode_watch_create(&encoding, 5, span("key"), 99, true), 0);
    Etcdserverpb__WatchRequest *message =
        parsed(&etcdserverpb__watch_request__descriptor, written(&encoding));
    ck_assert_int_eq(message->request_union_case, ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST);
    assert_bytes(message->create_request->key, "key");
    ck_assert_int_eq(message->create_request->watch_id, 5);
    ck_assert_int_eq(message->create_request->start_revision, 99);
    ck_assert_uint_eq(message->create_request->n_filters, 1);
    ck_assert_int_eq(message->create_request->filters[0],
                     ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT);
    drop(message);
    ck_assert_int_eq(el_encode_watch_create(&encoding, 6, span("key"), 0, false), 0);
    message = parsed(&etcdserverpb__watch_request__descriptor, written(&encoding));
    ck_assert_uint_eq(message->create_request->n_filters, 0);
    drop(message);
    ck_assert_int_eq(el_encode_watch_cancel(&encoding, 5), 0);
    message = parsed(&etcdserverpb__watch_request__descriptor, written(&encoding));
    ck_assert_int_eq(message->request_union_case, ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST);
    ck_assert_int_eq(message->cancel_request->watch_id, 5);
    drop(message);
}
END_TEST

/* ---- answers ---- */

/* A range answer gives keys, the whole count, and the revision of the header. */
START_TEST(range_answer)
{
    wire w = sample_range();
    el_arena arena;
    el_answer answer;
    el_arena_init(&arena, NULL, 0);
    ck_assert_int_eq(decoded(&arena, EL_RANGE, w.data, w.size, &answer), 0);
    ck_assert_int_eq(answer.verb, EL_RANGE);
    ck_assert_int_eq(answer.revision, 42);
    ck_assert_int_eq(answer.range.count, 5);
    ck_assert(answer.range.more);
    ck_assert_uint_eq(answer.range.n_kvs, 2);
    assert_span(answer.range.kvs[1].key, "lock/1");
    assert_span(answer.range.kvs[1].value, "me");
    ck_assert_int_eq(answer.range.kvs[1].create_revision, 7);
    ck_assert_int_eq(answer.range.kvs[1].mod_revision, 8);
    ck_assert_int_eq(answer.range.kvs[1].version, 2);
    ck_assert_int_eq(answer.range.kvs[1].lease, -9);
    el_arena_release(&arena);
    free(w.data);
}
END_TEST

/* A transaction's answers come in order, through nested transactions, with the outermost revision. */
START_TEST(txn_answer)
{
    wire w = sample_txn(2);
    el_arena arena;
    el_answer answer;
    el_arena_init(&arena, NULL, 0);
    ck_assert_int_eq(decoded(&arena, EL_TXN, w.data, w.size, &answer), 0);
    ck_assert_int_eq(answer.revision, 11);
    const el_txn_answer *txn = &answer.txn;
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(txn->succeeded);
        ck_assert_uint_eq(txn->n_answers, 1);
        ck_assert_int_eq(txn->answers[0].kind, EL_OP_TXN);
        txn = txn->answers[0].txn;
    }
    ck_assert_uint_eq(txn->n_answers, 3);
    ck_assert_int_eq(txn->answers[0].kind, EL_OP_RANGE);
    ck_assert_int_eq(txn->answers[0].range.kvs[0].create_revision, 3);
    ck_assert_int_eq(txn->answers[1].kind, EL_OP_PUT);
    ck_assert_int_eq(txn->answers[2].kind, EL_OP_DELETE);
    ck_assert_int_eq(txn->answers[2].deleted, 4);
    el_arena_release(&arena);
    free(w.data);
}
END_TEST

/* A lease answer keeps a negative id, what is left and what was granted; a dead lease shows as 0 or -1. */
START_TEST(lease_answers)
{
    Etcdserverpb__LeaseTimeToLiveResponse left = ETCDSERVERPB__LEASE_TIME_TO_LIVE_RESPONSE__INIT;
    left.id = -3;
    left.ttl = -1;
    left.grantedttl = 60;
    wire w = packed(&left);
    el_arena arena;
    el_answer answer;
    el_arena_init(&arena, NULL, 0);
    ck_assert_int_eq(decoded(&arena, EL_LEASE_TIME_TO_LIVE, w.data, w.size, &answer), 0);
    ck_assert_int_eq(answer.lease.id, -3);
    ck_assert_int_eq(answer.lease.ttl_s, -1);
    ck_assert_int_eq(answer.lease.granted_ttl_s, 60);
    free(w.data);
    Etcdserverpb__LeaseKeepAliveResponse dead = ETCDSERVERPB__LEASE_KEEP_ALIVE_RESPONSE__INIT;
    dead.id = -3;
    w = packed(&dead);
    ck_assert_int_eq(decoded(&arena, EL_LEASE_KEEPALIVE, w.data, w.size, &answer), 0);
    ck_assert_int_eq(answer.lease.id, -3);
    ck_assert_int_eq(answer.lease.ttl_s, 0);
    free(w.data);
    Etcdserverpb__LeaseGrantResponse granted = ETCDSERVERPB__LEASE_GRANT_RESPONSE__INIT;
    granted.id = INT64_MIN;
    granted.ttl = 2;
    w = packed(&granted);
    ck_assert_int_eq(decoded(&arena, EL_LEASE_GRANT, w.data, w.size, &answer), 0);
    ck_assert(answer.lease.id == INT64_MIN);
    ck_assert_int_eq(answer.lease.ttl_s, 2);
    free(w.data);
    el_arena_release(&arena);
}
END_TEST

/* The token and the member's status arrive whole. */
START_TEST(other_answers)
{
    Etcdserverpb__AuthenticateResponse allowed = ETCDSERVERPB__AUTHENTICATE_RESPONSE__INIT;
    allowed.token = bytes("abc.7");
    wire w = packed(&allowed);
    el_arena arena;
    el_answer answer;
    el_arena_init(&arena, NULL, 0);
    ck_assert_int_eq(decoded(&arena, EL_AUTHENTICATE, w.data, w.size, &answer), 0);
    assert_span(answer.token, "abc.7");
    free(w.data);
    Etcdserverpb__StatusResponse__Header header = ETCDSERVERPB__STATUS_RESPONSE__HEADER__INIT;
    header.member_id = UINT64_MAX;
    header.revision = 6;
    Etcdserverpb__StatusResponse status = ETCDSERVERPB__STATUS_RESPONSE__INIT;
    status.header = &header;
    status.leader = 12;
    status.islearner = 1;
    status.dbsize = 4096;
    status.version = bytes("3.5.16");
    w = packed(&status);
    ck_assert_int_eq(decoded(&arena, EL_STATUS, w.data, w.size, &answer), 0);
    ck_assert(answer.status.member_id == UINT64_MAX);
    ck_assert_uint_eq(answer.status.leader_id, 12);
    ck_assert_int_eq(answer.revision, 6);
    ck_assert(answer.status.is_learner);
    ck_assert_int_eq(answer.status.db_size, 4096);
    assert_span(answer.status.version, "3.5.16");
    free(w.data);
    el_arena_release(&arena);
}
END_TEST

/* A watch message keeps id -1 of a refusal, the reason, the compact revision and its events. */
START_TEST(watch_message)
{
    wire w = sample_watch();
    el_arena arena;
    el_watch_message message;
    el_arena_init(&arena, NULL, 0);
    ck_assert_int_eq(el_decode_watch_message(&arena, w.data, w.size, &message), 0);
    ck_assert_int_eq(message.watch_id, -1);
    ck_assert_int_eq(message.revision, 90);
    ck_assert(message.created && message.canceled);
    ck_assert_int_eq(message.compact_revision, 12);
    ck_assert_str_eq(message.reason, "denied");
    ck_assert_uint_eq(message.n_events, 2);
    ck_assert(!message.events[0].deleted && message.events[1].deleted);
    assert_span(message.events[1].kv.key, "lock/1");
    ck_assert_int_eq(message.events[1].kv.mod_revision, 89);
    el_arena_release(&arena);
    free(w.data);
}
END_TEST

static void add_case(Suite *suite, const char *name, const TTest *const *tests, size_t count)
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 120);
    for (size_t i = 0; i < count; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    const TTest *requests[] = {txn_compares,   txn_operations,       range_options, known_bytes,
                               lease_requests, authenticate_request, watch_requests};
    const TTest *answers[] = {range_answer, txn_answer, lease_answers, other_answers, watch_message};
    Suite *suite = suite_create("codec");
    add_case(suite, "requests", requests, sizeof requests / sizeof requests[0]);
    add_case(suite, "answers", answers, sizeof answers / sizeof answers[0]);
    return runner_run(suite);
}
