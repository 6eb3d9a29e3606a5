/* A waiter whose user, password or token is no longer accepted: renewals go on, since etcd never looks at
 * theirs, so it must not be left waiting in everybody's way. */
#include <check.h>
#include <errno.h>

#include "core/backoff.h"
#include "support/runner.h"
#include "support/solo.h"

static solo_lock first, second;

/* One holds, the other waits, and its watch has just been placed. */
static void set_up(const el_client_settings *settings)
{
    sim_options options = {.seed = 1};
    solo_start(&options, settings);
    solo_make(&first, "a");
    solo_make(&second, "a");
    solo_begin(&first, EL_ENTER_WAIT);
    solo_expect(&first, 0);
    solo_begin(&second, EL_ENTER_WAIT);
    const el_departure *predecessor = &second.hold->contender->predecessor;
    while (!predecessor->is_waiting || !predecessor->watcher.watch->is_ready)
        solo_step();
}

static void tear_down(void)
{
    solo_end_session();
    solo_drop(&first);
    solo_drop(&second);
    solo_end();
}

/* The waiter is told in seconds; the holder is not concerned. */
static void expect_refusal(void)
{
    solo_run(6 * EL_S);
    ck_assert_int_eq(second.n_ended, 1);
    ck_assert_int_eq(second.error, EACCES);
    ck_assert_int_eq(first.hold->state, EL_HOLD_HELD);
    tear_down();
}

/* The password is changed, and with it go the tokens. */
START_TEST(password_changed)
{
    set_up(&(el_client_settings){.user = "u", .password = "p"});
    if (_i == 1) solo_run(1 * EL_S); /* no reads back the watch any more */
    sim_set_auth(solo_sim, "u", "another");
    sim_expire_tokens(solo_sim);
    expect_refusal();
}
END_TEST

/* Authentication is switched on under a client that has no user. */
START_TEST(auth_switched_on)
{
    set_up(&(el_client_settings){.user = NULL});
    if (_i == 1) solo_run(1 * EL_S);
    sim_set_auth(solo_sim, "u", "p");
    expect_refusal();
}
END_TEST

/* The token has expired, and a new one is to be had: nobody hears of it. */
START_TEST(token_expired)
{
    set_up(&(el_client_settings){.user = "u", .password = "p"});
    if (_i == 1) solo_run(1 * EL_S);
    sim_expire_tokens(solo_sim);
    solo_run(6 * EL_S);
    ck_assert_int_eq(second.n_ended, 0);
    solo_unlock(&first);
    solo_expect(&first, 0);
    solo_expect(&second, 0);
    ck_assert_int_eq(second.hold->state, EL_HOLD_HELD);
    tear_down();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("credentials_sim");
    TCase *all = tcase_create("credentials");
    tcase_set_timeout(all, 0);
    tcase_add_loop_test(all, password_changed, 0, 2);
    tcase_add_loop_test(all, auth_switched_on, 0, 2);
    tcase_add_loop_test(all, token_expired, 0, 2);
    suite_add_tcase(suite, all);
    return runner_run(suite);
}
