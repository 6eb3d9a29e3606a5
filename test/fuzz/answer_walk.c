#include "answer_walk.h"

#include "input.h"

enum { DEEPEST = 16 }; /* far more than the codec lets through */

static void walk_span(el_span span, size_t size)
{
    expect(span.size <= size, "no text is longer than the message");
    touch(span.data, span.size);
}

void walk_key_value(const el_key_value *kv, size_t size)
{
    walk_span(kv->key, size);
    walk_span(kv->value, size);
}

static void walk_range(const el_range_answer *range, size_t size)
{
    expect(range->n_kvs <= size, "there are no more keys than bytes");
    for (size_t i = 0; i < range->n_kvs; i++)
        walk_key_value(&range->kvs[i], size);
}

static void walk_nested(const el_txn_answer *txn, size_t size, unsigned depth)
{
    expect(depth < DEEPEST, "transactions are not nested deeply");
    expect(txn->n_answers <= size, "there are no more answers than bytes");
    for (size_t i = 0; i < txn->n_answers; i++) {
        const el_op_answer *op = &txn->answers[i];
        switch (op->kind) {
        case EL_OP_RANGE:
            walk_range(&op->range, size);
            break;
        case EL_OP_TXN:
            walk_nested(op->txn, size, depth + 1);
            break;
        case EL_OP_PUT:
        case EL_OP_DELETE:
            break;
        }
    }
}

void walk_txn(const el_txn_answer *txn, size_t size)
{
    walk_nested(txn, size, 0);
}

void walk_answer(const el_answer *answer, size_t size)
{
    switch (answer->verb) {
    case EL_TXN:
        walk_txn(&answer->txn, size);
        break;
    case EL_RANGE:
        walk_range(&answer->range, size);
        break;
    case EL_AUTHENTICATE:
        walk_span(answer->token, size);
        break;
    case EL_STATUS:
        walk_span(answer->status.version, size);
        break;
    case EL_LEASE_GRANT:
    case EL_LEASE_REVOKE:
    case EL_LEASE_KEEPALIVE:
    case EL_LEASE_TIME_TO_LIVE:
        break;
    }
}
