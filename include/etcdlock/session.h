/* A session: one etcd lease that is renewed for as long as the session is open. Locks are held through it.
 *
 * When the session ends, by close, by the death of the process or because it could not be renewed, etcd
 * removes all that was held through it and lets the next ones in. The session ends *locally* first: its
 * deadline is the moment when the last answered renewal was *sent*, plus the time to live that etcd granted,
 * minus a margin, on CLOCK_BOOTTIME. etcd starts to count when that renewal *arrives*, so it cannot let
 * anybody in before the deadline has passed here, as long as the two clocks run at the same speed to within
 * the margin. A process that is stopped (SIGSTOP, a paused virtual machine) cannot notice anything while it
 * is stopped: that is what fencing tokens are for, see etcdlock_mutex_token. */
#ifndef ETCDLOCK_SESSION_H
#define ETCDLOCK_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "etcdlock/client.h"
#include "etcdlock/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct etcdlock_session etcdlock_session;

typedef enum etcdlock_session_state {
    ETCDLOCK_SESSION_OK = 1,        /* renewed in time */
    ETCDLOCK_SESSION_SUSPENDED = 2, /* a renewal is overdue (half of the time to live has passed); all is
                                       still held; may become OK again */
    ETCDLOCK_SESSION_LOST = 3,      /* over, for ever */
} etcdlock_session_state;

/* Called on the client's callback thread after each change of state, in order. It may call anything of the
 * library but etcdlock_client_close. After etcdlock_session_close has returned it is not called again,
 * unless the close was made from inside it. */
typedef void etcdlock_session_function(etcdlock_session *session, etcdlock_session_state state, void *arg);

/* 0 or NULL: not said here, see etcdlock_client_options. */
typedef struct etcdlock_session_options {
    size_t size;
    int64_t ttl_s; /* time to live asked of etcd, 1 to 86400 s (default 10); etcd raises small ones */
    int64_t
        margin_ms; /* the local deadline comes so much before etcd's; less than half of the time to live */
    const char *label; /* written into the lock keys for people to read, at most 256 bytes of UTF-8 */
    etcdlock_session_function *on_state;
    void *on_state_arg;
} etcdlock_session_options;

#define ETCDLOCK_SESSION_OPTIONS_INIT ETCDLOCK_SIZED(etcdlock_session_options)

/* Grants a lease and starts to renew it. options may be NULL. On failure *out is set to NULL and, if the
 * lease may have been granted all the same, it is revoked in the background or expires.
 * Blocks at most command_timeout_ms.
 * EINVAL: an option out of its range; ETCDLOCK_EUNREACHABLE: no endpoint answered; ETCDLOCK_EUNKNOWN:
 * requests were sent but none was answered; EACCES: user or password refused; ENOSPC: etcd is out of space;
 * ECANCELED: the client was closed; ENOMEM; ETCDLOCK_EPROTOCOL; ETCDLOCK_EFORKED. */
ETCDLOCK_API int etcdlock_session_open(etcdlock_session **out, etcdlock_client *client,
                                       const etcdlock_session_options *options) ETCDLOCK_CHECK_RESULT;

/* Revokes the lease, which releases all that is held through it at once, and frees the handle. Calls that
 * wait through it in other threads return ECANCELED. Locks made from it stay valid as handles, to be
 * destroyed by their owners; until then their functions return ECANCELED.
 * Blocks at most min(command_timeout_ms, time to live), and while on_state of this session is running in
 * another thread. NULL is allowed. May be called from a callback.
 * 0; ETCDLOCK_EUNKNOWN: closed and renewed no longer, but the lease could not be revoked and will expire by
 * its time to live; ETCDLOCK_ESESSION: closed, it had been lost before; ETCDLOCK_EFORKED: nothing was done.
 */
ETCDLOCK_API int etcdlock_session_close(etcdlock_session *session);

/* The state now. A session whose deadline has passed is LOST from that instant, whatever was noticed yet.
 * Does not block. In a forked child: LOST. */
ETCDLOCK_API etcdlock_session_state etcdlock_session_get_state(etcdlock_session *session);

/* Milliseconds until the deadline; 0 if lost or closed. Does not block. */
ETCDLOCK_API int64_t etcdlock_session_remaining_ms(etcdlock_session *session);

/* The id of the lease, as `etcdctl lease list` shows it in hexadecimal. Does not block. */
ETCDLOCK_API int64_t etcdlock_session_lease(const etcdlock_session *session);

/* The time to live that etcd granted, in seconds; may be more than was asked. Does not block. */
ETCDLOCK_API int64_t etcdlock_session_ttl_s(etcdlock_session *session);

/* A file descriptor that polls readable from the moment the session is lost, for event loops. It belongs to
 * the session: do not read from it and do not close it. Returns -1 if there is none to be had. */
ETCDLOCK_API int etcdlock_session_lost_fd(etcdlock_session *session);

#ifdef __cplusplus
}
#endif

#endif
