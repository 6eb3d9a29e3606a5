#include "support/agree_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/sim_memory.h"

void agree_print(agree_text *text, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    size_t length = (size_t)vsnprintf(NULL, 0, format, arguments);
    text->chars = sim_grow(text->chars, &text->capacity, text->used + length + 1, 1);
    vsnprintf(text->chars + text->used, length + 1, format, again);
    text->used += length;
    va_end(again);
    va_end(arguments);
}

const char *agree_chars(const agree_text *text)
{
    return text->used ? text->chars : "";
}

void agree_text_free(agree_text *text)
{
    free(text->chars);
    *text = (agree_text){0};
}

static void print_bytes(agree_text *text, el_span bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        unsigned char byte = (unsigned char)bytes.data[i];
        agree_print(text, isprint(byte) ? "%c" : "\\x%02x", byte);
    }
}

/* ---- answers ---------------------------------------------------------------------------------------------
 */

static int64_t counted(int64_t revision, int64_t base)
{
    return revision ? revision - base : 0;
}

static void print_kv(agree_text *text, const el_key_value *kv, int64_t base)
{
    print_bytes(text, kv->key);
    agree_print(text, "='");
    print_bytes(text, kv->value);
    agree_print(text, "' c%+" PRId64 " m%+" PRId64 " v%" PRId64 " l%" PRIx64 ", ",
                counted(kv->create_revision, base), counted(kv->mod_revision, base), kv->version,
                (uint64_t)kv->lease);
}

static void print_range(agree_text *text, const el_range_answer *range, int64_t base)
{
    agree_print(text, "[");
    for (size_t i = 0; i < range->n_kvs; i++)
        print_kv(text, &range->kvs[i], base);
    agree_print(text, "of %" PRId64 "%s]", range->count, range->more ? " more" : "");
}

static void print_txn(agree_text *text, const el_txn_answer *txn, int64_t base)
{
    agree_print(text, txn->succeeded ? "yes{" : "no{");
    for (size_t i = 0; i < txn->n_answers; i++) {
        const el_op_answer *answer = &txn->answers[i];
        if (answer->kind == EL_OP_RANGE) print_range(text, &answer->range, base);
        if (answer->kind == EL_OP_PUT) agree_print(text, "put");
        if (answer->kind == EL_OP_DELETE) agree_print(text, "deleted %" PRId64, answer->deleted);
        if (answer->kind == EL_OP_TXN) print_txn(text, answer->txn, base);
        agree_print(text, "; ");
    }
    agree_print(text, "}");
}

/* A lease's time runs on while two sides are asked one after the other. */
static void print_left(agree_text *text, const el_answer *answer)
{
    int64_t spent_s = answer->lease.granted_ttl_s - answer->lease.ttl_s;
    if (answer->lease.ttl_s > 0 && spent_s >= 0 && spent_s <= 20)
        agree_print(text, "some of %" PRId64, answer->lease.granted_ttl_s);
    else
        agree_print(text, "%" PRId64 " of %" PRId64, answer->lease.ttl_s, answer->lease.granted_ttl_s);
}

/* An id chosen by the server is its own affair; the tests' ids are negative or bear their mark. */
static uint64_t shown_id(int64_t id)
{
    return id < 0 || id >> 48 == AGREE_LEASE_MARK ? (uint64_t)id : id != 0;
}

void agree_print_answer(agree_text *text, const el_status *status, const el_answer *answer, int64_t base)
{
    if (!answer) {
        agree_print(text, "error %d %s", status->code, status->message);
        return;
    }
    agree_print(text, "at %+" PRId64 ": ", counted(answer->revision, base));
    switch (answer->verb) {
    case EL_TXN:
        print_txn(text, &answer->txn, base);
        break;
    case EL_RANGE:
        print_range(text, &answer->range, base);
        break;
    case EL_LEASE_GRANT:
    case EL_LEASE_KEEPALIVE:
        agree_print(text, "lease %" PRIx64 " ttl %" PRId64, shown_id(answer->lease.id), answer->lease.ttl_s);
        break;
    case EL_LEASE_TIME_TO_LIVE:
        agree_print(text, "lease %" PRIx64 " ttl ", shown_id(answer->lease.id));
        print_left(text, answer);
        break;
    case EL_LEASE_REVOKE:
        agree_print(text, "revoked");
        break;
    case EL_AUTHENTICATE:
        agree_print(text, answer->token.size ? "a token" : "no token");
        break;
    case EL_STATUS:
        agree_print(text, "%s, %s, %s, %s", answer->status.member_id ? "a member" : "nobody",
                    answer->status.leader_id ? "a leader" : "no leader",
                    answer->status.is_learner ? "learner" : "voter",
                    answer->status.version.size && answer->status.db_size ? "a version" : "no version");
        break;
    }
}

void agree_print_message(agree_text *text, const el_watch_message *message, int64_t base)
{
    agree_print(text, "at %+" PRId64 ":", counted(message->revision, base));
    if (message->created) agree_print(text, " created");
    if (message->canceled) agree_print(text, " canceled '%s'", message->reason);
    if (message->compact_revision)
        agree_print(text, " compacted %+" PRId64, counted(message->compact_revision, base));
    for (size_t i = 0; i < message->n_events; i++) {
        const el_watch_event *event = &message->events[i];
        if (event->deleted) {
            agree_print(text, " delete ");
            print_bytes(text, event->kv.key);
            agree_print(text, " m%+" PRId64, counted(event->kv.mod_revision, base));
        } else {
            agree_print(text, " put ");
            print_kv(text, &event->kv, base);
        }
    }
    agree_print(text, "; ");
}

/* ---- requests --------------------------------------------------------------------------------------------
 */

static void print_key(agree_text *text, el_span key, el_span range_end)
{
    print_bytes(text, key);
    if (!range_end.size) return;
    agree_print(text, "..");
    print_bytes(text, range_end);
}

static void print_range_request(agree_text *text, const el_range_request *range)
{
    agree_print(text, "range ");
    print_key(text, range->key, range->range_end);
    agree_print(text, " limit %" PRId64 " max %+" PRId64 " sort %d%s%s%s", range->limit,
                range->max_create_revision, range->sort, range->serializable ? " serializable" : "",
                range->keys_only ? " keys" : "", range->count_only ? " count" : "");
}

static void print_txn_request(agree_text *text, const el_txn_request *txn);

static void print_ops(agree_text *text, const el_op *ops, size_t n)
{
    agree_print(text, "{");
    for (size_t i = 0; i < n; i++) {
        const el_op *op = &ops[i];
        if (op->kind == EL_OP_RANGE) print_range_request(text, &op->range);
        if (op->kind == EL_OP_TXN) print_txn_request(text, op->txn);
        if (op->kind == EL_OP_PUT) {
            agree_print(text, "put ");
            print_bytes(text, op->put.key);
            agree_print(text, " l%" PRIx64, (uint64_t)op->put.lease);
        }
        if (op->kind == EL_OP_DELETE) {
            agree_print(text, "delete ");
            print_key(text, op->del.key, op->del.range_end);
        }
        agree_print(text, "; ");
    }
    agree_print(text, "}");
}

static void print_txn_request(agree_text *text, const el_txn_request *txn)
{
    static const char *const targets[] = {"version", "create", "mod", "value", "lease"};
    static const char *const relations[] = {"=", ">", "<", "!="};
    agree_print(text, "if ");
    for (size_t i = 0; i < txn->n_compares; i++) {
        const el_compare *compare = &txn->compares[i];
        agree_print(text, "%s ", targets[compare->target]);
        print_key(text, compare->key, compare->range_end);
        agree_print(text, " %s %" PRId64 " '", relations[compare->relation], compare->number);
        print_bytes(text, compare->value);
        agree_print(text, "', ");
    }
    print_ops(text, txn->success, txn->n_success);
    agree_print(text, " else ");
    print_ops(text, txn->failure, txn->n_failure);
}

void agree_print_request(agree_text *text, const el_request *request)
{
    if (request->verb == EL_TXN)
        print_txn_request(text, &request->txn);
    else if (request->verb == EL_RANGE)
        print_range_request(text, &request->range);
    else if (request->verb == EL_AUTHENTICATE || request->verb == EL_STATUS)
        agree_print(text, "verb %d", request->verb);
    else
        agree_print(text, "verb %d lease %" PRIx64 " ttl %" PRId64, request->verb,
                    (uint64_t)request->lease.id, request->lease.ttl_s);
}
