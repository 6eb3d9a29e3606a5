/* Messages for the user's log function, told in order on the callback thread. */
#ifndef EL_LOG_H
#define EL_LOG_H

#include "core/client.h"

/* Does nothing if nobody listens at that level, or if memory runs out. Called with the client's lock held. */
void el_log(el_client *client, etcdlock_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
