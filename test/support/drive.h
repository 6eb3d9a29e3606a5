/* Runs a client without threads over the simulator. */
#ifndef DRIVE_H
#define DRIVE_H

#include "core/client.h"

/* Delivers and fires all that is due now on both lanes, and tells the simulator when the next is. NULL is
 * allowed. */
void drive_client(el_client *client);

#endif
