/* How to be rid of a channel without a loss.
 *
 * A channel that is destroyed between the TCP connect and the server's first frame loses its socket and
 * gRPC's threads for good if that frame comes later, or if gRPC is shut down before the attempt has ended
 * (measured with 1.51). So such a channel is given to a thread of its own, which lets the attempt end, as it
 * does by its time-out, and then destroys the channel. */
#ifndef EL_GRPC_RELEASE_H
#define EL_GRPC_RELEASE_H

#include <grpc/grpc.h>

/* No attempt to connect takes longer than this. */
#define EL_GRPC_CONNECT_TIMEOUT_MS 3000

/* Destroys a channel, now or when its attempt to connect is over. Does not block. gRPC must be initialised,
 * and is kept so for as long as it takes. */
void el_grpc_destroy_channel(grpc_channel *channel);

#endif
