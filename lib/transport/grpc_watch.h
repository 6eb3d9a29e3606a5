/* Watch streams: many watches over one bidirectional call. */
#ifndef EL_GRPC_WATCH_H
#define EL_GRPC_WATCH_H

#include "transport/grpc_lane.h"

/* The table's watch functions, on an opened channel of the stream's lane. */
void el_grpc_watch_open(el_grpc_lane *lane, el_grpc_channel *channel, el_watch_stream *stream);
void el_grpc_watch_create(el_grpc_lane *lane, el_watch_stream *stream, int64_t watch_id, el_span key,
                          int64_t start_revision, bool deletes_only);
void el_grpc_watch_cancel(el_grpc_lane *lane, el_watch_stream *stream, int64_t watch_id);
void el_grpc_watch_close(el_grpc_lane *lane, el_watch_stream *stream);

#endif
