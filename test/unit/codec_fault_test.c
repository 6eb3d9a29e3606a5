#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "support/codec_samples.h"
#include "support/runner.h"

static const el_verb VERBS[] = {EL_TXN,          EL_RANGE,           EL_LEASE_GRANT,
                                EL_LEASE_REVOKE, EL_LEASE_KEEPALIVE, EL_LEASE_TIME_TO_LIVE,
                                EL_AUTHENTICATE, EL_STATUS};
enum { N_VERBS = sizeof VERBS / sizeof VERBS[0] };

/* ---- what a broken server or network may send ---- */

static void decode_as_everything(const uint8_t *data, size_t size)
{
    for (unsigned i = 0; i < N_VERBS; i++) {
        el_arena arena;
        el_answer answer;
        el_arena_init(&arena, NULL, 0);
        int error = decoded(&arena, VERBS[i], data, size, &answer);
        ck_assert(error == 0 || error == EBADMSG);
        el_arena_release(&arena);
    }
    el_arena arena;
    el_watch_message message;
    el_arena_init(&arena, NULL, 0);
    int error = el_decode_watch_message(&arena, data, size, &message);
    ck_assert(error == 0 || error == EBADMSG);
    el_arena_release(&arena);
}

/* A message cut anywhere is decoded or refused, as any verb's answer, and nothing leaks. */
START_TEST(truncated_at_every_cut)
{
    wire samples[] = {sample_range(), sample_txn(2), sample_watch()};
    long before = el_alloc_alive();
    for (unsigned i = 0; i < 3; i++) {
        for (size_t size = 0; size <= samples[i].size; size++)
            decode_as_everything(samples[i].data, size);
        free(samples[i].data);
    }
    ck_assert_int_eq(el_alloc_alive(), before);
}
END_TEST

/* A message with any one byte changed to any of several values is decoded or refused. */
START_TEST(every_byte_changed)
{
    static const uint8_t MASKS[] = {0x01, 0x04, 0x08, 0x7f, 0x80, 0xff};
    wire samples[] = {sample_range(), sample_txn(2), sample_watch()};
    for (unsigned i = 0; i < 3; i++) {
        for (size_t at = 0; at < samples[i].size; at++) {
            for (unsigned m = 0; m < sizeof MASKS; m++) {
                samples[i].data[at] ^= MASKS[m];
                decode_as_everything(samples[i].data, samples[i].size);
                samples[i].data[at] ^= MASKS[m];
            }
        }
        free(samples[i].data);
    }
}
END_TEST

/* Random bytes, reproducible, are decoded or refused. */
START_TEST(random_bytes)
{
    uint64_t state = 88172645463325252U;
    uint8_t data[80];
    for (unsigned round = 0; round < 20000; round++) {
        for (unsigned i = 0; i < sizeof data; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            data[i] = (uint8_t)state % (round % 2 ? 24 : 255);
        }
        decode_as_everything(data, state % sizeof data);
    }
}
END_TEST

/* An event without a key, and an operation's answer of no known kind, are refused. */
START_TEST(parts_missing)
{
    static const uint8_t EVENT[] = {0x5a, 0x02, 0x08, 0x01};
    static const uint8_t ANSWER[] = {0x1a, 0x00};
    el_arena arena;
    el_watch_message message;
    el_answer answer;
    el_arena_init(&arena, NULL, 0);
    ck_assert_int_eq(el_decode_watch_message(&arena, EVENT, sizeof EVENT, &message), EBADMSG);
    ck_assert_int_eq(decoded(&arena, EL_TXN, ANSWER, sizeof ANSWER, &answer), EBADMSG);
    el_arena_release(&arena);
}
END_TEST

/* An answer nested deeper than the library ever asks for is refused, not followed down the stack. */
START_TEST(txn_answer_too_deep)
{
    wire w = sample_txn(5000);
    el_arena arena;
    el_answer answer;
    el_arena_init(&arena, NULL, 0);
    ck_assert_int_eq(decoded(&arena, EL_TXN, w.data, w.size, &answer), EBADMSG);
    el_arena_release(&arena);
    free(w.data);
}
END_TEST

/* A length beyond all memory is refused as malformed. */
START_TEST(huge_length)
{
    static const uint8_t HUGE[] = {0x12, 0xff, 0xff, 0xff, 0xff, 0x0f};
    el_arena arena;
    el_answer answer;
    el_arena_init(&arena, NULL, 0);
    ck_assert_int_eq(decoded(&arena, EL_RANGE, HUGE, sizeof HUGE, &answer), EBADMSG);
    el_arena_release(&arena);
}
END_TEST

/* Nothing at all is a message whose fields are all zero, for every verb. */
START_TEST(empty_answers)
{
    for (unsigned i = 0; i < N_VERBS; i++) {
        el_arena arena;
        el_answer answer;
        el_arena_init(&arena, NULL, 0);
        ck_assert_int_eq(decoded(&arena, VERBS[i], NULL, 0, &answer), 0);
        ck_assert_int_eq(answer.verb, VERBS[i]);
        ck_assert_int_eq(answer.revision, 0);
        el_arena_release(&arena);
    }
    el_arena arena;
    el_watch_message message;
    el_arena_init(&arena, NULL, 0);
    ck_assert_int_eq(el_decode_watch_message(&arena, NULL, 0, &message), 0);
    ck_assert_str_eq(message.reason, "");
    ck_assert_uint_eq(message.n_events, 0);
    el_arena_release(&arena);
}
END_TEST

/* ---- no memory ---- */

/* Whichever allocation fails, encoding says ENOMEM, and succeeds in the end; nothing leaks. */
START_TEST(encode_without_memory)
{
    el_request request = sample_request();
    long before = el_alloc_alive();
    int error = ENOMEM;
    long n = 0;
    for (; error; n++) {
        el_encoding encoding;
        el_alloc_fail_after(n);
        error = el_encode_request(&encoding, &request);
        el_alloc_fail_after(-1);
        ck_assert(error == 0 || error == ENOMEM);
        el_encoding_release(&encoding);
        ck_assert_int_eq(el_alloc_alive(), before);
        ck_assert_int_lt(n, 1000);
    }
    ck_assert_int_gt(n, 1);
}
END_TEST

static int decode_sample(unsigned which, wire w, long countdown)
{
    el_arena arena;
    el_answer answer;
    el_watch_message message;
    el_arena_init(&arena, NULL, 0);
    el_alloc_fail_after(countdown);
    int error = which == 0   ? el_decode_answer(&arena, EL_RANGE, w.data, w.size, &answer)
                : which == 1 ? el_decode_answer(&arena, EL_TXN, w.data, w.size, &answer)
                             : el_decode_watch_message(&arena, w.data, w.size, &message);
    el_alloc_fail_after(-1);
    el_arena_release(&arena);
    return error;
}

/* Whichever allocation fails, decoding says ENOMEM and not EBADMSG, and succeeds in the end; nothing leaks.
 */
START_TEST(decode_without_memory)
{
    wire samples[] = {large_range(), sample_txn(6), sample_watch()};
    long before = el_alloc_alive();
    for (unsigned i = 0; i < 3; i++) {
        int error = ENOMEM;
        long n = 0;
        for (; error; n++) {
            error = decode_sample(i, samples[i], n);
            ck_assert(error == 0 || error == ENOMEM);
            ck_assert_int_eq(el_alloc_alive(), before);
            ck_assert_int_lt(n, 1000);
        }
        ck_assert_int_gt(n, 1);
        free(samples[i].data);
    }
}
END_TEST

/* ---- the arena ---- */

/* Pieces are aligned, apart from each other and writable, across blocks; an absurd size is refused. */
START_TEST(arena_pieces)
{
    max_align_t space[4];
    el_arena arena;
    el_arena_init(&arena, space, sizeof space);
    long before = el_alloc_alive();
    char *last = NULL;
    for (size_t size = 0; size < 3000; size += 7) {
        char *piece = el_arena_take(&arena, size);
        ck_assert_ptr_nonnull(piece);
        ck_assert_ptr_ne(piece, last);
        ck_assert_uint_eq((uintptr_t)piece % _Alignof(max_align_t), 0);
        memset(piece, 1, size);
        last = piece;
    }
    ck_assert(!arena.starved);
    ck_assert_ptr_null(el_arena_take_array(&arena, SIZE_MAX / 2, 4));
    ck_assert(arena.starved);
    el_arena_release(&arena);
    ck_assert_int_eq(el_alloc_alive(), before);
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
    const TTest *broken[] = {truncated_at_every_cut, every_byte_changed, random_bytes,
                             parts_missing,          huge_length,        txn_answer_too_deep,
                             empty_answers};
    const TTest *starved[] = {encode_without_memory, decode_without_memory, arena_pieces};
    Suite *suite = suite_create("codec_fault");
    add_case(suite, "malformed", broken, sizeof broken / sizeof broken[0]);
    add_case(suite, "no memory", starved, sizeof starved / sizeof starved[0]);
    return runner_run(suite);
}
