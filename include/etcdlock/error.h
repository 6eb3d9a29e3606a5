/* What the functions of libetcdlock return when they fail, and how to tell a person about it.
 *
 * The model is POSIX threads: a function returns 0 or a positive error number and leaves errno alone. Where
 * an errno fits, it is used (EBUSY, ETIMEDOUT, EINVAL, ...); the numbers below are for what POSIX has no
 * word for. They start above every errno. */
#ifndef ETCDLOCK_ERROR_H
#define ETCDLOCK_ERROR_H

#include "etcdlock/export.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /* The session is over: etcd has let its lease expire or somebody revoked it, or the library could not
     * renew it in time, so that it may have expired. Whatever was held through it is held no longer. */
    ETCDLOCK_ESESSION = 20001,
    /* The lock's key was deleted by somebody else, as an operator does to break a lock: while the session is
     * fine, or by way of its lease, if the deletion was heard of first; then the next call says ESESSION.
     * What was held is held no longer. */
    ETCDLOCK_EENTRY = 20002,
    /* The request may have reached etcd or not, and time ran out before that could be learned. What might be
     * left in etcd is cleaned up in the background. */
    ETCDLOCK_EUNKNOWN = 20003,
    /* No endpoint gave an answer in time: nobody listens, no route, not etcd, no leader. Nothing happened. */
    ETCDLOCK_EUNREACHABLE = 20004,
    /* The handle was made before fork() by the parent process; a child must open its own. */
    ETCDLOCK_EFORKED = 20005,
    /* The lock of that name is in use as another kind of lock. Reserved: there is one kind so far. */
    ETCDLOCK_EKIND = 20006,
    /* An answer could not be understood. */
    ETCDLOCK_EPROTOCOL = 20007,
};

/* A short text for an error number of this library or of the system ("the session is lost").
 * Never NULL; the text is constant for numbers of this library, and for errno numbers lives until the same
 * thread calls this again. Does not block. */
ETCDLOCK_API const char *etcdlock_strerror(int error);

/* What the last failed call of this thread was about: what failed, where, and what to do about it; "" if
 * none failed yet. A successful call leaves it alone, as errno is left. Valid until the next failing call
 * of this thread. Does not block. */
ETCDLOCK_API const char *etcdlock_error_message(void);

#ifdef __cplusplus
}
#endif

#endif
