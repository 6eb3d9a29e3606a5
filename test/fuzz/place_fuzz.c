/* Answers to the transactions of a place, decoded, and then read as what they say about the queue.
 * Input: which transaction and whether by a reader, the choice of failing memory, the place's
 * create_revision (8 bytes, for the look only), the message. */
#include "core/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "answer_walk.h"
#include "core/alloc.h"
#include "core/key.h"
#include "input.h"
#include "transport/codec.h"

#define SPAN(text) ((el_span){text, sizeof(text) - 1})

enum {
    READ_ENTER,
    READ_TRY,
    READ_LOOK,
    READERS, /* their number, and the bit that says "reader" is the next one */
    READER_BIT = 4,
};

static void expect_older(const el_place *place, const el_view *view)
{
    el_span folder = place->queue->folder;
    if (!view->has_older) {
        expect(!view->is_older_first && view->older_key.size == 0, "nobody is before us, so nobody is first");
        return;
    }
    expect(!view->is_unclear, "who is before us is clear");
    expect(view->older_key.size > folder.size, "who is before us lies in the folder");
    expect(view->older_key.size <= folder.size + EL_ENTRY_MAX, "his key fits where the contender keeps it");
    expect(memcmp(view->older_key.data, folder.data, folder.size) == 0, "his key begins with the folder");
    el_entry_shape shape = el_key_shape(view->older_key, folder);
    expect(shape != EL_SHAPE_STRAY, "a stray key blocks nobody");
    expect(!place->is_reader || shape == EL_SHAPE_WRITER, "a reader waits for writers only");
}

static void expect_mine(const el_view *view)
{
    expect(view->mine_create_revision >= 0, "a create_revision is known or 0");
    if (view->is_malformed) {
        expect(view->mine_create_revision == 0, "no token comes from a malformed answer");
        return;
    }
    expect(!view->is_mine_ours || view->is_mine_there, "what is ours is there");
    expect(!view->is_mine_there || view->mine_create_revision > 0, "an entry has a create_revision");
    expect(!view->is_mine_ours || !view->has_older ||
               view->older_create_revision < view->mine_create_revision,
           "who is before us is older");
}

static void read_answer(el_place *place, unsigned which, const el_answer *answer)
{
    el_view view;
    if (which == READ_ENTER) {
        view = el_place_read_enter(place, answer->revision, &answer->txn);
    } else if (which == READ_TRY) {
        view = el_place_read_try(place, answer->revision, &answer->txn);
    } else {
        view = el_place_read_look(place, answer->revision, &answer->txn);
    }
    expect(view.revision == answer->revision, "a view is as of the answer's revision");
    expect_mine(&view);
    expect_older(place, &view);
    expect(which != READ_ENTER || view.is_malformed || view.is_mine_there,
           "after entering a key of that name is there");
}

static int decode_and_read(el_place *place, unsigned which, const input *in)
{
    el_arena arena;
    el_answer answer;
    uint8_t *bytes = input_bytes(in);
    el_arena_init(&arena, NULL, 0);
    int error = el_decode_answer(&arena, EL_TXN, bytes, in->size, &answer);
    free(bytes);
    if (!error) read_answer(place, which, &answer);
    el_arena_release(&arena);
    return error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    uint8_t kind = input_u8(&in);
    uint8_t failing = input_u8(&in);
    int64_t create_revision = input_i64(&in) & INT64_MAX;
    unsigned which = kind % READER_BIT % READERS;
    el_queue queue = {
        .folder = SPAN("pre/NAME/"), .folder_end = SPAN("pre/NAME0"), .writers_end = SPAN("pre/NAME/g")};
    el_place place = {.queue = &queue, .key = SPAN("pre/NAME/aa"), .value = SPAN("{me}"), .lease = 0xaa};
    place.is_reader = (kind & READER_BIT) != 0;
    if (place.is_reader) place.key = SPAN("pre/NAME/r-aa");
    if (which == READ_LOOK) place.create_revision = create_revision ? create_revision : 1;

    long alive = el_alloc_alive();
    int error = decode_and_read(&place, which, &in);
    memory_fail(failing);
    int starved_error = decode_and_read(&place, which, &in);
    memory_recover();
    expect(starved_error == error || starved_error == ENOMEM, "lack of memory is said to be that");
    expect(el_alloc_alive() == alive, "nothing is left behind");
    return 0;
}
