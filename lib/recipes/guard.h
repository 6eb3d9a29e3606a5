/* What a program asks for in a guarded call, made into what core/guard.h sends. */
#ifndef EL_GUARD_REQUEST_H
#define EL_GUARD_REQUEST_H

#include <stddef.h>

#include "core/error.h"
#include "core/guard.h"
#include "etcdlock/guard.h"
#include "recipes/mutex.h"

/* A request with copies of its keys; the values are still the program's. One block: el_free releases it. */
typedef struct el_guard_request {
    el_guard_call call;
    el_compare *compares;
    char *next_key; /* where the next copied key goes */
} el_guard_request;

/* Checks and copies a transaction for the mutex. 0, EINVAL, E2BIG or ENOMEM, about `what`. */
int el_guard_request_make(el_guard_request **out, const el_mutex *mutex, const etcdlock_txn *txn,
                          const char *what, el_failure *failure);

/* A request that reads one key; the errors are the same. */
int el_guard_request_read(el_guard_request **out, const el_mutex *mutex, const char *key,
                          el_failure *failure);

/* ---- how the calls are made */

/* Finds the mutex and takes its client's lock. 0, or the error of a call that only asks. */
int el_guard_enter(etcdlock_mutex *handle, const char *what, el_mutex **out, el_failure *failure);

/* What the caller holds, good as of this instant; NULL with the reason. */
el_hold *el_guard_find_hold(el_mutex *mutex, const char *what, el_failure *failure);

/* Makes the call under the hold and waits for its end. The hold may be gone then. */
int el_guard_run(el_hold *hold, el_guard_call *call, const char *what, el_failure *failure);

#endif
