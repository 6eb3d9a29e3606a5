/* Watch messages of etcd through the codec. Input: the choice of failing memory, the message. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "answer_walk.h"
#include "core/alloc.h"
#include "input.h"
#include "transport/codec.h"

static int decode(const input *in)
{
    el_arena arena;
    el_watch_message message;
    uint8_t *bytes = input_bytes(in);
    el_arena_init(&arena, NULL, 0);
    int error = el_decode_watch_message(&arena, bytes, in->size, &message);
    free(bytes); /* the message must not point there */
    if (!error) {
        expect(message.reason != NULL, "a message has a reason");
        expect(strlen(message.reason) <= in->size, "the reason is no longer than the message");
        expect(message.n_events <= in->size, "there are no more events than bytes");
        for (size_t i = 0; i < message.n_events; i++)
            walk_key_value(&message.events[i].kv, in->size);
    }
    el_arena_release(&arena);
    return error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    uint8_t failing = input_u8(&in);
    long alive = el_alloc_alive();
    int error = decode(&in);
    expect(error == 0 || error == EBADMSG, "with memory a message is decoded or malformed");
    memory_fail(failing);
    int starved_error = decode(&in);
    memory_recover();
    expect(starved_error == error || starved_error == ENOMEM, "lack of memory is said to be that");
    expect(el_alloc_alive() == alive, "nothing is left behind");
    return 0;
}
