/* A contender: one place in one queue, from entering to being gone for certain.
 *
 * It has an owner, who waits or holds by it, until it has told the owner how that ended. Whatever may be left
 * in etcd afterwards it removes on its own, as an orphan, before it frees itself: no exit path leaves an
 * entry behind. An entry whose writing may still be under way somewhere, in the buffers of a server that
 * hangs, say, can appear at any time while the lease lives: such a *ghost* is watched for until the session
 * ends, and its name is not used again. */
#ifndef EL_CONTENDER_H
#define EL_CONTENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/commit.h"
#include "core/departure.h"
#include "core/error.h"
#include "core/key.h"
#include "core/list.h"
#include "core/place.h"
#include "core/queue.h"
#include "core/session.h"
#include "core/value.h"

typedef struct el_contender el_contender;

typedef enum el_contender_state {
    EL_CONTENDER_NEW,        /* nothing sent yet */
    EL_CONTENDER_ENTERING,   /* the entering transaction is under way */
    EL_CONTENDER_PEEKING,    /* a try of a lock that was held the last time: is it worth a transaction? */
    EL_CONTENDER_LOOKING,    /* asks who is before us */
    EL_CONTENDER_WAITING,    /* for the predecessor's departure */
    EL_CONTENDER_CONFIRMING, /* the predecessor is gone: looks whether we are first */
    EL_CONTENDER_MARKING,    /* first: writes itself into the lock's marker, before it holds */
    EL_CONTENDER_DELAYED,    /* first, but the last holder died: waits for the end of the delay */
    EL_CONTENDER_HELD,
    EL_CONTENDER_LEAVING, /* the delete is under way, or about to be tried again */
    EL_CONTENDER_GHOST,   /* gone, but a late write could bring it back: watched for */
    EL_CONTENDER_GONE,    /* for certain; freed as soon as nothing of it is with the transport */
} el_contender_state;

typedef enum el_enter_mode {
    EL_ENTER_WAIT, /* take a place and wait for the turn */
    EL_ENTER_TRY,  /* hold at once or not at all */
} el_enter_mode;

/* What the owner is told; with the client's lock held. After `entered` with an error, `lost` and `left` the
 * contender is none of the owner's business any more. */
typedef struct el_contender_owner {
    void (*entered)(void *owner, const el_failure *failure); /* error 0: held */
    void (*lost)(void *owner, const el_failure *failure);    /* while it was held */
    void (*left)(void *owner, const el_failure *failure);    /* the answer to el_contender_leave */
} el_contender_owner;

struct el_contender {
    el_session *session;
    el_client *client;
    el_list link; /* in the session's list */
    el_contender_state state;
    el_enter_mode mode;
    const el_contender_owner *calls;
    void *owner; /* NULL: an orphan */
    el_place place;
    el_commit commit;
    el_departure predecessor;
    el_departure own;    /* our entry, watched too once it has stood for a while */
    el_watcher ghost;    /* our key, while a late write may bring it back */
    el_timer deadline;   /* the owner waits no longer */
    el_timer own_due;    /* begin to watch our own entry */
    el_timer next_leave; /* try again to remove what could not be removed */
    bool has_slot;
    bool is_entry_gone;       /* known: there is nothing to remove */
    bool may_come_late;       /* an entering write is unaccounted for */
    bool try_by_entering;     /* the folder holds keys that are no entries: a try has to enter and look */
    bool may_have_left;       /* an attempt to leave is unaccounted for */
    bool is_check_due;        /* a ghost is to be looked for once more */
    bool is_view_pinned;      /* the look under way was asked of the member that saw the departure */
    bool is_view_whole;       /* and is about all keys of the folder */
    unsigned renames;         /* places that turned out to be taken by somebody else's key */
    unsigned leaves;          /* attempts to remove it that got no answer */
    int64_t min_revision;     /* a look is good from this revision on */
    struct el_guard *guard;   /* NULL: it has made no guarded writes */
    struct el_marker *marker; /* NULL: the lock has none */
    char *predecessor_key;    /* room for any entry's key */
    char *key;
    char *value;
};

/* A new place in the queue for `owner`; the value is taken over (el_alloc'ed), also on failure. 0, ENOMEM, or
 * EAGAIN if the session has no further place in this queue. */
int el_contender_new(el_contender **out, el_queue *queue, char *value, size_t value_size,
                     const el_contender_owner *calls, void *owner);

/* Begins; `entered` follows, never from inside this call. deadline_ns INT64_MAX: none. At the deadline
 * `entered` gets ETIMEDOUT; a try, EUNREACHABLE or EUNKNOWN. */
void el_contender_enter(el_contender *contender, el_enter_mode mode, int64_t deadline_ns);

/* Ends the wait: `entered` is called with the error, from inside this call. */
void el_contender_cancel(el_contender *contender, int error, const char *reason);

/* The owner waits or holds no longer and wants to hear nothing; the entry is removed. */
void el_contender_abandon(el_contender *contender);

/* Releases what is held; `left` follows, with EUNKNOWN if the deadline passes first. */
void el_contender_leave(el_contender *contender, int64_t deadline_ns);

/* The session is over: all its contenders end with `error`. */
void el_contenders_session_over(el_session *session, int error, const char *reason);

#endif
