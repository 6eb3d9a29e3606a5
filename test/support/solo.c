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

void solo_start(const sim_options *options, const el_client_settings *settings)
{
    el_client_settings all = *settings;
    all.dial_timeout_ns = 2 * EL_S;
    all.command_timeout_ns = 5 * EL_S;
    all.host = "sim";
    sim_faults calm = sim_calm();
    solo_sim = sim_new(options);
    sim_set_faults(solo_sim, &calm);
    solo_transport = sim_client_new(solo_sim);
    solo_session = NULL;
    if (all.user) sim_set_auth(solo_sim, all.user, all.password);
    ck_assert_int_eq(el_client_new(&solo_client, solo_transport, &all), 0);
    solo_open_session();
}

void solo_end_session(void)
{
    pthread_mutex_lock(&solo_client->lock);
    el_session_end(solo_session, ECANCELED, "the test is over");
    pthread_mutex_unlock(&solo_client->lock);
    solo_run(20 * EL_S);
}

void solo_end(void)
{
    solo_end_session();
    pthread_mutex_lock(&solo_client->lock);
    el_session_unref(solo_session);
    pthread_mutex_unlock(&solo_client->lock);
    (void)el_client_close(solo_client);
    sim_free(solo_sim);
}

/* ---- locks
 * ------------------------------------------------------------------------------------------------------- */

static void hold_done(el_hold *hold, const el_failure *failure)
{
    solo_lock *lock = hold->user;
    lock->n_ended++;
    lock->error = failure->error;
}

void solo_begin(solo_lock *lock, el_enter_mode mode)
{
    el_failure failure;
    lock->n_ended = 0;
    pthread_mutex_lock(&solo_client->lock);
    ck_assert_int_eq(el_mutex_begin(lock->mutex, &lock->hold, 1, mode, INT64_MAX, hold_done, lock, &failure),
                     0);
    pthread_mutex_unlock(&solo_client->lock);
}

void solo_unlock(solo_lock *lock)
{
    el_failure failure;
    bool is_over;
    lock->n_ended = 0;
    pthread_mutex_lock(&solo_client->lock);
    ck_assert_int_eq(el_mutex_begin_unlock(lock->mutex, 1, hold_done, lock, &is_over, &failure), 0);
    pthread_mutex_unlock(&solo_client->lock);
}

void solo_expect(solo_lock *lock, int error)
{
    solo_run(1 * EL_S);
    ck_assert_int_eq(lock->n_ended, 1);
    ck_assert_int_eq(lock->error, error);
}

void solo_make(solo_lock *lock, const char *name)
{
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    *lock = (solo_lock){.n_ended = 0};
    pthread_mutex_lock(&solo_client->lock);
    ck_assert_int_eq(el_mutex_make(&lock->mutex, solo_session, name, &options), 0);
    pthread_mutex_unlock(&solo_client->lock);
}

void solo_drop(solo_lock *lock)
{
    pthread_mutex_lock(&solo_client->lock);
    el_mutex_free(lock->mutex);
    pthread_mutex_unlock(&solo_client->lock);
}
