/* What a client has in place of its transport once that is freed: the clock and randomness go on, nothing
 * else. */
#ifndef EL_CLOSED_H
#define EL_CLOSED_H

#include "transport/transport.h"

extern el_transport el_closed_transport;

#endif
