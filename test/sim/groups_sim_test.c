/* Group commit: how many transactions go out for how many locks, and what becomes of those that travel
 * together when one of them ends the others. */
#include <check.h>
#include <errno.h>
#include <stdio.h>

#include "core/backoff.h"
#include "core/client.h"
#include "recipes/mutex.h"
#include "support/drive.h"
#include "support/sim.h"

enum { LOCKS = 2 * EL_GROUP_MAX };

typedef struct lock {
    el_mutex *mutex;
    el_hold *hold;
    bool is_granted;
    bool has_left;
} lock;

static sim *s;
static el_transport *transport;
static el_client *client;
static el_session *session;
static bool is_open;
static lock locks[LOCKS];
static int grants_to_come; /* then the last of them ends the rest */
static bool by_session;    /* by ending their session */

static void run_for(int64_t ns)
{
    int64_t end_ns = sim_now(s) + ns;
    drive_client(client);
    while (sim_next_ns(s) < end_ns) {
        sim_step(s);
        drive_client(client);
    }
}

static void session_opened(el_session *opened, const el_failure *failure)
{
    (void)opened;
    ck_assert_int_eq(failure->error, 0);
    is_open = true;
}

static void abandon_others(const lock *one)
{
    for (int i = 0; i < LOCKS; i++) {
        if (&locks[i] == one || !locks[i].hold || locks[i].hold->state == EL_HOLD_LEAVING) continue;
        el_hold_abandon(locks[i].hold);
        locks[i].hold = NULL;
    }
}

static void end_others(const lock *one)
{
    if (by_session)
        el_session_end(session, ETCDLOCK_ESESSION, "the test wants it");
    else
        abandon_others(one);
}

static void hold_done(el_hold *hold, const el_failure *failure)
{
    lock *one = hold->user;
    ck_assert(!failure->error || by_session);
    if (hold->state == EL_HOLD_HELD) {
        one->is_granted = true;
        if (--grants_to_come == 0) end_others(one);
    } else {
        one->has_left = true;
        one->hold = NULL;
    }
}

static void set_up(long max_txn_ops)
{
    el_client_settings settings = {
        .dial_timeout_ns = 2 * EL_S, .command_timeout_ns = 5 * EL_S, .host = "sim"};
    el_session_settings session_settings = {.ttl_s = 3600}; /* no renewals to be counted */
    etcdlock_mutex_options mutex_options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    sim_options options = {.seed = 1, .max_txn_ops = max_txn_ops};
    sim_faults calm = sim_calm();
    is_open = by_session = false;
    grants_to_come = 0;
    s = sim_new(&options);
    sim_set_faults(s, &calm);
    transport = sim_client_new(s);
    ck_assert_int_eq(el_client_new(&client, transport, &settings), 0);
    pthread_mutex_lock(&client->lock);
    session = el_session_new(client, &session_settings);
    el_session_open(session, session_opened);
    pthread_mutex_unlock(&client->lock);
    run_for(10 * EL_S);
    ck_assert(is_open);
    pthread_mutex_lock(&client->lock);
    for (int i = 0; i < LOCKS; i++) {
        char name[16];
        snprintf(name, sizeof name, "lock-%d", i);
        locks[i] = (lock){.is_granted = false};
        ck_assert_int_eq(el_mutex_make(&locks[i].mutex, session, name, &mutex_options), 0);
    }
    pthread_mutex_unlock(&client->lock);
}

static void tear_down(void)
{
    pthread_mutex_lock(&client->lock);
    el_session_end(session, ECANCELED, "the test is over");
    pthread_mutex_unlock(&client->lock);
    run_for(20 * EL_S);
    pthread_mutex_lock(&client->lock);
    for (int i = 0; i < LOCKS; i++)
        el_mutex_free(locks[i].mutex);
    el_session_unref(session);
    pthread_mutex_unlock(&client->lock);
    (void)el_client_close(client);
    sim_free(s);
}

static void begin(int from, int to)
{
    for (int i = from; i < to; i++) {
        el_failure failure;
        ck_assert_int_eq(el_mutex_begin(locks[i].mutex, &locks[i].hold, i + 1, EL_ENTER_WAIT, INT64_MAX,
                                        hold_done, &locks[i], &failure),
                         0);
    }
}

static void begin_unlock(int from, int to)
{
    for (int i = from; i < to; i++) {
        el_failure failure;
        bool is_over;
        ck_assert_int_eq(
            el_mutex_begin_unlock(locks[i].mutex, i + 1, hold_done, &locks[i], &is_over, &failure), 0);
    }
}

static void begin_all(void)
{
    pthread_mutex_lock(&client->lock);
    begin(0, LOCKS);
    pthread_mutex_unlock(&client->lock);
}

static void begin_unlock_all(void)
{
    pthread_mutex_lock(&client->lock);
    begin_unlock(0, LOCKS);
    pthread_mutex_unlock(&client->lock);
}

/* One of all is left, which is held. */
static void check_one_left(void)
{
    int granted = 0;
    for (int i = 0; i < LOCKS; i++) {
        if (!locks[i].hold) continue;
        ck_assert(locks[i].is_granted);
        granted++;
    }
    ck_assert_int_eq(granted, 1);
    ck_assert_uint_eq(client->gathering.n, 0);
    ck_assert_uint_eq(client->gathering.n_in_flight, 0);
}

/* The first goes at once and alone; half a group's worth goes beside it; the rest waits for one of them, then
 * goes as one, and what is left when nothing is in flight. */
START_TEST(two_at_a_time)
{
    set_up(0);
    for (int half = 0; half < 2; half++) {
        long before = sim_calls_made(transport);
        half ? begin_unlock_all() : begin_all();
        ck_assert_int_eq(sim_calls_made(transport) - before, 2);
        ck_assert_uint_eq(client->gathering.n, LOCKS - 1 - EL_GROUP_MAX / 2);
        run_for(20 * EL_MS); /* before the entries are watched, which takes requests too */
        for (int i = 0; i < LOCKS; i++)
            ck_assert(half ? locks[i].has_left : locks[i].is_granted);
        ck_assert_int_eq(sim_calls_made(transport) - before, 4);
        ck_assert_uint_eq(client->gathering.n, 0);
        ck_assert_uint_eq(client->gathering.n_in_flight, 0);
    }
    tear_down();
}
END_TEST

/* Two groups are refused for their size, the second after the limit has been lowered; all are served. */
START_TEST(both_too_large)
{
    set_up(8);
    begin_all();
    run_for(20 * EL_S);
    for (int i = 0; i < LOCKS; i++)
        ck_assert(locks[i].is_granted);
    ck_assert_uint_le(client->gathering.limit, 8);
    ck_assert_uint_ge(client->gathering.limit, 4);
    begin_unlock_all();
    run_for(20 * EL_S);
    for (int i = 0; i < LOCKS; i++)
        ck_assert(locks[i].has_left);
    tear_down();
}
END_TEST

/* While the members of a group are told how it went, one of them gives up all others: those of its own group
 * who have been told, those who are still to be told, those in flight beside it, and those that gather. */
START_TEST(one_ends_the_others)
{
    static const int nth[] = {1, 2, 10, EL_GROUP_MAX / 2 + 1, EL_GROUP_MAX, LOCKS};
    set_up(0);
    grants_to_come = nth[_i];
    begin_all();
    ck_assert_uint_eq(client->gathering.groups[1].n_members, EL_GROUP_MAX / 2);
    run_for(20 * EL_S);
    check_one_left();
    tear_down();
}
END_TEST

/* The same in a group whose first members have let go and are freed when they are told; and where it is their
 * session that ends. */
START_TEST(after_those_that_leave)
{
    set_up(0);
    pthread_mutex_lock(&client->lock);
    begin(0, LOCKS / 2);
    pthread_mutex_unlock(&client->lock);
    run_for(20 * EL_MS);
    pthread_mutex_lock(&client->lock);
    begin_unlock(0, LOCKS / 2);
    begin(LOCKS / 2, LOCKS);
    pthread_mutex_unlock(&client->lock);
    grants_to_come = 1;
    by_session = _i == 1;
    run_for(20 * EL_S);
    for (int i = 0; i < LOCKS / 2; i++)
        ck_assert(locks[i].has_left);
    if (!by_session) check_one_left();
    ck_assert_uint_eq(client->gathering.n_in_flight, 0);
    tear_down();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("groups_sim");
    TCase *all = tcase_create("groups");
    tcase_set_timeout(all, 0);
    tcase_add_test(all, two_at_a_time);
    tcase_add_test(all, both_too_large);
    tcase_add_loop_test(all, one_ends_the_others, 0, 6);
    tcase_add_loop_test(all, after_those_that_leave, 0, 2);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
