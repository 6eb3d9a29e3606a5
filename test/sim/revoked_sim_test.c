/* A lease that is revoked while a renewal is under way: whether the renewal was served before or after it,
 * the session's end is known at once, and not only with the next renewal. */
#include <check.h>
#include <errno.h>

#include "core/backoff.h"
#include "core/keepalive.h"
#include "support/runner.h"
#include "support/solo.h"

enum { SEEDS = 50 };

static solo_lock lock;

static void renew(void)
{
    pthread_mutex_lock(&solo_client->lock);
    el_keepalive_now(solo_session);
    pthread_mutex_unlock(&solo_client->lock);
}

/* The one that has been asked for was served; its answer is on its way. */
static void await_service(void)
{
    int64_t lease = solo_session->lease, before_ns = sim_lease_left_ns(solo_sim, lease);
    for (int i = 0; i < 1000 && sim_lease_left_ns(solo_sim, lease) <= before_ns; i++)
        solo_step();
    ck_assert_int_gt(sim_lease_left_ns(solo_sim, lease), before_ns);
}

START_TEST(under_a_renewal)
{
    sim_options options = {.seed = (uint64_t)_i + 1};
    solo_start(&options, &(el_client_settings){.user = NULL});
    solo_make(&lock, "a");
    solo_begin(&lock, EL_ENTER_WAIT);
    solo_expect(&lock, 0); /* after a second the own entry is watched, too */
    renew();
    if (_i % 2) await_service();
    ck_assert(sim_revoke_lease(solo_sim, solo_session->lease));
    solo_run(1 * EL_S);
    ck_assert(!el_session_is_live(solo_session));
    ck_assert_int_eq(solo_session->over_error, ETCDLOCK_ESESSION);
    solo_drop(&lock);
    solo_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("revoked_sim");
    TCase *all = tcase_create("revoked");
    tcase_set_timeout(all, 0);
    tcase_add_loop_test(all, under_a_renewal, 0, SEEDS);
    suite_add_tcase(suite, all);
    return runner_run(suite);
}
