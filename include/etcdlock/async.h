/* Locks for programs that never block: the call begins the operation and returns, a callback tells how it
 * ended. Ten thousand locks can be waited for by one thread.
 *
 * Where callbacks run. By default on the client's callback thread, one at a time. A program with an event
 * loop of its own asks for etcdlock_client_fd and watches it for reading; from then on *all* callbacks of
 * that client (these, lost locks, states of sessions, the log) run inside etcdlock_client_dispatch, on the
 * thread that calls it, and the library has no thread for them.
 *
 * Who holds. A lock that was taken asynchronously belongs to the handle, not to a thread, so these calls want
 * a handle that was made with ETCDLOCK_HANDLE_OWNED; etcdlock_mutex_unlock and all questions (token, ensure,
 * ...) work on it from any thread. Several asynchronous lock calls may wait on one handle, each in a place of
 * its own; while one of them holds, an unlock is for that one.
 *
 * Order. Operations that are under way at the same time reach etcd in any order. What is to come after
 * another (a trylock of what an unlock lets go, a place in the queue behind an earlier one) is begun in its
 * callback. */
#ifndef ETCDLOCK_ASYNC_H
#define ETCDLOCK_ASYNC_H

#include <stdint.h>

#include "etcdlock/client.h"
#include "etcdlock/export.h"
#include "etcdlock/mutex.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How an operation ended: error as the blocking call would return it, 0: done. token: of the hold that was
 * granted, with EOWNERDEAD too; 0 otherwise. etcdlock_error_message tells the reason while it runs. Called
 * exactly once for each call below that returned 0, never from inside that call, also when the session or
 * client is closed (ECANCELED). It may call anything of the library but etcdlock_client_close; it should not
 * block, since all other callbacks wait for it. The handle is not destroyed under it: etcdlock_mutex_destroy
 * says EBUSY until the callbacks of all its operations have begun. */
typedef void etcdlock_callback(etcdlock_mutex *mutex, int error, uint64_t token, void *arg);

/* Begins to lock, as etcdlock_mutex_lock. Does not block. Waits without limit; etcdlock_mutex_cancel ends it
 * (ECANCELED), like every wait of the handle.
 * If it returns an error nothing was begun and the callback is not called: EINVAL: NULL, or the handle is
 * not ETCDLOCK_HANDLE_OWNED (a drop-in mutex never is); EAGAIN: place limit, or no thread to be had for
 * callbacks; ECANCELED: the session or client was closed; ETCDLOCK_ESESSION: the session is lost; ENOMEM;
 * ETCDLOCK_EFORKED. The callback gets 0, or what etcdlock_mutex_lock returns. */
ETCDLOCK_API int etcdlock_mutex_lock_async(etcdlock_mutex *mutex, etcdlock_callback *callback,
                                           void *arg) ETCDLOCK_CHECK_RESULT;

/* The same for etcdlock_mutex_trylock. Also returns EBUSY if this process knows that the lock is held. */
ETCDLOCK_API int etcdlock_mutex_trylock_async(etcdlock_mutex *mutex, etcdlock_callback *callback,
                                              void *arg) ETCDLOCK_CHECK_RESULT;

/* The same for etcdlock_mutex_lock_for: the callback gets ETIMEDOUT when ms milliseconds have passed. With
 * ms <= 0 it is one try, and also returns ETIMEDOUT if this process knows that the lock is held. */
ETCDLOCK_API int etcdlock_mutex_lock_for_async(etcdlock_mutex *mutex, int64_t ms, etcdlock_callback *callback,
                                               void *arg) ETCDLOCK_CHECK_RESULT;

/* Begins to unlock, as etcdlock_mutex_unlock. Does not block. callback may be NULL: the entry is removed all
 * the same, but nobody hears how that went.
 * If it returns an error that is the outcome, and the callback is not called: EPERM: not held by the handle;
 * ETCDLOCK_ESESSION, ETCDLOCK_EENTRY: it had been lost before, and is held no longer; ECANCELED: the session
 * or client was closed; EINVAL, EAGAIN, ETCDLOCK_EFORKED as above; ENOMEM: nothing was begun, it is still
 * held. The callback gets 0, or what etcdlock_mutex_unlock returns. */
ETCDLOCK_API int etcdlock_mutex_unlock_async(etcdlock_mutex *mutex, etcdlock_callback *callback,
                                             void *arg) ETCDLOCK_CHECK_RESULT;

/* A file descriptor that polls readable while callbacks of this client wait to be run by
 * etcdlock_client_dispatch (level-triggered). Asking for it the first time ends the client's callback thread,
 * for good; callbacks that it has not begun wait for the dispatch. It belongs to the client: do not read from
 * it and do not close it; it is gone once etcdlock_client_close has returned. Blocks only while a callback
 * that has begun is running. Returns -1, with etcdlock_error_message, if the client is NULL or of a parent
 * process, in a callback on the client's own thread, or if no descriptor is to be had. Ask for it before the
 * first callback can come, right after client_open: then none runs elsewhere. */
ETCDLOCK_API int etcdlock_client_fd(etcdlock_client *client);

/* Runs the callbacks that wait now, on the calling thread, and returns; those that come meanwhile are for the
 * next call. Does not block by itself. One thread at a time. What waits when etcdlock_client_close is called
 * is run by that call; log messages are dropped.
 * EINVAL: NULL, or etcdlock_client_fd was never asked for; EDEADLK: called from inside a callback, nothing
 * was done; EBUSY: another thread is in it, nothing was done; ETCDLOCK_EFORKED. */
ETCDLOCK_API int etcdlock_client_dispatch(etcdlock_client *client) ETCDLOCK_CHECK_RESULT;

#ifdef __cplusplus
}
#endif

#endif
