/* Answers of etcd through the codec. Input: the verb, the choice of failing memory, the message. */
#include <errno.h>
#include <stdlib.h>

#include "answer_walk.h"
#include "core/alloc.h"
#include "core/options.h"
#include "input.h"
#include "transport/codec.h"

enum { N_VERBS = EL_STATUS + 1 };

/* What the session does with a time to live first of all. */
static void take_ttl(int64_t ttl_s)
{
    int64_t margin_ms = -1;
    if (el_margin_ms(0, ttl_s, &margin_ms) == 0)
        expect(ttl_s > 0 && margin_ms > 0 && margin_ms <= 1000, "the automatic margin is within its bounds");
}

static int decode(el_verb verb, const input *in)
{
    el_arena arena;
    el_answer answer;
    uint8_t *bytes = input_bytes(in);
    el_arena_init(&arena, NULL, 0);
    int error = el_decode_answer(&arena, verb, bytes, in->size, &answer);
    free(bytes); /* an answer must not point there */
    if (!error) {
        expect(answer.verb == verb, "an answer has its request's verb");
        walk_answer(&answer, in->size);
        if (verb == EL_LEASE_GRANT || verb == EL_LEASE_KEEPALIVE) take_ttl(answer.lease.ttl_s);
    }
    el_arena_release(&arena);
    return error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    el_verb verb = (el_verb)(input_u8(&in) % N_VERBS);
    uint8_t failing = input_u8(&in);
    long alive = el_alloc_alive();
    int error = decode(verb, &in);
    expect(error == 0 || error == EBADMSG, "with memory an answer is decoded or malformed");
    memory_fail(failing);
    int starved_error = decode(verb, &in);
    memory_recover();
    expect(starved_error == error || starved_error == ENOMEM, "lack of memory is said to be that");
    expect(el_alloc_alive() == alive, "nothing is left behind");
    return 0;
}
