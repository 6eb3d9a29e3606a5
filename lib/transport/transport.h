/* The one table of functions through which the library reaches etcd, the clock and randomness.
 *
 * It speaks etcd's verbs in plain C structs. Behind it stand the gRPC transport and, in tests, a simulated
 * etcd; everything above it is state machines that run the same over either.
 *
 * Threads and locks. Every function of the table except `next` is called with the client's lock held and
 * must not block. `next` is called without it, by one thread per lane. Results never come as a return
 * value: `next` hands out completions, and the caller passes each to `deliver`, again under the client's
 * lock, which calls the callback stored in the call or the watch stream. A callback is thus never run from
 * inside `call`, `cancel` or a `watch_*` function, and never by two threads at once.
 *
 * Memory. A request is read before `call` returns. What an answer or a watch message points to lives until
 * the callback returns. */
#ifndef EL_TRANSPORT_H
#define EL_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that somebody else owns; keys and values may hold any byte. */
typedef struct el_span {
    const char *data;
    size_t size;
} el_span;

/* ---- requests -------------------------------------------------------------------------------------- */

typedef enum el_compare_target {
    EL_TARGET_VERSION,
    EL_TARGET_CREATE_REVISION,
    EL_TARGET_MOD_REVISION,
    EL_TARGET_VALUE,
    EL_TARGET_LEASE,
} el_compare_target;

typedef enum el_compare_relation {
    EL_EQUAL,
    EL_GREATER,
    EL_LESS,
    EL_NOT_EQUAL,
} el_compare_relation;

/* True if every key in the range stands in the relation to the operand. As etcd has it: over an empty range
 * (range_end set) it is true; a single key (no range_end) that is absent compares as version 0, revisions 0,
 * lease 0, and a value comparison of it is false. */
typedef struct el_compare {
    el_compare_target target;
    el_compare_relation relation;
    el_span key;
    el_span range_end; /* empty: the one key */
    int64_t number;    /* operand of every target but VALUE */
    el_span value;     /* operand of VALUE */
} el_compare;

typedef enum el_sort_target {
    EL_SORT_NONE, /* key order, ascending */
    EL_SORT_CREATE_ASCENDING,
    EL_SORT_CREATE_DESCENDING,
} el_sort_target;

typedef struct el_range_request {
    el_span key;
    el_span range_end;           /* empty: the one key; "\0": all keys >= key */
    int64_t limit;               /* 0: no limit; the answer's count is the whole count all the same */
    int64_t max_create_revision; /* 0: no bound; otherwise keys created later are left out of kvs (not of
                                    count) */
    el_sort_target sort;
    bool serializable; /* answer from the member asked, which may lag; false: linearizable */
    bool keys_only;
    bool count_only;
} el_range_request;

typedef struct el_put_request {
    el_span key;
    el_span value;
    int64_t lease; /* 0: none */
} el_put_request;

typedef struct el_delete_request {
    el_span key;
    el_span range_end; /* empty: the one key */
} el_delete_request;

struct el_txn_request;

typedef enum el_op_kind {
    EL_OP_RANGE,
    EL_OP_PUT,
    EL_OP_DELETE,
    EL_OP_TXN,
} el_op_kind;

typedef struct el_op {
    el_op_kind kind;
    union {
        el_range_request range;
        el_put_request put;
        el_delete_request del;
        const struct el_txn_request *txn; /* nested; sees the puts of the operations before it */
    };
} el_op;

/* If all compares hold then the success operations, else the failure operations, atomically at one revision.
 * With only serializable ranges in it, it is answered by the member asked. */
typedef struct el_txn_request {
    const el_compare *compares;
    size_t n_compares;
    const el_op *success;
    size_t n_success;
    const el_op *failure;
    size_t n_failure;
} el_txn_request;

typedef enum el_verb {
    EL_TXN,
    EL_RANGE,
    EL_LEASE_GRANT,
    EL_LEASE_REVOKE,
    EL_LEASE_KEEPALIVE, /* one renewal: a stream opened, one message each way, closed */
    EL_LEASE_TIME_TO_LIVE,
    EL_AUTHENTICATE,
    EL_STATUS, /* of the member asked */
} el_verb;

typedef struct el_request {
    el_verb verb;
    union {
        el_txn_request txn;
        el_range_request range;
        struct {
            int64_t id;    /* 0: time_to_live and friends refuse it; a grant lets the server choose */
            int64_t ttl_s; /* grant only */
        } lease;           /* grant, revoke, keepalive, time to live */
        struct {
            el_span user;
            el_span password;
        } authenticate;
    };
} el_request;

/* ---- answers --------------------------------------------------------------------------------------- */

typedef struct el_key_value {
    el_span key;
    el_span value;
    int64_t create_revision;
    int64_t mod_revision;
    int64_t version;
    int64_t lease;
} el_key_value;

typedef struct el_range_answer {
    const el_key_value *kvs;
    size_t n_kvs;
    int64_t count; /* keys in the range, whatever the limit */
    bool more;
} el_range_answer;

struct el_txn_answer;

typedef struct el_op_answer {
    el_op_kind kind;
    union {
        el_range_answer range;
        int64_t deleted;                 /* EL_OP_DELETE: number of keys */
        const struct el_txn_answer *txn; /* EL_OP_TXN */
    };
} el_op_answer;

typedef struct el_txn_answer {
    bool succeeded;
    const el_op_answer *answers; /* one per operation of the branch taken, in order */
    size_t n_answers;
} el_txn_answer;

typedef struct el_answer {
    el_verb verb;
    int64_t revision; /* of the store at the member that answered, from the header; 0 if there was none */
    union {
        el_txn_answer txn;
        el_range_answer range;
        struct {
            int64_t id;
            int64_t ttl_s; /* granted, or left; keepalive of a dead lease: 0; time to live of one: -1 */
            int64_t granted_ttl_s; /* time to live only */
        } lease;
        el_span token; /* authenticate */
        struct {
            uint64_t member_id;
            uint64_t leader_id; /* 0: this member knows none */
            bool is_learner;
            int64_t db_size;
            el_span version;
        } status;
    };
} el_answer;

/* gRPC's status numbers, which etcd's documents use. */
typedef enum el_code {
    EL_OK = 0,
    EL_CANCELLED = 1,
    EL_UNKNOWN = 2,
    EL_INVALID_ARGUMENT = 3,
    EL_DEADLINE_EXCEEDED = 4,
    EL_NOT_FOUND = 5,
    EL_ALREADY_EXISTS = 6,
    EL_PERMISSION_DENIED = 7,
    EL_RESOURCE_EXHAUSTED = 8,
    EL_FAILED_PRECONDITION = 9,
    EL_ABORTED = 10,
    EL_OUT_OF_RANGE = 11,
    EL_UNIMPLEMENTED = 12,
    EL_INTERNAL = 13,
    EL_UNAVAILABLE = 14,
    EL_DATA_LOSS = 15,
    EL_UNAUTHENTICATED = 16,
} el_code;

typedef struct el_status {
    el_code code;
    const char *message; /* never NULL; lives as long as the callback runs */
    bool not_sent;       /* certain: the request never left this process; false when in doubt */
    bool malformed;      /* an answer came and could not be decoded (code is EL_INTERNAL then) */
    bool local_memory;   /* memory ran out on this side (code is EL_RESOURCE_EXHAUSTED then) */
} el_status;

/* ---- calls ----------------------------------------------------------------------------------------- */

/* Each lane has its own connections and its own thread, so that no bulk on one delays the other. */
typedef enum el_lane {
    EL_LANE_IO,
    EL_LANE_KEEPALIVE,
    EL_LANES,
} el_lane;

typedef struct el_call el_call;

/* One attempt of one request at one endpoint. The caller owns the struct and keeps it in place from `call`
 * until `done` has been called, which happens exactly once, also after `cancel` and `shutdown`; inside
 * `done` the call is over already, so the struct may be reused or freed there. */
struct el_call {
    el_lane lane;
    unsigned endpoint;   /* index into the configured endpoints */
    int64_t deadline_ns; /* absolute, on the transport's own clock; never infinite */
    el_span token;       /* auth token for this call; empty: none */
    void (*done)(el_call *call, const el_status *status,
                 const el_answer *answer); /* answer: only with EL_OK */
    void *impl;                            /* the transport's own */
};

/* ---- watches --------------------------------------------------------------------------------------- */

typedef struct el_watch_event {
    bool deleted;    /* a DELETE; otherwise a PUT */
    el_key_value kv; /* of a DELETE only key and mod_revision (the revision of the delete) count */
} el_watch_event;

typedef struct el_watch_message {
    int64_t watch_id;
    int64_t revision; /* the member's store revision; with `created`: events from revision + 1 on follow */
    bool created;     /* the watch is in place, unless `canceled` is set too: then it was refused */
    bool canceled;    /* the server ended this watch, the stream lives on */
    int64_t compact_revision; /* not 0: the start revision had been compacted */
    const char *reason;       /* of a cancel; never NULL */
    const el_watch_event *events;
    size_t n_events;
} el_watch_message;

typedef struct el_watch_stream el_watch_stream;

/* One multiplexed stream of watches at one endpoint, opened with the metadata `hasleader: true`. The caller
 * owns the struct and keeps it in place from `watch_open` until `closed`, which is called exactly once. */
struct el_watch_stream {
    el_lane lane;
    unsigned endpoint;
    el_span token;
    void (*message)(el_watch_stream *stream, const el_watch_message *message);
    void (*closed)(el_watch_stream *stream, const el_status *status); /* the stream is over, OK or not */
    void *impl;
};

/* ---- the table ------------------------------------------------------------------------------------- */

typedef struct el_transport el_transport;
typedef struct el_completion el_completion;

struct el_transport {
    unsigned n_endpoints; /* at least 1 */

    /* Nanoseconds of a clock that never steps and goes on in suspend (CLOCK_BOOTTIME). May be called by any
     * thread, with or without the lock. */
    int64_t (*now_ns)(el_transport *t);

    /* 64 random bits, from the system's generator; safe to call as `now_ns`. */
    uint64_t (*random)(el_transport *t);

    /* Starts the attempt. A failure to start, too, arrives by way of `done`. */
    void (*call)(el_transport *t, el_call *call, const el_request *request);

    /* Asks for an early end; `done` follows, with EL_CANCELLED or with whatever came first. */
    void (*cancel)(el_transport *t, el_call *call);

    /* Opens the stream; messages may be sent at once. A failure arrives by way of `closed`. */
    void (*watch_open)(el_transport *t, el_watch_stream *stream);

    /* Adds a watch on one key under a caller-chosen id > 0, unique in its stream. start_revision 0: from now
     * on. deletes_only: nothing is heard of PUTs. */
    void (*watch_create)(el_transport *t, el_watch_stream *stream, int64_t watch_id, el_span key,
                         int64_t start_revision, bool deletes_only);

    /* Removes a watch; messages for its id may still arrive until the server has heard of it, the last with
     * `canceled` set. */
    void (*watch_cancel)(el_transport *t, el_watch_stream *stream, int64_t watch_id);

    /* Ends the stream; `closed` follows. */
    void (*watch_close)(el_transport *t, el_watch_stream *stream);

    /* Waits until a completion of the lane is there, `wake` was called, or the clock reaches deadline_ns
     * (INT64_MAX: never). Returns the completion or NULL. With deadline_ns <= now it only looks. After
     * `shutdown`, and once all calls and streams of the lane are over and delivered, it sets *ended. Called
     * without the client's lock, by one thread per lane. */
    el_completion *(*next)(el_transport *t, el_lane lane, int64_t deadline_ns, bool *ended);

    /* Runs the callbacks of a completion and frees it. */
    void (*deliver)(el_transport *t, el_completion *completion);

    /* Makes a `next` of that lane that waits, or else the following one, return. */
    void (*wake)(el_transport *t, el_lane lane);

    /* Cancels every call and stream, of all lanes; what is started afterwards ends with EL_CANCELLED. */
    void (*shutdown)(el_transport *t);

    /* Frees everything. Requires that `next` said *ended for every lane. Called without the lock. */
    void (*free)(el_transport *t);
};

#endif
