/* Waiting in a lane of the gRPC transport, without any server: the lane of the renewals waits outside of gRPC
 * while it has nothing under way, and must miss nothing there. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>

#include "core/alloc.h"
#include "core/backoff.h"
#include "support/runner.h"
#include "transport/grpc.h"

/* ThreadSanitizer does not see that gRPC orders what two threads do with a call. */
#ifdef __SANITIZE_THREAD__
static const bool is_order_seen = false;
#else
static const bool is_order_seen = true;
#endif

static el_transport *t;

/* Nobody listens there. */
static void open_transport(void)
{
    static const char *const targets[] = {"127.0.0.1:1"};
    el_grpc_config config = {
        .targets = targets, .n_targets = 1, .keepalive_time_ms = 10000, .keepalive_timeout_ms = 6000};
    ck_assert_int_eq(el_grpc_transport_new(&t, &config), 0);
}

static void end_lane(el_lane lane)
{
    bool ended = false;
    while (!ended) {
        el_completion *completion = t->next(t, lane, INT64_MAX, &ended);
        if (completion) t->deliver(t, completion);
    }
}

static void close_transport(void)
{
    t->shutdown(t);
    for (int lane = 0; lane < EL_LANES; lane++)
        end_lane((el_lane)lane);
    t->free(t);
    ck_assert_int_eq(el_alloc_alive(), 0);
}

/* ---- a thread that waits --------------------------------------------------------------------------------
 */

typedef struct sleeper {
    pthread_t thread;
    atomic_int id; /* of the thread, once it runs */
    el_lane lane;
    el_completion *completion;
    bool ended;
    long switches; /* how often it was woken */
} sleeper;

static void *sleep_in_lane(void *argument)
{
    sleeper *s = argument;
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    atomic_store(&s->id, gettid());
    s->completion = t->next(t, s->lane, INT64_MAX, &s->ended);
    getrusage(RUSAGE_THREAD, &after);
    s->switches = after.ru_nvcsw - before.ru_nvcsw;
    return NULL;
}

/* As the kernel tells it: the state follows the name, which is in parentheses. */
static bool is_asleep(int id)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", id);
    FILE *file = fopen(path, "re");
    if (!file) return true; /* it has ended */
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *state = strrchr(text, ')');
    return state && state[2] == 'S';
}

/* Returns when it waits. */
static void start(sleeper *s, el_lane lane)
{
    *s = (sleeper){.lane = lane};
    pthread_create(&s->thread, NULL, sleep_in_lane, s);
    while (!atomic_load(&s->id) || !is_asleep(atomic_load(&s->id)))
        sched_yield();
}

static void join(sleeper *s)
{
    ck_assert_int_eq(pthread_join(s->thread, NULL), 0);
}

/* ---- what ends a wait -----------------------------------------------------------------------------------
 */

/* A wait ends at its deadline and not sooner. */
START_TEST(deadline)
{
    open_transport();
    int64_t began_ns = t->now_ns(t);
    bool ended;
    ck_assert_ptr_null(t->next(t, (el_lane)_i, began_ns + 50 * EL_MS, &ended));
    ck_assert(!ended);
    ck_assert_int_ge(t->now_ns(t) - began_ns, 50 * EL_MS);
    close_transport();
}
END_TEST

/* A deadline in the past makes it look, not wait. */
START_TEST(past_deadline)
{
    open_transport();
    bool ended;
    ck_assert_ptr_null(t->next(t, (el_lane)_i, INT64_MIN, &ended));
    close_transport();
}
END_TEST

/* `wake` ends the wait that is under way. */
START_TEST(woken)
{
    sleeper s;
    open_transport();
    for (int i = 0; i < 10; i++) {
        start(&s, (el_lane)_i);
        t->wake(t, (el_lane)_i);
        join(&s);
        ck_assert_ptr_null(s.completion);
        ck_assert(!s.ended);
    }
    close_transport();
}
END_TEST

/* `wake` while nobody waits ends the following wait. */
START_TEST(woken_before)
{
    sleeper s;
    open_transport();
    t->wake(t, (el_lane)_i);
    start(&s, (el_lane)_i);
    join(&s);
    ck_assert_ptr_null(s.completion);
    close_transport();
}
END_TEST

/* `shutdown` ends the wait and the lane. */
START_TEST(shut_down)
{
    sleeper s;
    open_transport();
    start(&s, (el_lane)_i);
    t->shutdown(t);
    join(&s);
    if (!s.ended) end_lane((el_lane)_i);
    close_transport();
}
END_TEST

static void take(el_call *call, const el_status *status, const el_answer *answer)
{
    (void)answer;
    ck_assert_int_ne(status->code, EL_OK);
    call->impl = NULL;
}

static void begin(el_call *call, el_lane lane)
{
    el_request request = {.verb = EL_LEASE_KEEPALIVE, .lease = {.id = 1}};
    *call = (el_call){.lane = lane, .deadline_ns = t->now_ns(t) + 10 * EL_S, .done = take};
    t->call(t, call, &request);
}

/* The end of a call that another thread began comes to the one that waits. */
START_TEST(call_of_another_thread)
{
    sleeper s;
    el_call call;
    open_transport();
    for (int i = 0; i < 3; i++) {
        start(&s, (el_lane)_i);
        begin(&call, (el_lane)_i);
        join(&s);
        ck_assert_ptr_nonnull(s.completion);
        t->deliver(t, s.completion);
        ck_assert_ptr_null(call.impl);
    }
    close_transport();
}
END_TEST

/* A lane of renewals that has nothing under way is not woken by what the other one does. */
START_TEST(left_in_peace)
{
    enum { CALLS = 200 };
    sleeper s;
    open_transport();
    start(&s, EL_LANE_KEEPALIVE);
    for (int i = 0; i < CALLS; i++) {
        el_call call;
        begin(&call, EL_LANE_IO);
        while (call.impl) {
            bool ended;
            el_completion *completion = t->next(t, EL_LANE_IO, INT64_MAX, &ended);
            if (completion) t->deliver(t, completion);
        }
    }
    t->wake(t, EL_LANE_KEEPALIVE);
    join(&s);
    ck_assert_int_lt(s.switches, 20);
    close_transport();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grpc_lane");
    TCase *waits = tcase_create("waits");
    tcase_set_timeout(waits, 120);
    tcase_add_loop_test(waits, deadline, 0, EL_LANES);
    tcase_add_loop_test(waits, past_deadline, 0, EL_LANES);
    tcase_add_loop_test(waits, woken, 0, EL_LANES);
    tcase_add_loop_test(waits, woken_before, 0, EL_LANES);
    tcase_add_loop_test(waits, shut_down, 0, EL_LANES);
    if (is_order_seen) tcase_add_loop_test(waits, call_of_another_thread, 0, EL_LANES);
    tcase_add_test(waits, left_in_peace);
    suite_add_tcase(suite, waits);
    return runner_run(suite);
}
