/* Turns requests into etcd's protobuf bytes and bytes into answers; it never touches the network. */
#ifndef EL_CODEC_H
#define EL_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "transport/codec_arena.h"
#include "transport/transport.h"

/* A message about to be written. It points into the request, which must outlive it. Large enough to be the
 * caller's local variable, so that a usual request is encoded without an allocation. */
typedef struct el_encoding {
    size_t size;   /* bytes that el_encoding_write will write */
    void *message; /* protobuf-c's tree, in the arena */
    el_arena arena;
    max_align_t space[96];
} el_encoding;

/* Each prepares a message and sets its size. 0 or ENOMEM; in both cases the encoding must be released. */
int el_encode_request(el_encoding *encoding, const el_request *request);
int el_encode_watch_create(el_encoding *encoding, int64_t watch_id, el_span key, int64_t start_revision,
                           bool deletes_only);
int el_encode_watch_cancel(el_encoding *encoding, int64_t watch_id);

/* Writes exactly `size` bytes. */
void el_encoding_write(const el_encoding *encoding, uint8_t *out);

void el_encoding_release(el_encoding *encoding);

/* Each decodes one whole message, without trusting it. What the result points to is in the arena; the bytes
 * may go. 0, EBADMSG or ENOMEM; on failure *out means nothing, and the arena is to be released all the same.
 */
int el_decode_answer(el_arena *arena, el_verb verb, const uint8_t *data, size_t size, el_answer *out);
int el_decode_watch_message(el_arena *arena, const uint8_t *data, size_t size, el_watch_message *out);

#endif
