/* How to be rid of channels and of gRPC itself without a loss (measured with gRPC 1.51).
 *
 * A channel that is destroyed between the TCP connect and the server's first frame loses its socket for good
 * if that frame comes later, so it is given a moment to finish. If the frame never comes, the socket goes
 * when the attempt's time-out fires, but not if gRPC is shut down before that, so that shutdown is owed, and
 * made up for when gRPC is next used or let go. */
#ifndef EL_GRPC_RELEASE_H
#define EL_GRPC_RELEASE_H

#include <grpc/grpc.h>
#include <stdint.h>

/* No attempt to connect takes longer than this. */
#define EL_GRPC_CONNECT_TIMEOUT_MS 3000

/* Destroys a channel; waits up to 250 ms for one that is connecting. gRPC must be initialised. */
void el_grpc_destroy_channel(grpc_channel *channel, int64_t now_ns);

/* In the place of grpc_init and grpc_shutdown. */
void el_grpc_acquire(int64_t now_ns);
void el_grpc_release(int64_t now_ns);

#endif
