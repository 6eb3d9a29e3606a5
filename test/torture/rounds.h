/* What one thread of a torture client does: lock in one of several ways, write to the resource, unlock. */
#ifndef TORTURE_ROUNDS_H
#define TORTURE_ROUNDS_H

#include "torture/generation.h"

/* Goes on until c->finish; number tells the threads of a process apart. */
void rounds_run(torture_client *c, int number);

#endif
