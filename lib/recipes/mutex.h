/* The mutex: who of a handle's users waits, holds, has lost or is leaving. One implementation, stepped by the
 * contenders' events; the blocking calls (mutex_calls.c) only wait for it. */
#ifndef EL_MUTEX_H
#define EL_MUTEX_H

#include <stdbool.h>
#include <stdint.h>

#include "core/contender.h"
#include "core/error.h"
#include "core/list.h"
#include "core/notifier.h"
#include "core/queue.h"
#include "core/session.h"
#include "etcdlock/mutex.h"

typedef struct el_mutex el_mutex;
typedef struct el_hold el_hold;
typedef void el_hold_function(el_hold *hold, const el_failure *failure);

typedef enum el_hold_state {
    EL_HOLD_WAITING,
    EL_HOLD_HELD,
    EL_HOLD_LOST,    /* was held; waits for the owner's unlock, which will say so */
    EL_HOLD_LEAVING, /* unlock is under way */
} el_hold_state;

/* One lock call, until its unlock. */
struct el_hold {
    el_list link; /* in the mutex's list, in the order of the calls */
    el_mutex *mutex;
    el_hold_state state;
    el_contender *contender; /* NULL once it is out of our hands */
    int64_t thread;
    unsigned depth; /* of recursion */
    uint64_t token;
    const el_failure *lost; /* why, in state LOST; its own, or a constant one where memory ran out */
    el_hold_function *done; /* the end of the wait, or of the unlock; the hold is freed after a failed wait
                               and after each unlock */
    void *user;             /* of whoever waits */
    struct el_lost_notice *notice;
};

struct el_mutex {
    etcdlock_mutex handle; /* of one made by etcdlock_mutex_new */
    etcdlock_mutex *shown; /* the handle that the callback is given */
    el_client *client;
    el_queue *queue; /* and through it the session */
    unsigned flags;
    int64_t lock_delay_ns; /* after a death */
    char *label;           /* NULL: the session's */
    char *name;
    etcdlock_lost_function *on_lost;
    void *on_lost_arg;
    el_list holds;
    el_list notices; /* losses to be told */
    int lost_fd;     /* -1: none yet */
    bool is_fd_set;
    unsigned n_operations; /* calls that wait, and asynchronous ones whose callback has not begun yet */
};

/* The name has been checked. Takes references. With the client's lock held, like all of these. 0 or ENOMEM.
 */
int el_mutex_make(el_mutex **out, el_session *session, const char *name,
                  const etcdlock_mutex_options *options);
/* True while somebody waits or holds, or has lost a hold and not unlocked yet; what was held through a
 * session that its owner has closed does not count. */
bool el_mutex_is_busy(const el_mutex *mutex);

/* Requires that it is not busy. */
void el_mutex_free(el_mutex *mutex);

/* From now on new places are taken through this session. 0 or ENOMEM. */
int el_mutex_rebind(el_mutex *mutex, el_session *session);

/* The hold that a call of this thread is about; NULL if there is none. */
el_hold *el_mutex_hold_of(const el_mutex *mutex, int64_t thread);

/* True as of this instant. */
bool el_hold_is_good(const el_hold *hold);

/* Begins a lock call. 0: *out is under way and done will be called, with *out held or failed; *out NULL:
 * counted as a recursion, held at once. EBUSY (try), EDEADLK, EAGAIN, ENOMEM, ECANCELED, ESESSION: nothing
 * begun. */
int el_mutex_begin(el_mutex *mutex, el_hold **out, int64_t thread, el_enter_mode mode, int64_t deadline_ns,
                   el_hold_function *done, void *user, el_failure *failure);

/* Begins an unlock. 0: done will be called; otherwise the unlock is over with that error (or, *is_over set,
 * with 0 for an inner level of a recursion). */
int el_mutex_begin_unlock(el_mutex *mutex, int64_t thread, el_hold_function *done, void *user, bool *is_over,
                          el_failure *failure);

/* Every wait of this handle ends with ECANCELED. */
void el_mutex_cancel_waits(el_mutex *mutex);

/* ---- for the blocking and the asynchronous calls alike (mutex_calls.c) ---- */

/* Centuries are as good as for ever, and leave room for adding the clock: INT64_MAX then. */
int64_t el_limit_of_ms(int64_t ms);

/* The deadline of a call that is to take no longer than limit_ns (INT64_MAX: for ever). With nothing left, as
 * POSIX has it, *mode becomes a try. */
int64_t el_mutex_deadline(const el_client *client, el_enter_mode *mode, int64_t limit_ns);

/* What a call with a deadline of its own says where another says `error`. */
int el_timed_error(int error);

/* For a robust mutex whose last holder died: fills the failure with EOWNERDEAD. Otherwise leaves it alone. */
void el_hold_tell_death(const el_hold *hold, el_failure *failure);

/* The wait or hold is given up without a word; for a thread that is cancelled. */
void el_hold_abandon(el_hold *hold);

#endif
