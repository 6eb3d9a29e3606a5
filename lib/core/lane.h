/* The threads of a client's lanes. */
#ifndef EL_LANE_H
#define EL_LANE_H

#include "core/client.h"

/* 0 or EAGAIN. */
int el_lane_start(el_client *client, el_lane lane);

/* Requires that the transport is shut down. Called without the lock. */
void el_lane_join(el_client *client, el_lane lane);

#endif
