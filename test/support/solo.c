#include "support/solo.h"

#include <check.h>
#include <errno.h>

#include "core/backoff.h"
#include "support/drive.h"

sim *solo_sim;
el_transport *solo_transport;
el_client *solo_client;
el_session *solo_session;

static bool is_open;

void solo_step(void)
{
    drive_client(solo_client);
    sim_step(solo_sim);
    drive_client(solo_client);
}

void solo_run(int64_t ns)
{
    int64_t end_ns = sim_now(solo_sim) + ns;
    drive_client(solo_client);
    while (sim_next_ns(solo_sim) < end_ns)
        solo_step();
}

static void opened(el_session *session, const el_failure *failure)
{
    (void)session;
    ck_assert_int_eq(failure->error, 0);
    is_open = true;
}

void solo_open_session(void)
{
    el_session_settings settings = {.ttl_s = 3600};
    is_open = false;
    pthread_mutex_lock(&solo_client->lock);
    if (solo_session) el_session_unref(solo_session);
    solo_session = el_session_new(solo_client, &settings);
    el_session_open(solo_session, opened);
    pthread_mutex_unlock(&solo_client->lock);
    solo_run(10 * EL_S);
    ck_assert(is_open);
}

void solo_start(const sim_options *options, unsigned group_max)
{
    el_client_settings settings = {.dial_timeout_ns = 2 * EL_S,
                                   .command_timeout_ns = 5 * EL_S,
                                   .host = "sim",
                                   .group_max = group_max};
    sim_faults calm = sim_calm();
    solo_sim = sim_new(options);
    sim_set_faults(solo_sim, &calm);
    solo_transport = sim_client_new(solo_sim);
    solo_session = NULL;
    ck_assert_int_eq(el_client_new(&solo_client, solo_transport, &settings), 0);
    solo_open_session();
}

void solo_end(void)
{
    pthread_mutex_lock(&solo_client->lock);
    el_session_end(solo_session, ECANCELED, "the test is over");
    pthread_mutex_unlock(&solo_client->lock);
    solo_run(20 * EL_S);
    pthread_mutex_lock(&solo_client->lock);
    el_session_unref(solo_session);
    pthread_mutex_unlock(&solo_client->lock);
    (void)el_client_close(solo_client);
    sim_free(solo_sim);
}
