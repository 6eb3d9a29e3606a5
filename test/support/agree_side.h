/* One side of a comparison between two transports: asks one thing at a time and writes down what comes back,
 * revisions counted from the start, so that two sides agree if their texts are equal. */
#ifndef AGREE_SIDE_H
#define AGREE_SIDE_H

#include "support/sim.h"

#define AGREE_WATCHES 64

/* A text that grows. */
typedef struct agree_text {
    char *chars; /* NULL as long as it is empty */
    size_t used, capacity;
} agree_text;

typedef struct agree_side {
    el_transport *transport;
    sim *sim; /* NULL: a real etcd */
    int64_t base_revision;
    agree_text answer; /* to the last request */
    bool answered;
    int64_t revision; /* of the last answer that had one, from the start */
    el_watch_stream stream;
    bool stream_closed;
    agree_text watches[AGREE_WATCHES]; /* by watch id; [0]: what came under no known id */
} agree_side;

/* Asks for the revision from which the others count. False: no answer. */
bool agree_start(agree_side *side);
void agree_end(agree_side *side); /* shuts the transport down and frees it */

/* Revisions in the request (operands above 0 of revision compares, max_create_revision) count from the start
 * too. The answer's text is in side->answer afterwards. */
void agree_ask(agree_side *side, const el_request *request);

void agree_watch_open(agree_side *side);
void agree_watch_create(agree_side *side, int64_t id, el_span key, int64_t start_revision,
                        bool deletes_only); /* 0: from now on */
void agree_watch_cancel(agree_side *side, int64_t id);
/* Lets messages come in for so long; and then, since the simulator's time is not real, until etcd's watches
 * have said as much as the simulator's. */
void agree_settle_both(agree_side *simulated, agree_side *real, int64_t ms);

void agree_print(agree_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void agree_print_request(agree_text *text, const el_request *request); /* to explain a disagreement */
const char *agree_chars(const agree_text *text);
void agree_text_free(agree_text *text);

#endif
