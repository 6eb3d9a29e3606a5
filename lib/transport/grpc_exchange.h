/* What single calls and watch streams have in common: the headers sent, and how it ended. */
#ifndef EL_GRPC_EXCHANGE_H
#define EL_GRPC_EXCHANGE_H

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <stdbool.h>

#include "transport/codec.h"
#include "transport/grpc_channel.h"
#include "transport/transport.h"

typedef struct el_grpc_exchange {
    grpc_metadata headers[2];
    size_t n_headers;
    grpc_metadata_array initial;
    grpc_metadata_array trailing;
    grpc_status_code code;
    grpc_slice details;
    char *message; /* details as a C string */
    bool not_sent; /* the batch of sends failed, see el_grpc_exchange_status */
} el_grpc_exchange;

void el_grpc_exchange_init(el_grpc_exchange *exchange, bool has_leader, el_span token);
void el_grpc_exchange_clear(el_grpc_exchange *exchange);

/* The operations that fill in the exchange. */
grpc_op el_grpc_send_headers(el_grpc_exchange *exchange);
grpc_op el_grpc_receive_headers(el_grpc_exchange *exchange);
grpc_op el_grpc_receive_status(el_grpc_exchange *exchange);
grpc_op el_grpc_send_message(grpc_byte_buffer *bytes);
grpc_op el_grpc_receive_message(grpc_byte_buffer **bytes);
grpc_op el_grpc_send_end(void);

/* Once the status has been received: what it means. The message lives as long as the exchange. */
el_status el_grpc_exchange_status(el_grpc_exchange *exchange, el_grpc_channel *channel);

/* Of a call that gRPC refused to start. */
el_status el_grpc_refused_status(grpc_call_error error);

/* Of bytes that could not be decoded, or for which there was no memory. `error`: EBADMSG or ENOMEM. */
el_status el_grpc_decoding_status(int error);

extern const el_status el_grpc_closed_status;  /* after shutdown */
extern const el_status el_grpc_starved_status; /* no memory to send the request */

/* The message as gRPC sends it. */
grpc_byte_buffer *el_grpc_bytes_of(const el_encoding *encoding);

/* The bytes of a message received; valid until el_grpc_bytes_release. */
typedef struct el_grpc_bytes {
    const uint8_t *data;
    size_t size;
    grpc_slice whole;
    grpc_byte_buffer_reader reader;
    bool readable;
} el_grpc_bytes;

/* false: gRPC could not decompress them. Release in both cases. */
bool el_grpc_bytes_open(el_grpc_bytes *bytes, grpc_byte_buffer *buffer);
void el_grpc_bytes_release(el_grpc_bytes *bytes);

#endif
