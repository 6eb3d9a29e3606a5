/* Answers, watch messages and requests as text, for comparing two transports. */
#ifndef AGREE_TEXT_H
#define AGREE_TEXT_H

#include "support/agree_side.h"

/* The upper 16 bits of the lease ids that the tests choose. */
#define AGREE_LEASE_MARK INT64_C(0x7e7c)

void agree_print_answer(agree_text *text, const el_status *status, const el_answer *answer, int64_t base);
void agree_print_message(agree_text *text, const el_watch_message *message, int64_t base);

#endif
