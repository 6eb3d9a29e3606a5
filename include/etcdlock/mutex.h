/* A mutex: one holder at a time among all processes that use the same etcd cluster, prefix and name.
 *
 * Each lock call enters a queue in etcd, in the order in which etcd received them, and waits for its turn;
 * `etcdctl lock NAME` and Go's concurrency.Mutex stand in the same queue under the same name.
 *
 * The calls follow pthread_mutex_t: 0 or an error number, errno untouched. One handle may be shared by any
 * number of threads; each lock call takes its own place in the queue, so threads exclude each other like
 * processes do. What pthreads cannot have: a lock can be *lost*, when etcd cannot be reached for the time to
 * live of the session, when an operator removes it, or when the process was stopped for too long. Then
 * unlock says so, the callback is called, the descriptor becomes readable, and `ensure` fails. Look at every
 * result.
 *
 * Names: 1 to 1,024 bytes, any but NUL; no leading or trailing '/', no "//". "a" and "a/b" are separate. */
#ifndef ETCDLOCK_MUTEX_H
#define ETCDLOCK_MUTEX_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "etcdlock/export.h"
#include "etcdlock/session.h"

#ifdef __cplusplus
extern "C" {
#endif

struct timespec; /* strict C99 does not have it in <time.h> */

/* Made by etcdlock_mutex_new, or declared with one of the static initialisers below (the drop-in form). Its
 * fields are the library's own; the struct is complete only so that it can be initialised statically, as
 * pthread_mutex_t is. A copy of one is not a mutex. */
typedef struct etcdlock_mutex {
    const char *static_name;
    unsigned static_flags;
    void *state;
    void *reserved[2];
} etcdlock_mutex;

typedef etcdlock_mutex etcdlock_mutex_t;

enum {
    /* The owning thread may lock again, and unlocks as often as it locked. Without it: EDEADLK. */
    ETCDLOCK_RECURSIVE = 1u << 0,
    /* The handle owns the lock, not a thread: any thread may unlock. Not together with RECURSIVE. */
    ETCDLOCK_HANDLE_OWNED = 1u << 1,
    /* The next holder is told, by EOWNERDEAD, when its predecessor died. See "when a holder dies" below. */
    ETCDLOCK_ROBUST = 1u << 2,
};

/* Called on the client's callback thread when a held lock was lost: error is ETCDLOCK_ESESSION or
 * ETCDLOCK_EENTRY, token that of the lost hold. It may call anything of the library but
 * etcdlock_client_close. */
typedef void etcdlock_lost_function(etcdlock_mutex *mutex, int error, uint64_t token, void *arg);

typedef struct etcdlock_mutex_options {
    size_t size;
    unsigned flags;    /* ETCDLOCK_RECURSIVE, ETCDLOCK_HANDLE_OWNED, ETCDLOCK_ROBUST */
    const char *label; /* for people, in the key's value; NULL: the session's */
    etcdlock_lost_function *on_lost;
    void *on_lost_arg;
    int64_t lock_delay_ms; /* so long nobody holds after a death; 0 (the default) to 3600000 */
} etcdlock_mutex_options;

#define ETCDLOCK_MUTEX_OPTIONS_INIT ETCDLOCK_SIZED(etcdlock_mutex_options)

/* Makes a handle for the mutex `name` through a session. options may be NULL. Asks nothing of etcd and does
 * not block. On failure *out is set to NULL. Destroy it with etcdlock_mutex_destroy.
 * EINVAL: a refused name, unknown or contradicting flags, a label over 256 bytes, a delay out of its range;
 * ENOMEM; ECANCELED: the session is closed; ETCDLOCK_EFORKED. */
ETCDLOCK_API int etcdlock_mutex_new(etcdlock_mutex **out, etcdlock_session *session, const char *name,
                                    const etcdlock_mutex_options *options) ETCDLOCK_CHECK_RESULT;

/* Frees what the handle uses. Blocks only while a callback of this handle is running in another thread, until
 * it has returned; so do not hold a lock of your own here that such a callback takes. NULL is allowed.
 * EBUSY: it is locked or waited on, nothing was done (a lock that was lost counts as locked until it was
 * unlocked, unless its session was closed by its owner; so does that of a thread that has ended);
 * ETCDLOCK_EFORKED: nothing was done. */
ETCDLOCK_API int etcdlock_mutex_destroy(etcdlock_mutex *mutex);

/* Locks: waits in the queue until it is this call's turn.
 * Blocks without limit while etcd answers and others are before us, at most the session's time to live when
 * etcd does not answer. It is a cancellation point (pthread_cancel): a cancelled call leaves the queue.
 * On any failure but EOWNERDEAD nothing is held, and the place in the queue is given up, at once or as soon
 * as etcd can be reached again. EDEADLK: this thread holds it already (not with RECURSIVE or HANDLE_OWNED);
 * EAGAIN: recursion or place limit; EOWNERDEAD (ROBUST only): the lock is held, but its last holder died;
 * ECANCELED: by etcdlock_mutex_cancel, or the session or client was closed; ETCDLOCK_ESESSION: the session is
 * lost, open a new one; ETCDLOCK_EENTRY: somebody deleted our entry; EACCES: etcd denies access to the key,
 * or accepts the user or the password no longer (waiters are told within seconds); ENOSPC: etcd is out of
 * space; EINVAL: NULL; ENOMEM; ETCDLOCK_EPROTOCOL; ETCDLOCK_EFORKED. */
ETCDLOCK_API int etcdlock_mutex_lock(etcdlock_mutex *mutex) ETCDLOCK_CHECK_RESULT;

/* Locks if nobody holds the mutex or waits for it. A held mutex costs one round trip and no write.
 * Blocks at most command_timeout_ms. Errors as lock, and EBUSY: somebody holds it or waits for it (also the
 * calling thread itself, unless RECURSIVE); ETCDLOCK_EUNREACHABLE: nobody answered; ETCDLOCK_EUNKNOWN: no
 * answer to the try, the place it may have taken is given up in the background. */
ETCDLOCK_API int etcdlock_mutex_trylock(etcdlock_mutex *mutex) ETCDLOCK_CHECK_RESULT;

/* Locks, but waits no longer than to the given point in time: of CLOCK_REALTIME for timedlock (as
 * pthread_mutex_timedlock), of CLOCK_REALTIME, CLOCK_MONOTONIC or CLOCK_BOOTTIME for clocklock, or the given
 * number of milliseconds from now for lock_for (negative: as 0). The point is turned into a duration once, at
 * the call: a clock that is set meanwhile changes nothing. As POSIX has it, a deadline that has passed still
 * lets a free mutex be locked, with one try that etcd may take up to command_timeout_ms to answer.
 * Errors as lock, and ETIMEDOUT: the deadline passed; nothing is held, and the entry is gone or is being
 * removed; EINVAL: nanoseconds out of range, or an unknown clock. */
ETCDLOCK_API int etcdlock_mutex_timedlock(etcdlock_mutex *mutex,
                                          const struct timespec *abs_realtime) ETCDLOCK_CHECK_RESULT;
ETCDLOCK_API int etcdlock_mutex_clocklock(etcdlock_mutex *mutex, clockid_t clock,
                                          const struct timespec *abs_time) ETCDLOCK_CHECK_RESULT;
ETCDLOCK_API int etcdlock_mutex_lock_for(etcdlock_mutex *mutex, int64_t ms) ETCDLOCK_CHECK_RESULT;

/* Unlocks: deletes our entry, if it is still the one we hold by.
 * Blocks until etcd has answered, at most command_timeout_ms. Whatever it returns but EPERM and EINVAL, the
 * handle no longer holds the lock afterwards.
 * EPERM: not held by the calling thread (HANDLE_OWNED: by the handle); ETCDLOCK_ESESSION, ETCDLOCK_EENTRY:
 * the lock had been lost before, others may have been in; ETCDLOCK_EUNKNOWN: no answer in time, the entry is
 * removed in the background, as after ENOMEM and ETCDLOCK_EPROTOCOL; EACCES: etcd denies the removal, which
 * is tried again until nothing else is held through the session: then that is given up, and the entry goes
 * with it; ECANCELED: the session or client was closed; EINVAL: NULL; ETCDLOCK_EFORKED.
 * With HANDLE_OWNED, if a hold was lost and a later one granted, the first unlock is taken for the lost one.
 */
ETCDLOCK_API int etcdlock_mutex_unlock(etcdlock_mutex *mutex);

/* Makes every lock call that waits on this handle now return ECANCELED. A hold is not touched. Does not
 * block. EINVAL: NULL; ETCDLOCK_EFORKED. */
ETCDLOCK_API int etcdlock_mutex_cancel(etcdlock_mutex *mutex);

/* The fencing token of the hold: of the calling thread, or of the handle with HANDLE_OWNED. 0 if not held,
 * also from the instant it is lost. Tokens of one mutex rise strictly from holder to holder: pass it along
 * with every write to the protected resource, and let the resource refuse any token lower than the highest it
 * has seen. It is the create_revision (and mod_revision) of the key in etcd. Does not block. */
ETCDLOCK_API uint64_t etcdlock_mutex_token(const etcdlock_mutex *mutex);

/* Says 0 only if the lock is held by the caller and stays so for at least min_ms more, unless an operator
 * removes it: to be asked before each step of critical work, with the length of that step. If less is left,
 * it renews the session first. Blocks only in that case, at most for what is left, or command_timeout_ms.
 * EPERM: not held; ETCDLOCK_ESESSION, ETCDLOCK_EENTRY: lost; ECANCELED: the session or client was closed;
 * ETIMEDOUT: held, but the renewal did not come through and less than min_ms is left; EINVAL: NULL, negative,
 * or more than the session can ever have left (time to live minus margin); ETCDLOCK_EFORKED. */
ETCDLOCK_API int etcdlock_mutex_ensure(etcdlock_mutex *mutex, int64_t min_ms) ETCDLOCK_CHECK_RESULT;

/* Milliseconds for which the caller's hold is good without a further renewal; 0 if not held or lost. Does not
 * block. */
ETCDLOCK_API int64_t etcdlock_mutex_remaining_ms(const etcdlock_mutex *mutex);

/* The etcd key of the caller's hold, for guarding a transaction by hand (compare its create_revision with the
 * token). Copies at most size bytes with a final NUL; names with any byte but NUL are copied as they are.
 * EPERM: not held; ERANGE: size is too small; EINVAL. Does not block. */
ETCDLOCK_API int etcdlock_mutex_key(const etcdlock_mutex *mutex, char *buffer, size_t size);

/* A file descriptor that polls readable while a hold of this handle has been lost and not yet been unlocked,
 * for event loops. It belongs to the handle: do not read from it and do not close it. Returns -1 if there is
 * none to be had. Does not block. */
ETCDLOCK_API int etcdlock_mutex_lost_fd(etcdlock_mutex *mutex);

/* ---- when a holder dies --------------------------------------------------------------------------------
 *
 * A holder dies when its entry goes without an unlock: its process crashed, its session was lost or was
 * closed under it, an operator removed it. What the lock protects may be half done then.
 *
 * With ETCDLOCK_ROBUST the next lock call, of whatever kind and process, returns EOWNERDEAD: it holds the
 * lock, and must unlock it. It repairs what is protected, calls etcdlock_mutex_consistent, and goes on. As
 * long as nobody has said so, every holder is told anew, by EOWNERDEAD with the first one that died. (POSIX
 * makes a mutex unusable for ever, ENOTRECOVERABLE, when it is unlocked unrepaired. For a lock that outlives
 * every process that would be a trap.)
 *
 * With lock_delay_ms the next one holds only when so much time has passed since it was first in the queue and
 * noticed the death: time for writes of the dead one that are still on their way, to a resource that cannot
 * look at tokens. Until then lock waits, at the head of the queue, and can time out or be cancelled as ever;
 * trylock says EBUSY, and the time counts on for the next try through the same session. After an unlock there
 * is no delay.
 *
 * For this the holder leaves a mark in etcd, the key `NAME.robust`, when it comes to hold, and removes it in
 * the transaction that unlocks: one round trip more per lock call. The key has no lease; it stays when a
 * death has not been repaired, and is then all that is left of it. Where etcd has users, they need the right
 * to read and write it, beside those for `NAME/`. All that use the lock must use the same flag and delay:
 * holders without (other handles, the drop-in form, etcdctl, Go) make no mark, so that their deaths go
 * unnoticed, and leave one that stands, so that a death may be told late. */

/* Who died. Strings are "" and numbers 0 where that is not known. */
typedef struct etcdlock_owner {
    uint64_t token; /* by which it held */
    const char *host;
    const char *program;
    const char *label;
    const char *acquisition; /* random id of that one hold */
    int64_t pid;
    int64_t thread;
    int64_t since_unix_ms; /* when it asked for the lock, by its own clock */
} etcdlock_owner;

/* Says that what the lock protects is well again: the next holder hears nothing of the death. It writes that
 * to etcd, so that a death before the unlock is told as one of its own. Blocks at most command_timeout_ms.
 * EINVAL: NULL, not ROBUST, or the caller was not told EOWNERDEAD, or has said so already; EPERM: not held by
 * the caller; ETCDLOCK_ESESSION, ETCDLOCK_EENTRY: lost; ETCDLOCK_EUNKNOWN, ETCDLOCK_EUNREACHABLE: no answer,
 * call it again; ECANCELED; EACCES; ENOSPC; ENOMEM; ETCDLOCK_EPROTOCOL; ETCDLOCK_EFORKED. On failure the
 * death counts as not repaired. */
ETCDLOCK_API int etcdlock_mutex_consistent(etcdlock_mutex *mutex) ETCDLOCK_CHECK_RESULT;

/* Of whose death the caller was told by EOWNERDEAD; until it unlocks. Does not block. Free it with
 * etcdlock_owner_free. On failure *out is NULL. ENOENT: of none; EPERM: not held by the caller; EINVAL: NULL;
 * ENOMEM; ETCDLOCK_EFORKED. */
ETCDLOCK_API int etcdlock_mutex_dead_owner(const etcdlock_mutex *mutex,
                                           etcdlock_owner **out) ETCDLOCK_CHECK_RESULT;

/* NULL is allowed. */
ETCDLOCK_API void etcdlock_owner_free(etcdlock_owner *owner);

/* ---- the drop-in form ---------------------------------------------------------------------------------
 *
 * For programs written with pthread_mutex_t: replace the prefix `pthread_mutex_` by `etcdlock_mutex_` and
 * name the lock in its initialiser. The first call opens one client and one session for the whole process,
 * from the environment (ETCDCTL_ENDPOINTS and so on, ETCDLOCK_TTL), and a new session when the old one was
 * lost; at normal exit the session is closed. Where a session has to be opened, a call takes up to
 * command_timeout_ms longer, whatever its own deadline. All functions above take such a mutex. A child that
 * is forked before that opens a client of its own; one that is forked later gets ETCDLOCK_EFORKED, and does
 * not hold what the parent holds. With ETCDLOCK_ON_ERROR=abort in the environment a lock or unlock that fails
 * where a pthread program expects no failure (anything but EBUSY, ETIMEDOUT, EDEADLK, EPERM,
 * ECANCELED; a mistake in the environment counts) prints why and aborts, so that code that ignores results
 * cannot run on without the lock. */
#define ETCDLOCK_MUTEX_INITIALIZER(name)                                                                     \
    {                                                                                                        \
        name, 0, 0,                                                                                          \
        {                                                                                                    \
            0, 0                                                                                             \
        }                                                                                                    \
    }
#define ETCDLOCK_RECURSIVE_MUTEX_INITIALIZER(name)                                                           \
    {                                                                                                        \
        name, ETCDLOCK_RECURSIVE, 0,                                                                         \
        {                                                                                                    \
            0, 0                                                                                             \
        }                                                                                                    \
    }

/* As pthread_mutex_init, for a mutex that cannot be initialised statically: name is copied. Destroy it with
 * etcdlock_mutex_destroy. EINVAL: NULL or a refused name; ENOMEM. Does not block, asks nothing of etcd. */
ETCDLOCK_API int etcdlock_mutex_init(etcdlock_mutex_t *mutex, const char *name) ETCDLOCK_CHECK_RESULT;

#ifdef __cplusplus
}
#endif

#endif
