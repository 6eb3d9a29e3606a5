/* Walks over decoded answers and reads all that they point to. */
#ifndef EL_FUZZ_ANSWER_WALK_H
#define EL_FUZZ_ANSWER_WALK_H

#include "transport/transport.h"

/* `size` is that of the bytes which were decoded: nothing can be longer, nor can there be more of anything.
 */
void walk_key_value(const el_key_value *kv, size_t size);
void walk_txn(const el_txn_answer *txn, size_t size);
void walk_answer(const el_answer *answer, size_t size);

#endif
