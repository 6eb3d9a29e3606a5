#include "bench/direct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/samples.h"
#include "core/endpoint.h"
#include "transport/grpc.h"

enum { PATIENCE_MS = 5000 };

static _Noreturn void give_up(const char *what, const char *why)
{
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

el_transport *direct_open(const char *endpoints)
{
    el_endpoints list;
    el_failure failure;
    el_transport *t;
    if (el_endpoints_parse(&list, endpoints, "endpoints", &failure)) give_up("endpoints", endpoints);
    el_grpc_config config = {.targets = list.targets,
                             .n_targets = list.n_targets,
                             .keepalive_time_ms = 10000,
                             .keepalive_timeout_ms = 6000};
    if (el_grpc_transport_new(&t, &config)) give_up("transport", "memory is short");
    el_endpoints_free(&list);
    return t;
}

void direct_close(el_transport *t)
{
    t->shutdown(t);
    for (el_lane lane = 0; lane < EL_LANES; lane++) {
        bool ended = false;
        while (!ended) {
            el_completion *completion = t->next(t, lane, INT64_MAX, &ended);
            if (completion) t->deliver(t, completion);
        }
    }
    t->free(t);
}

void direct_turn(el_transport *t, int64_t until_us)
{
    bool ended = false;
    int64_t left_ns = (until_us - clock_us()) * 1000;
    el_completion *completion = t->next(t, EL_LANE_IO, t->now_ns(t) + (left_ns > 0 ? left_ns : 0), &ended);
    if (completion) t->deliver(t, completion);
}

/* ---- one request ------------------------------------------------------------------------------------ */

typedef struct question {
    el_call call; /* first: it is found by its address */
    bool is_over;
    bool is_answered;
    int64_t revision;
    int64_t count;
    uint64_t leader;
} question;

static void take(el_call *call, const el_status *status, const el_answer *answer)
{
    question *q = (question *)call;
    q->is_over = true;
    q->is_answered = status->code == EL_OK;
    if (!answer) return;
    q->revision = answer->revision;
    if (answer->verb == EL_RANGE) q->count = answer->range.count;
    if (answer->verb == EL_STATUS) q->leader = answer->status.leader_id;
}

static question ask(el_transport *t, unsigned endpoint, const el_request *request, int64_t limit_ms)
{
    question q = {.call = {.lane = EL_LANE_IO, .endpoint = endpoint, .done = take}};
    q.call.deadline_ns = t->now_ns(t) + limit_ms * 1000000;
    t->call(t, &q.call, request);
    while (!q.is_over)
        direct_turn(t, INT64_MAX / 1000);
    return q;
}

int64_t direct_revision(el_transport *t)
{
    el_request request = {.verb = EL_RANGE, .range = {.key = {"bench", strlen("bench")}, .count_only = true}};
    question q = ask(t, 0, &request, PATIENCE_MS);
    if (!q.is_answered) give_up("revision", "etcd does not answer");
    return q.revision;
}

int64_t direct_count(el_transport *t, const char *prefix)
{
    char end[256];
    size_t size = strlen(prefix);
    snprintf(end, sizeof end, "%s", prefix);
    end[size - 1]++;
    el_request request = {.verb = EL_RANGE,
                          .range = {.key = {prefix, size}, .range_end = {end, size}, .count_only = true}};
    question q = ask(t, 0, &request, PATIENCE_MS);
    if (!q.is_answered) give_up("count", "etcd does not answer");
    return q.count;
}

uint64_t direct_leader(el_transport *t, unsigned endpoint, int64_t limit_ms)
{
    el_request request = {.verb = EL_STATUS};
    return ask(t, endpoint, &request, limit_ms).leader;
}
