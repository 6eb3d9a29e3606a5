/* Single calls: one request, one answer. */
#ifndef EL_GRPC_CALL_H
#define EL_GRPC_CALL_H

#include "transport/grpc_lane.h"

/* The table's `call` and `cancel`, on an opened channel of the call's lane. */
void el_grpc_call_start(el_grpc_lane *lane, el_grpc_channel *channel, el_call *call,
                        const el_request *request);
void el_grpc_call_cancel(el_grpc_lane *lane, el_call *call);

#endif
