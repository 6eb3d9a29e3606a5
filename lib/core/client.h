/* The client: one lock, two lanes with a thread each, the endpoint in use, and all that shares them.
 *
 * Everything below the public functions runs with `lock` held: the public functions take it, and so do the
 * lanes when they deliver completions and fire timers. Without threads (tests) the caller takes turns by hand
 * with el_client_turn. */
#ifndef EL_CLIENT_H
#define EL_CLIENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/auth.h"
#include "core/commit.h"
#include "core/doubt.h"
#include "core/list.h"
#include "core/map.h"
#include "core/notifier.h"
#include "core/timer.h"
#include "core/watch.h"
#include "etcdlock/client.h"
#include "transport/transport.h"

/* Strings are borrowed by el_client_new, which copies them. */
typedef struct el_client_settings {
    int64_t dial_timeout_ns;    /* one attempt at one endpoint */
    int64_t command_timeout_ns; /* a call without a deadline of its own */
    const char *key_prefix;     /* NULL: none */
    const char *user;           /* NULL: no authentication */
    const char *password;
    const char *host; /* for the values of lock keys; NULL: asked of the system */
    etcdlock_log_function *log;
    void *log_arg;
    etcdlock_log_level log_level;
    bool is_threaded;
    unsigned group_max; /* transactions that go out as one; 0: as many as can; 1: each goes alone, at once */
} el_client_settings;

typedef struct el_lane_state {
    etcdlock_client *client;
    el_lane lane;
    el_timers timers;
    int64_t sleeping_until_ns; /* INT64_MIN while awake */
    int64_t last_active_ns;
    pthread_t thread;
    bool is_running;
} el_lane_state;

typedef enum el_client_state {
    EL_CLIENT_OPEN,
    EL_CLIENT_CLOSING, /* sessions are being ended, nothing new is taken */
    EL_CLIENT_CLOSED,  /* the transport is shut down */
} el_client_state;

struct etcdlock_client {
    pthread_mutex_t lock;
    unsigned references; /* the open handle, each session, each thread of work under way */
    unsigned generation; /* of the process that made it */
    el_client_state state;
    el_transport *transport;
    el_lane_state lanes[EL_LANES];
    unsigned endpoint; /* the one in use on the I/O lane */
    int64_t revision;  /* the highest that a linearizable answer has shown */
    unsigned restores; /* how often it has gone back */
    el_doubt doubt;    /* whether it has now */
    el_list sessions;
    el_list rpcs; /* under way */
    el_auth auth;
    el_hub hub;
    el_gathering gathering;
    el_notifier notifier;
    pthread_cond_t quiet; /* signalled when a session has ended */
    unsigned dropped_messages;
    unsigned queued_messages;

    int64_t dial_timeout_ns;
    int64_t command_timeout_ns;
    char *key_prefix;
    char *user;
    char *password;
    char *host;
    etcdlock_log_function *log;
    void *log_arg;
    etcdlock_log_level log_level;
    void *owner; /* what the public layer hangs on to it */
    void (*free_owner)(void *owner);
};

typedef struct etcdlock_client el_client;

/* Takes over the transport, also on failure. 0, ENOMEM, or EAGAIN if a thread cannot be started. */
int el_client_new(el_client **out, el_transport *transport, const el_client_settings *settings);

/* Ends all sessions (their waiters get ECANCELED), waits for their leases to be revoked but not longer than
 * the command timeout, shuts the transport down and joins the threads. Called without the lock.
 * 0 or ETCDLOCK_EUNKNOWN. */
int el_client_close(el_client *client);

/* 0 with the lock taken, or ETCDLOCK_EFORKED. Until it leaves the thread cannot be cancelled: gRPC is C++
 * that makes system calls, and a cancellation in one of them would end the process. */
int el_client_enter(el_client *client);
/* Releases the lock, and frees the client if the last reference is gone. */
void el_client_leave(el_client *client);
/* The cancel state that the thread had before it entered, for a wait that may be cancelled. */
int el_client_cancel_state(void);

int64_t el_now(const el_client *client);
uint64_t el_random(const el_client *client);

void el_client_timer_set(el_client *client, el_lane lane, el_timer *timer, int64_t due_ns);
void el_client_timer_clear(el_client *client, el_lane lane, el_timer *timer);

/* Leaves the endpoint, if it is the one in use, for the next one. */
void el_client_leave_endpoint(el_client *client, unsigned endpoint, const char *reason);

/* A linearizable answer to a request that was sent when `known_revision` had been seen, after so many
 * `restores`, shows `revision`. If it is lower, etcd was restored from a snapshot: what the sessions hold may
 * be held by others too, so they all end. */
void el_client_take_revision(el_client *client, unsigned restores, int64_t known_revision, int64_t revision);

/* Fires what is due on one lane and delivers one completion, for which it waits, if may_wait, until the next
 * timer. Returns whether it delivered one; *ended is set once the transport is shut down and the lane is
 * empty. For threads and tests alike; called without the lock. */
bool el_client_turn(el_client *client, el_lane lane, bool may_wait, bool *ended);

/* Fires what is due on a lane that has ended; its thread is gone. With the lock held. */
void el_client_fire_rest(el_client *client, el_lane lane);

/* When the lane's next timer is due. */
int64_t el_client_next_ns(el_client *client, el_lane lane);

#endif
