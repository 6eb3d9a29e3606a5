/* Group commit: how many transactions go out for how many locks, and what becomes of those that travel
 * together when one of them ends the others. */
#include <check.h>
#include <errno.h>
#include <stdio.h>

#include "core/backoff.h"
#include "recipes/mutex.h"
#include "support/runner.h"
#include "support/solo.h"

enum { LOCKS = 2 * EL_GROUP_MAX };

typedef struct lock {
    el_mutex *mutex;
    el_hold *hold;
    bool is_granted;
    bool has_left;
} lock;

static lock locks[LOCKS];
static int grants_to_come; /* then the last of them ends the rest */
static bool by_session;    /* by ending their session */

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
        el_session_end(solo_session, ETCDLOCK_ESESSION, "the test wants it");
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

static void make_locks(void)
{
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    pthread_mutex_lock(&solo_client->lock);
    for (int i = 0; i < LOCKS; i++) {
        char name[16];
        snprintf(name, sizeof name, "lock-%d", i);
        locks[i] = (lock){.is_granted = false};
        ck_assert_int_eq(el_mutex_make(&locks[i].mutex, solo_session, name, &options), 0);
    }
    pthread_mutex_unlock(&solo_client->lock);
}

static void free_locks(void)
{
    pthread_mutex_lock(&solo_client->lock);
    for (int i = 0; i < LOCKS; i++)
        el_mutex_free(locks[i].mutex);
    pthread_mutex_unlock(&solo_client->lock);
}

static void set_up(long max_txn_ops)
{
    sim_options options = {.seed = 1, .max_txn_ops = max_txn_ops};
    by_session = false;
    grants_to_come = 0;
    solo_start(&options, &(el_client_settings){.group_max = 0});
    make_locks();
}

/* The locks are freed with what is left of them when the session is over. */
static void tear_down(void)
{
    solo_end_session();
    free_locks();
    solo_end();
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
    pthread_mutex_lock(&solo_client->lock);
    begin(0, LOCKS);
    pthread_mutex_unlock(&solo_client->lock);
}

static void begin_unlock_all(void)
{
    pthread_mutex_lock(&solo_client->lock);
    begin_unlock(0, LOCKS);
    pthread_mutex_unlock(&solo_client->lock);
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
    ck_assert_uint_eq(solo_client->gathering.n, 0);
    ck_assert_uint_eq(solo_client->gathering.n_in_flight, 0);
}

/* The first goes at once and alone; half a group's worth goes beside it; the rest waits for one of them, then
 * goes as one, and what is left when nothing is in flight. */
START_TEST(two_at_a_time)
{
    set_up(0);
    for (int half = 0; half < 2; half++) {
        long before = sim_calls_made(solo_transport);
        half ? begin_unlock_all() : begin_all();
        ck_assert_int_eq(sim_calls_made(solo_transport) - before, 2);
        ck_assert_uint_eq(solo_client->gathering.n, LOCKS - 1 - EL_GROUP_MAX / 2);
        solo_run(20 * EL_MS); /* before the entries are watched, which takes requests too */
        for (int i = 0; i < LOCKS; i++)
            ck_assert(half ? locks[i].has_left : locks[i].is_granted);
        ck_assert_int_eq(sim_calls_made(solo_transport) - before, 4);
        ck_assert_uint_eq(solo_client->gathering.n, 0);
        ck_assert_uint_eq(solo_client->gathering.n_in_flight, 0);
    }
    tear_down();
}
END_TEST

/* Two groups are refused for their size, the second after the limit has been lowered; all are served. */
START_TEST(both_too_large)
{
    set_up(8);
    begin_all();
    solo_run(20 * EL_S);
    for (int i = 0; i < LOCKS; i++)
        ck_assert(locks[i].is_granted);
    ck_assert_uint_le(solo_client->gathering.limit, 8);
    ck_assert_uint_ge(solo_client->gathering.limit, 4);
    begin_unlock_all();
    solo_run(20 * EL_S);
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
    ck_assert_uint_eq(solo_client->gathering.groups[1].n_members, EL_GROUP_MAX / 2);
    solo_run(20 * EL_S);
    check_one_left();
    tear_down();
}
END_TEST

/* The same in a group whose first members have let go and are freed when they are told; and where it is their
 * session that ends. */
START_TEST(after_those_that_leave)
{
    set_up(0);
    pthread_mutex_lock(&solo_client->lock);
    begin(0, LOCKS / 2);
    pthread_mutex_unlock(&solo_client->lock);
    solo_run(20 * EL_MS);
    pthread_mutex_lock(&solo_client->lock);
    begin_unlock(0, LOCKS / 2);
    begin(LOCKS / 2, LOCKS);
    pthread_mutex_unlock(&solo_client->lock);
    grants_to_come = 1;
    by_session = _i == 1;
    solo_run(20 * EL_S);
    for (int i = 0; i < LOCKS / 2; i++)
        ck_assert(locks[i].has_left);
    if (!by_session) check_one_left();
    ck_assert_uint_eq(solo_client->gathering.n_in_flight, 0);
    tear_down();
}
END_TEST

/* A group is refused for the dead lease of one of it. Those who were in it are served while others come and
 * go without an end. */
START_TEST(refused_are_not_starved)
{
    enum { HELD = 40, INNOCENT = 4 };
    el_session *dead;
    el_mutex *mutex;
    lock unlucky = {.is_granted = false};
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    el_failure failure;
    set_up(0);
    dead = solo_session;
    pthread_mutex_lock(&solo_client->lock);
    el_session_ref(dead);
    ck_assert_int_eq(el_mutex_make(&mutex, dead, "unlucky", &options), 0);
    pthread_mutex_unlock(&solo_client->lock);
    free_locks();
    solo_open_session();
    make_locks();
    pthread_mutex_lock(&solo_client->lock);
    begin(0, HELD);
    pthread_mutex_unlock(&solo_client->lock);
    solo_run(20 * EL_MS);
    (void)sim_revoke_lease(solo_sim, dead->lease);
    by_session = true; /* a failure is in order */
    pthread_mutex_lock(&solo_client->lock);
    begin_unlock(0, 1);
    ck_assert_int_eq(
        el_mutex_begin(mutex, &unlucky.hold, 1, EL_ENTER_WAIT, INT64_MAX, hold_done, &unlucky, &failure), 0);
    begin(HELD, HELD + INNOCENT);
    pthread_mutex_unlock(&solo_client->lock);
    int leaving = 1, served = 0;
    while (leaving < HELD && served < INNOCENT) {
        pthread_mutex_lock(&solo_client->lock);
        if (el_list_is_empty(&solo_client->gathering.leaves)) {
            begin_unlock(leaving, leaving + 1);
            leaving++;
        }
        pthread_mutex_unlock(&solo_client->lock);
        solo_step();
        served = 0;
        for (int i = HELD; i < HELD + INNOCENT; i++)
            served += locks[i].is_granted;
    }
    ck_assert_int_eq(served, INNOCENT);
    ck_assert(!unlucky.is_granted);
    pthread_mutex_lock(&solo_client->lock);
    el_mutex_free(mutex);
    el_session_unref(dead);
    pthread_mutex_unlock(&solo_client->lock);
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
    tcase_add_test(all, refused_are_not_starved);
    suite_add_tcase(suite, all);
    return runner_run(suite);
}
