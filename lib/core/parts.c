#include "core/parts.h"

el_op el_range_of(el_span key, bool keys_only)
{
    el_op op = {.kind = EL_OP_RANGE};
    op.range.key = key;
    op.range.keys_only = keys_only;
    return op;
}

const el_range_answer *el_range_at(const el_txn_answer *answer, size_t i)
{
    if (i >= answer->n_answers || answer->answers[i].kind != EL_OP_RANGE) return NULL;
    return &answer->answers[i].range;
}
