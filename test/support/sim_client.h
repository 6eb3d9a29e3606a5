/* One client of the simulator as its transport and the network see it: lanes, calls and watch streams. */
#ifndef SIM_CLIENT_H
#define SIM_CLIENT_H

#include "support/sim_cluster.h"

struct sim_call {
    sim_event deadline;
    sim_client *client;
    el_call *face;
    sim_op *op; /* NULL: lost on its way */
    sim_call *next, *previous;
};

typedef enum sim_completion_kind {
    SIM_CALL_DONE,
    SIM_WATCH_MESSAGE,
    SIM_WATCH_CLOSED,
} sim_completion_kind;

struct el_completion {
    struct el_completion *next;
    sim_completion_kind kind;
    el_lane lane;
    el_call *call;
    el_watch_stream *stream;
    el_status status;
    el_answer answer;
    el_watch_message message;
    sim_arena arena; /* answer and message point into it */
};

typedef struct sim_lane {
    el_completion *first, **last;
    size_t alive; /* calls and streams whose end has not been delivered */
    bool woken;
    pthread_cond_t changed; /* realtime only */
    sim_event timer;        /* of sim_wake_at */
} sim_lane;

struct sim_client {
    el_transport table;
    sim *sim;
    sim_client *next;
    sim_lane lanes[EL_LANES];
    sim_link links[SIM_MEMBERS_MAX];
    sim_call *calls;
    sim_stream *streams;
    int64_t frozen_until_ns;
    sim_event thaw;
    bool shut_down, gone;
    long calls_made;
    long fail_after; /* negative: never */
    el_code fail_code;
    bool fail_served;
};

/* What travels on a watch stream. */
typedef enum sim_wire_kind {
    SIM_WIRE_OPEN,
    SIM_WIRE_CREATE,
    SIM_WIRE_CANCEL,
    SIM_WIRE_CLOSE,
    SIM_WIRE_MESSAGE, /* to the client, as the next */
    SIM_WIRE_CLOSED,
} sim_wire_kind;

typedef struct sim_wire {
    sim_event event; /* its arrival */
    sim_stream *stream;
    struct sim_wire *next; /* while held */
    sim_wire_kind kind;
    int64_t watch_id, start_revision;
    bool deletes_only;
    el_span key;
    el_watch_message message;
    sim_verdict verdict;
    sim_arena arena;
} sim_wire;

/* The messages of one direction of a stream, which never overtake each other. */
typedef struct sim_pipe {
    int64_t last_ns;         /* arrival of the newest */
    sim_wire *first, **last; /* arrived, but the way is blocked */
} sim_pipe;

struct sim_stream {
    sim *sim;
    sim_client *client;
    el_watch_stream *face; /* NULL: over on the client's side */
    unsigned endpoint;
    el_lane lane;
    unsigned references; /* client, member, and each message under way */
    bool served;         /* open on the member's side */
    el_span token;
    sim_pipe up, down;
    sim_event watchdog;                              /* the client's unanswered HTTP/2 ping */
    sim_stream *next, *previous;                     /* of the client */
    sim_stream *next_of_member, *previous_of_member; /* while served */
};

/* ---- sim_transport.c -------------------------------------------------------------------------------------
 */

/* Ends a call on the client's side. With an op the answer comes from it, and it is freed. */
void sim_call_finish(sim_call *call, const el_status *status, sim_op *op);
void sim_complete(sim_client *client, el_completion *completion);

/* ---- sim_stream.c ------------------------------------------------------------------------------------- */

void sim_stream_open(sim_client *client, el_watch_stream *face);
void sim_stream_send(sim_stream *stream, sim_wire_kind kind, int64_t watch_id, el_span key,
                     int64_t start_revision, bool deletes_only); /* client to member */
void sim_stream_tell(sim_stream *stream, const el_watch_message *message,
                     sim_arena *arena);                     /* takes the arena */
void sim_stream_end(sim_stream *stream, sim_verdict why);   /* the member ends it */
void sim_stream_break(sim_stream *stream, sim_verdict why); /* the connection is gone */
void sim_stream_close(sim_stream *stream);                  /* the client ends it */
void sim_stream_unblock(sim_stream *stream); /* link or member may have changed: blocked messages go on */

#endif
