/* The lock calls of a torture client, made in the way of its slot: blocking, asynchronous with the client's
 * own callback thread, or asynchronous with callbacks run by a loop of the program. */
#ifndef TORTURE_CALLS_H
#define TORTURE_CALLS_H

#include "torture/generation.h"

typedef enum call_way { WAY_BLOCKING, WAY_CALLBACK, WAY_LOOP, CALL_WAYS } call_way;

call_way calls_way(const torture_client *c);

/* For WAY_LOOP: starts the thread that has the loop, and ends it before the client is closed. */
void calls_begin(torture_client *c);
void calls_end(torture_client *c);

/* asked_ms: of CALL_LOCK_FOR. */
int calls_lock(torture_client *c, etcdlock_mutex *mutex, tale_call kind, int64_t asked_ms);
int calls_unlock(torture_client *c, etcdlock_mutex *mutex);

#endif
