#include "transport/grpc_exchange.h"

#include <errno.h>
#include <string.h>

#include <grpc/slice.h>

#include "core/alloc.h"

const el_status el_grpc_closed_status = {
    .code = EL_CANCELLED, .message = "the client is closed", .not_sent = true};
const el_status el_grpc_starved_status = {
    .code = EL_RESOURCE_EXHAUSTED, .message = "out of memory", .not_sent = true, .local_memory = true};

static void add_header(el_grpc_exchange *exchange, const char *key, grpc_slice value)
{
    grpc_metadata *header = &exchange->headers[exchange->n_headers++];
    header->key = grpc_slice_from_static_string(key);
    header->value = value;
}

void el_grpc_exchange_init(el_grpc_exchange *exchange, bool has_leader, el_span token)
{
    exchange->n_headers = 0;
    /* Without it a member cut off from the others keeps a watch silent, and other calls waiting, for long. */
    if (has_leader) add_header(exchange, "hasleader", grpc_slice_from_static_string("true"));
    if (token.size) add_header(exchange, "token", grpc_slice_from_copied_buffer(token.data, token.size));
    grpc_metadata_array_init(&exchange->initial);
    grpc_metadata_array_init(&exchange->trailing);
    exchange->details = grpc_empty_slice();
}

void el_grpc_exchange_clear(el_grpc_exchange *exchange)
{
    for (size_t i = 0; i < exchange->n_headers; i++)
        grpc_slice_unref(exchange->headers[i].value);
    grpc_metadata_array_destroy(&exchange->initial);
    grpc_metadata_array_destroy(&exchange->trailing);
    grpc_slice_unref(exchange->details);
    el_free(exchange->message);
}

/* ---- operations ---- */

grpc_op el_grpc_send_headers(el_grpc_exchange *exchange)
{
    grpc_op op = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    op.data.send_initial_metadata.count = exchange->n_headers;
    op.data.send_initial_metadata.metadata = exchange->headers;
    return op;
}

grpc_op el_grpc_receive_headers(el_grpc_exchange *exchange)
{
    grpc_op op = {.op = GRPC_OP_RECV_INITIAL_METADATA};
    op.data.recv_initial_metadata.recv_initial_metadata = &exchange->initial;
    return op;
}

grpc_op el_grpc_receive_status(el_grpc_exchange *exchange)
{
    grpc_op op = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    op.data.recv_status_on_client.trailing_metadata = &exchange->trailing;
    op.data.recv_status_on_client.status = &exchange->code;
    op.data.recv_status_on_client.status_details = &exchange->details;
    return op;
}

grpc_op el_grpc_send_message(grpc_byte_buffer *bytes)
{
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};
    op.data.send_message.send_message = bytes;
    return op;
}

grpc_op el_grpc_receive_message(grpc_byte_buffer **bytes)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = bytes;
    return op;
}

grpc_op el_grpc_send_end(void)
{
    return (grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
}

/* ---- how it ended ---- */

/* The text, with a hint to what gRPC cannot know: a server that refuses a client certificate says so only
 * after the handshake (TLS 1.3), and one that is addressed in plain text but wants TLS says nothing. Seen in
 * 1.51, except the last text, which is of later versions. */
static const char *hint_of(const char *text, bool not_sent, bool tls)
{
    static const char *const closed[] = {"Endpoint read failed", "Socket closed",
                                         "closed before server preface"};
    for (size_t i = 0; not_sent && i < sizeof closed / sizeof closed[0]; i++) {
        if (!strstr(text, closed[i])) continue;
        return tls ? ": closed after the handshake: is the client certificate missing, expired or not "
                     "trusted?"
                   : ": closed at once: does it want TLS?";
    }
    return "";
}

static char *message_of(grpc_slice details, bool not_sent, bool tls)
{
    size_t size = GRPC_SLICE_LENGTH(details);
    char *text = el_alloc(size + 1);
    if (!text) return NULL;
    memcpy(text, GRPC_SLICE_START_PTR(details), size);
    const char *hint = hint_of(text, not_sent, tls);
    char *whole = el_realloc(text, size + strlen(hint) + 1);
    if (!whole) return text;
    memcpy(whole + strlen(whole), hint, strlen(hint) + 1);
    return whole;
}

static el_code code_of(grpc_status_code code)
{
    return (int)code >= EL_OK && (int)code <= EL_UNAUTHENTICATED ? (el_code)code : EL_UNKNOWN;
}

/* How `not_sent` is known. A batch that only sends succeeds once all of it has been put into frames for the
 * socket, whatever becomes of the socket; it fails if the call ended before that: while it waited for an
 * address or a connection, or in mid-message. A message without its end is never acted upon, so a failed
 * batch means that the request cannot have had an effect. Seen to fail for a refused connection, a name that
 * does not resolve, an unanswered SYN, a listener that never speaks, each ended by gRPC, a deadline or a
 * cancel; and to succeed where a frozen server or a reset followed. No other witness will do: status texts
 * differ between versions, and gRPC forgets a call's peer as soon as the call is cancelled or late. */
el_status el_grpc_exchange_status(el_grpc_exchange *exchange, el_grpc_channel *channel)
{
    el_status status = {.code = code_of(exchange->code), .message = ""};
    if (status.code == EL_OK) {
        atomic_store_explicit(&channel->failing, false, memory_order_relaxed);
        atomic_store_explicit(&channel->silent, false, memory_order_relaxed);
        return status;
    }
    exchange->message = message_of(exchange->details, exchange->not_sent, channel->tls);
    status.message = exchange->message ? exchange->message : "(no memory for the text)";
    status.not_sent = exchange->not_sent;
    if (status.not_sent && status.code == EL_UNAVAILABLE) {
        atomic_store_explicit(&channel->failing, true, memory_order_relaxed);
    }
    return status;
}

el_status el_grpc_refused_status(grpc_call_error error)
{
    /* The token is the only header that is not our own. */
    bool token = error == GRPC_CALL_ERROR_INVALID_METADATA;
    return (el_status){
        .code = token ? EL_UNAUTHENTICATED : EL_INTERNAL,
        .message = token ? "the auth token cannot be sent as a header" : grpc_call_error_to_string(error),
        .not_sent = true,
    };
}

el_status el_grpc_decoding_status(int error)
{
    if (error == ENOMEM) {
        return (el_status){
            .code = EL_RESOURCE_EXHAUSTED, .message = "out of memory for the answer", .local_memory = true};
    }
    return (el_status){
        .code = EL_INTERNAL, .message = "the answer is no message of etcd's", .malformed = true};
}

/* ---- bytes ---- */

grpc_byte_buffer *el_grpc_bytes_of(const el_encoding *encoding)
{
    grpc_slice slice = grpc_slice_malloc(encoding->size);
    el_encoding_write(encoding, GRPC_SLICE_START_PTR(slice));
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return buffer;
}

/* A message in one piece, as nearly all are, is read where it lies. */
bool el_grpc_bytes_open(el_grpc_bytes *bytes, grpc_byte_buffer *buffer)
{
    *bytes = (el_grpc_bytes){.whole = grpc_empty_slice()};
    bytes->readable = grpc_byte_buffer_reader_init(&bytes->reader, buffer);
    if (!bytes->readable) return false;
    size_t size = grpc_byte_buffer_length(bytes->reader.buffer_out);
    grpc_slice *piece = NULL;
    if (size == 0) return true;
    if (grpc_byte_buffer_reader_peek(&bytes->reader, &piece) && GRPC_SLICE_LENGTH(*piece) == size) {
        bytes->data = GRPC_SLICE_START_PTR(*piece);
        bytes->size = size;
        return true;
    }
    grpc_byte_buffer_reader_destroy(&bytes->reader);
    bytes->readable = grpc_byte_buffer_reader_init(&bytes->reader, buffer);
    if (!bytes->readable) return false;
    bytes->whole = grpc_byte_buffer_reader_readall(&bytes->reader);
    bytes->data = GRPC_SLICE_START_PTR(bytes->whole);
    bytes->size = GRPC_SLICE_LENGTH(bytes->whole);
    return true;
}

void el_grpc_bytes_release(el_grpc_bytes *bytes)
{
    grpc_slice_unref(bytes->whole);
    if (bytes->readable) grpc_byte_buffer_reader_destroy(&bytes->reader);
}
