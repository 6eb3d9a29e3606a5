/* What a hand-over costs: the same few requests however many wait, and one waiter woken. */
#include <check.h>
#include <errno.h>

#include "core/backoff.h"
#include "core/client.h"
#include "recipes/mutex.h"
#include "support/drive.h"
#include "support/runner.h"
#include "support/sim.h"

enum { SIDES_MAX = 64, REQUESTS_MAX = 3 };

typedef struct side {
    el_transport *transport;
    el_client *client;
    el_session *session;
    el_mutex *mutex;
    el_hold *hold;
    bool is_open;
    bool is_granted;
    bool has_left;
} side;

static sim *s;
static side sides[SIDES_MAX];
static unsigned n_sides;

static void run_until(const bool *condition, int64_t ns)
{
    int64_t end_ns = sim_now(s) + ns;
    for (unsigned i = 0; i < n_sides; i++)
        drive_client(sides[i].client);
    while ((!condition || !*condition) && sim_next_ns(s) < end_ns) {
        sim_step(s);
        for (unsigned i = 0; i < n_sides; i++)
            drive_client(sides[i].client);
    }
    if (condition) ck_assert(*condition);
}

static void session_opened(el_session *session, const el_failure *failure)
{
    ck_assert_int_eq(failure->error, 0);
    for (unsigned i = 0; i < n_sides; i++)
        if (sides[i].session == session) sides[i].is_open = true;
}

static void hold_done(el_hold *hold, const el_failure *failure)
{
    side *one = hold->user;
    ck_assert_int_eq(failure->error, 0);
    if (hold->state == EL_HOLD_HELD)
        one->is_granted = true;
    else
        one->has_left = true;
}

static void open_side(side *one)
{
    el_client_settings settings = {
        .dial_timeout_ns = 2 * EL_S, .command_timeout_ns = 5 * EL_S, .host = "sim"};
    el_session_settings session_settings = {.ttl_s = 3600}; /* no renewals to be counted */
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    *one = (side){.transport = sim_client_new(s)};
    ck_assert_int_eq(el_client_new(&one->client, one->transport, &settings), 0);
    pthread_mutex_lock(&one->client->lock);
    one->session = el_session_new(one->client, &session_settings);
    el_session_open(one->session, session_opened);
    pthread_mutex_unlock(&one->client->lock);
    run_until(&one->is_open, 10 * EL_S);
    pthread_mutex_lock(&one->client->lock);
    ck_assert_int_eq(el_mutex_make(&one->mutex, one->session, "contended", &options), 0);
    pthread_mutex_unlock(&one->client->lock);
}

static void begin_lock(side *one)
{
    el_failure failure;
    pthread_mutex_lock(&one->client->lock);
    ck_assert_int_eq(
        el_mutex_begin(one->mutex, &one->hold, 1, EL_ENTER_WAIT, INT64_MAX, hold_done, one, &failure), 0);
    pthread_mutex_unlock(&one->client->lock);
}

static void begin_unlock(side *one)
{
    el_failure failure;
    bool is_over;
    pthread_mutex_lock(&one->client->lock);
    ck_assert_int_eq(el_mutex_begin_unlock(one->mutex, 1, hold_done, one, &is_over, &failure), 0);
    pthread_mutex_unlock(&one->client->lock);
}

static long requests_of_all(void)
{
    long n = 0;
    for (unsigned i = 0; i < n_sides; i++)
        n += sim_calls_made(sides[i].transport);
    return n;
}

static void close_all(void)
{
    for (unsigned i = 0; i < n_sides; i++) {
        pthread_mutex_lock(&sides[i].client->lock);
        el_session_end(sides[i].session, ECANCELED, "the test is over");
        pthread_mutex_unlock(&sides[i].client->lock);
    }
    run_until(NULL, 20 * EL_S);
    for (unsigned i = 0; i < n_sides; i++) {
        pthread_mutex_lock(&sides[i].client->lock);
        el_mutex_free(sides[i].mutex);
        el_session_unref(sides[i].session);
        pthread_mutex_unlock(&sides[i].client->lock);
        (void)el_client_close(sides[i].client);
    }
    n_sides = 0;
    sim_free(s);
}

/* From the unlock of one to the grant of the next: the delete, one look to confirm, nobody else moves. */
START_TEST(cost_of_one)
{
    static const unsigned sizes[] = {2, 3, 8, SIDES_MAX};
    sim_options options = {.seed = (uint64_t)_i + 1, .members = 3};
    s = sim_new(&options);
    sim_faults calm = sim_calm();
    calm.unsynced = 0;
    sim_set_faults(s, &calm);
    n_sides = 0;
    for (unsigned i = 0; i < sizes[_i]; i++) {
        n_sides++;
        open_side(&sides[i]);
        begin_lock(&sides[i]);
        run_until(NULL, 200 * EL_MS); /* it stands in line, in the order of the sides, and watches */
        ck_assert_int_eq(sides[i].is_granted, i == 0);
    }
    for (unsigned i = 0; i + 1 < n_sides; i++) {
        long before = requests_of_all();
        ck_assert(!sides[i + 1].is_granted);
        begin_unlock(&sides[i]);
        run_until(&sides[i + 1].is_granted, 10 * EL_S);
        run_until(NULL, 300 * EL_MS); /* whoever else was woken would have asked by now */
        ck_assert(sides[i].has_left);
        long cost = requests_of_all() - before;
        ck_assert_msg(cost <= REQUESTS_MAX, "%u wait: hand-over %u took %ld requests", n_sides, i, cost);
        for (unsigned k = i + 2; k < n_sides; k++)
            ck_assert_int_eq(sides[k].hold->contender->state, EL_CONTENDER_WAITING);
    }
    begin_unlock(&sides[n_sides - 1]);
    run_until(&sides[n_sides - 1].has_left, 10 * EL_S);
    close_all();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handover_sim");
    TCase *all = tcase_create("handover");
    tcase_set_timeout(all, 0);
    tcase_add_loop_test(all, cost_of_one, 0, 4);
    suite_add_tcase(suite, all);
    return runner_run(suite);
}
