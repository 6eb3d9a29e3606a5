/* lib/core/rpc.c: what it waits for beside etcd's answer, over a transport that answers when it is told to.
 */
#include "core/rpc.h"

#include <check.h>
#include <errno.h>

#include "core/client.h"
#include "support/runner.h"

enum { CALLS_MAX = 8 };
static const int64_t s = 1000000000;

static int64_t now;
static el_call *calls[CALLS_MAX];
static el_verb verbs[CALLS_MAX];
static int n_calls;
static bool is_shut;
static int n_ended; /* how often the request has said that it is over, */
static int ended_with;

/* ---- the transport
 * ------------------------------------------------------------------------------------------------------- */

static int64_t now_ns(el_transport *t)
{
    (void)t;
    return now;
}

static uint64_t no_random(el_transport *t)
{
    (void)t;
    return 0;
}

static void take_call(el_transport *t, el_call *call, const el_request *request)
{
    (void)t;
    ck_assert_int_lt(n_calls, CALLS_MAX);
    verbs[n_calls] = request->verb;
    calls[n_calls++] = call;
}

static el_completion *no_completion(el_transport *t, el_lane lane, int64_t deadline_ns, bool *ended)
{
    (void)t, (void)lane, (void)deadline_ns;
    *ended = is_shut;
    return NULL;
}

static void ignore_lane(el_transport *t, el_lane lane)
{
    (void)t, (void)lane;
}

static void shut(el_transport *t)
{
    (void)t;
    is_shut = true;
}

static void ignore(el_transport *t)
{
    (void)t;
}

static el_transport transport = {.n_endpoints = 1,
                                 .now_ns = now_ns,
                                 .random = no_random,
                                 .call = take_call,
                                 .next = no_completion,
                                 .wake = ignore_lane,
                                 .shutdown = shut,
                                 .free = ignore};

/* ---- the scene
 * -----------------------------------------------------------------------------------------------------------
 */

static el_client *client;
static el_rpc rpc;

static void take_end(el_rpc *ended, const el_rpc_end *end)
{
    (void)ended;
    n_ended++;
    ended_with = end->failure.error;
}

/* A client that needs a token, and a request that has so long. */
static void start_request(int64_t limit_ns)
{
    el_client_settings settings = {
        .dial_timeout_ns = 2 * s, .command_timeout_ns = 5 * s, .user = "u", .password = "p", .host = "h"};
    n_calls = n_ended = 0;
    is_shut = false;
    now = 100 * s;
    ck_assert_int_eq(el_client_new(&client, &transport, &settings), 0);
    rpc = (el_rpc){.request = {.verb = EL_RANGE, .range = {.key = {"k", 1}}},
                   .pinned = EL_ANY_ENDPOINT,
                   .deadline_ns = now + limit_ns,
                   .done = take_end};
    pthread_mutex_lock(&client->lock);
    el_rpc_start(client, &rpc);
    pthread_mutex_unlock(&client->lock);
    ck_assert_int_eq(n_calls, 1);
    ck_assert_int_eq(verbs[0], EL_AUTHENTICATE);
}

static void go_on_to(int64_t then)
{
    bool ended;
    now = then;
    (void)el_client_turn(client, EL_LANE_IO, false, &ended);
}

static void answer(int i)
{
    el_status ok = {.code = EL_OK, .message = ""};
    el_answer given = {.verb = verbs[i], .revision = 7};
    if (verbs[i] == EL_AUTHENTICATE) given.token = (el_span){"token", 5};
    pthread_mutex_lock(&client->lock);
    calls[i]->done(calls[i], &ok, &given);
    pthread_mutex_unlock(&client->lock);
}

static void end_call(int i, const el_status *status)
{
    pthread_mutex_lock(&client->lock);
    calls[i]->done(calls[i], status, NULL);
    pthread_mutex_unlock(&client->lock);
}

/* At the deadline of call i. */
static void time_out(int i)
{
    now = calls[i]->deadline_ns;
    end_call(i, &(el_status){.code = EL_DEADLINE_EXCEEDED, .message = "time is up"});
    go_on_to(now);
}

/* At once, by a member that has no leader; then comes the pause between rounds. */
static void refuse(int i)
{
    end_call(i, &(el_status){.code = EL_UNAVAILABLE, .message = "etcdserver: no leader"});
    go_on_to(now + s);
}

/* ---- cases
 * ---------------------------------------------------------------------------------------------------------------
 */

/* A request whose time is up while its token is being fetched ends then, and is not sent when that comes. */
START_TEST(no_token_in_time)
{
    start_request(2 * s);
    go_on_to(102 * s - 1);
    ck_assert_int_eq(n_ended, 0);
    go_on_to(102 * s);
    ck_assert_int_eq(n_ended, 1);
    ck_assert_int_eq(ended_with, ETCDLOCK_EUNREACHABLE);
    answer(0);
    ck_assert_int_eq(n_calls, 1);
    ck_assert_int_eq(n_ended, 1);
    (void)el_client_close(client);
}
END_TEST

/* A request that got its token waits for the answer, and for nothing else. */
START_TEST(token_in_time)
{
    start_request(2 * s);
    go_on_to(101 * s);
    answer(0);
    ck_assert_int_eq(n_calls, 2);
    ck_assert_int_eq(verbs[1], EL_RANGE);
    ck_assert_int_eq(calls[1]->token.size, 5);
    ck_assert_int_eq(calls[1]->deadline_ns, 102 * s);
    go_on_to(102 * s);
    ck_assert_int_eq(n_ended, 0);
    answer(1);
    ck_assert_int_eq(n_ended, 1);
    ck_assert_int_eq(ended_with, 0);
    (void)el_client_close(client);
}
END_TEST

/* A request that is stopped while its token is being fetched ends at once, once. */
START_TEST(stopped_without_token)
{
    start_request(2 * s);
    pthread_mutex_lock(&client->lock);
    el_rpc_stop(&rpc);
    pthread_mutex_unlock(&client->lock);
    ck_assert_int_eq(n_ended, 0);
    go_on_to(100 * s);
    ck_assert_int_eq(n_ended, 1);
    ck_assert_int_eq(ended_with, ECANCELED);
    answer(0);
    go_on_to(103 * s);
    ck_assert_int_eq(n_ended, 1);
    ck_assert_int_eq(n_calls, 1);
    (void)el_client_close(client);
}
END_TEST

static void expect_attempt(int i, unsigned endpoint, int64_t deadline_ns)
{
    ck_assert_int_eq(n_calls, i + 1);
    ck_assert_int_eq(verbs[i], EL_RANGE);
    ck_assert_uint_eq(calls[i]->endpoint, endpoint);
    ck_assert_int_eq(calls[i]->deadline_ns, deadline_ns);
}

/* Members that answer, though they cannot help yet, leave the time for the first silence as it is. */
START_TEST(answers_are_no_silence)
{
    transport.n_endpoints = 3;
    start_request(1000 * s);
    answer(0);
    for (int i = 1; i <= 4; i++) {
        expect_attempt(i, (unsigned)(i - 1) % 3, now + 2 * s);
        refuse(i);
    }
    expect_attempt(5, 1, now + 2 * s);
    time_out(5);
    answer(6);
    ck_assert_int_eq(ended_with, 0);
    (void)el_client_close(client);
}
END_TEST

/* Silence makes the following rounds longer. */
START_TEST(silence_is_given_time)
{
    static const int64_t limits[] = {2, 2, 2, 4, 4};
    transport.n_endpoints = 3;
    start_request(1000 * s);
    answer(0);
    for (int i = 1; i <= 5; i++) {
        ck_assert_int_eq(calls[i]->deadline_ns - now, limits[i - 1] * s);
        time_out(i);
        if (n_calls == i + 1) go_on_to(now + s); /* the pause between rounds */
    }
    answer(6);
    ck_assert_int_eq(ended_with, 0);
    (void)el_client_close(client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rpc");
    TCase *tests = tcase_create("attempts");
    tcase_set_timeout(tests, 20); /* for valgrind */
    tcase_add_test(tests, no_token_in_time);
    tcase_add_test(tests, token_in_time);
    tcase_add_test(tests, stopped_without_token);
    tcase_add_test(tests, answers_are_no_silence);
    tcase_add_test(tests, silence_is_given_time);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
