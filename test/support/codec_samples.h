/* Messages as a server would send them, and a request with everything in it, for the tests of the codec. */
#ifndef EL_TEST_CODEC_SAMPLES_H
#define EL_TEST_CODEC_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "etcd.pb-c.h"
#include "transport/codec.h"

/* Packed bytes, to be freed with free(): they are the test's, not the library's. */
typedef struct wire {
    uint8_t *data;
    size_t size;
} wire;

el_span span(const char *text);
ProtobufCBinaryData bytes(const char *text); /* valid for some dozens of further calls */
wire packed(const void *message);

/* Decodes from a copy of exactly that size, so that a checker sees a read beyond it. */
int decoded(el_arena *arena, el_verb verb, const uint8_t *data, size_t size, el_answer *out);

wire sample_range(void); /* two keys */
wire large_range(void);  /* so many keys that decoding needs several blocks */
wire sample_txn(
    unsigned depth);     /* so many transactions, one in the other, the innermost with all other kinds */
wire sample_watch(void); /* refused, with two events */

/* A request with every kind of operation and a nested transaction, larger than an encoding's own space. */
el_request sample_request(void);

#endif
