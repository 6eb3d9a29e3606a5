/* The drop-in form: mutexes with a static initialiser, on one client and session for the whole process. */
#ifndef EL_DROPIN_H
#define EL_DROPIN_H

#include "core/error.h"
#include "etcdlock/mutex.h"
#include "recipes/mutex.h"

/* Finds what is behind a handle. For one with a static name it opens what is needed and moves on to a new
 * session when the old one is lost; for that it may block as long as etcdlock_session_open. For a call that
 * only asks, may_open is false: then a mutex that was never used gives EPERM. */
int el_dropin_resolve(etcdlock_mutex *handle, bool may_open, el_mutex **out, el_failure *failure);

/* True if the handle was initialised statically or by etcdlock_mutex_init. */
bool el_dropin_is(const etcdlock_mutex *handle);

/* With ETCDLOCK_ON_ERROR=abort a failure that a pthread program does not expect ends it here. handle: NULL if
 * it is none of the drop-in form. Returns error. */
int el_dropin_judge(const etcdlock_mutex *handle, const char *call, const el_failure *failure);

/* Forgets what is behind the handle. 0 or EBUSY. */
int el_dropin_destroy(etcdlock_mutex *handle, el_failure *failure);

#endif
