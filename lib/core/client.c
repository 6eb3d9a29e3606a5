#include "core/client.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/lane.h"
#include "core/log.h"
#include "core/process.h"
#include "core/session.h"
#include "transport/closed.h"

/* Beyond the command timeout: for the transport to let go of its calls. */
static const int64_t close_slack_ns = 500 * EL_MS;

int64_t el_now(const el_client *client)
{
    return client->transport->now_ns(client->transport);
}

uint64_t el_random(const el_client *client)
{
    return client->transport->random(client->transport);
}

/* What this thread had asked for before it came in. */
static _Thread_local int cancel_state;

int el_client_enter(el_client *client)
{
    int state;
    if (client->generation != el_process_generation()) return ETCDLOCK_EFORKED;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_mutex_lock(&client->lock);
    cancel_state = state;
    return 0;
}

int el_client_cancel_state(void)
{
    return cancel_state;
}

/* ---- making ----------------------------------------------------------------------------------------------
 */

static int copy_settings(el_client *client, const el_client_settings *settings)
{
    char host[256] = "";
    if (!settings->host) (void)gethostname(host, sizeof(host) - 1);
    client->dial_timeout_ns = settings->dial_timeout_ns;
    client->command_timeout_ns = settings->command_timeout_ns;
    client->log = settings->log;
    client->log_arg = settings->log_arg;
    client->log_level = settings->log_level;
    client->key_prefix = el_strdup(settings->key_prefix ? settings->key_prefix : "");
    client->host = el_strdup(settings->host ? settings->host : host);
    bool has_user = settings->user && settings->user[0];
    if (has_user) {
        client->user = el_strdup(settings->user);
        client->password = el_strdup(settings->password ? settings->password : "");
    }
    if (!client->key_prefix || !client->host) return ENOMEM;
    return has_user && (!client->user || !client->password) ? ENOMEM : 0;
}

static void free_client(el_client *client)
{
    el_hub_destroy(client);
    el_auth_destroy(client);
    el_notifier_destroy(&client->notifier);
    if (client->free_owner) client->free_owner(client->owner);
    if (client->password) explicit_bzero(client->password, strlen(client->password));
    el_free(client->password);
    el_free(client->user);
    el_free(client->host);
    el_free(client->key_prefix);
    pthread_cond_destroy(&client->quiet);
    pthread_mutex_destroy(&client->lock);
    el_free(client);
}

/* The transport is freed only after its lanes have said that they ended. */
static void end_transport(el_client *client)
{
    pthread_mutex_lock(&client->lock);
    client->state = EL_CLIENT_CLOSED;
    el_rpc_stop_all(client);
    client->transport->shutdown(client->transport);
    pthread_mutex_unlock(&client->lock);
    for (int lane = 0; lane < EL_LANES; lane++) {
        if (client->lanes[lane].is_running) {
            el_lane_join(client, (el_lane)lane);
        } else {
            bool has_ended = false;
            while (!has_ended)
                (void)el_client_turn(client, (el_lane)lane, true, &has_ended);
        }
    }
    /* A request that was pausing between two attempts, or waiting for a token, hears of its end by a timer.
     */
    pthread_mutex_lock(&client->lock);
    for (int lane = 0; lane < EL_LANES; lane++)
        el_client_fire_rest(client, (el_lane)lane);
    /* Under the lock: other threads still ask it for the time. */
    el_transport *ended = client->transport;
    client->transport = &el_closed_transport;
    pthread_mutex_unlock(&client->lock);
    ended->free(ended);
}

static void init_locks(el_client *client, bool is_threaded)
{
    pthread_condattr_t attributes;
    pthread_mutex_init(&client->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&client->quiet, &attributes);
    pthread_condattr_destroy(&attributes);
    el_notifier_init(&client->notifier, &client->lock, !is_threaded);
}

int el_client_new(el_client **out, el_transport *transport, const el_client_settings *settings)
{
    *out = NULL;
    el_client *client = el_alloc(sizeof(*client));
    if (!client) {
        el_client orphanage = {.transport = transport};
        pthread_mutex_init(&orphanage.lock, NULL);
        el_list_init(&orphanage.rpcs);
        end_transport(&orphanage);
        pthread_mutex_destroy(&orphanage.lock);
        return ENOMEM;
    }
    client->transport = transport;
    client->references = 1;
    client->generation = el_process_generation();
    init_locks(client, settings->is_threaded);
    el_list_init(&client->sessions);
    el_list_init(&client->rpcs);
    el_auth_init(client);
    el_hub_init(client);
    el_gathering_init(client);
    el_gathering_limit(&client->gathering, settings->group_max);
    for (int lane = 0; lane < EL_LANES; lane++) {
        client->lanes[lane].client = client;
        client->lanes[lane].lane = (el_lane)lane;
        client->lanes[lane].sleeping_until_ns = INT64_MIN;
    }
    client->endpoint = (unsigned)(el_random(client) % transport->n_endpoints);
    int error = copy_settings(client, settings);
    for (int lane = 0; settings->is_threaded && !error && lane < EL_LANES; lane++)
        error = el_lane_start(client, (el_lane)lane);
    if (error) {
        end_transport(client);
        free_client(client);
        return error;
    }
    *out = client;
    return 0;
}

/* ---- ending ----------------------------------------------------------------------------------------------
 */

static void unlock_and_free_if_last(el_client *client)
{
    bool is_last = client->references == 0;
    pthread_mutex_unlock(&client->lock);
    if (is_last) free_client(client);
}

void el_client_leave(el_client *client)
{
    unlock_and_free_if_last(client);
    pthread_setcancelstate(cancel_state, NULL);
}

static bool any_revoking(const el_client *client)
{
    for (const el_list *link = client->sessions.next; link != &client->sessions; link = link->next) {
        if (EL_CONTAINER(link, el_session, link)->is_revoking) return true;
    }
    return false;
}

static void end_sessions(el_client *client, bool opening_too, int error, const char *reason)
{
    for (el_list *link = client->sessions.next; link != &client->sessions;) {
        el_session *session = EL_CONTAINER(link, el_session, link);
        el_session_ref(session);
        if (opening_too || session->phase != EL_SESSION_OPENING) el_session_end(session, error, reason);
        link = link->next;
        el_session_unref(session);
    }
}

void el_client_take_revision(el_client *client, unsigned restores, int64_t known_revision, int64_t revision)
{
    if (restores != client->restores) return;
    if (revision >= known_revision) {
        if (revision > client->revision) client->revision = revision;
        return;
    }
    client->revision = revision;
    client->restores++;
    el_log(client, ETCDLOCK_LOG_ERROR,
           "etcd's revision went back from %lld to %lld: it was restored from a snapshot",
           (long long)known_revision, (long long)revision);
    /* One that is being opened has no lease yet, or finds at its first renewal that it is gone. */
    end_sessions(client, false, ETCDLOCK_ESESSION,
                 "etcd was restored from a snapshot: its revision went back, fencing tokens start lower");
}

/* With the lock held. */
static void await_revokes(el_client *client)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t limit_ns = client->command_timeout_ns + close_slack_ns;
    until.tv_sec += (time_t)(limit_ns / EL_S);
    until.tv_nsec += (long)(limit_ns % EL_S);
    if (until.tv_nsec >= EL_S) {
        until.tv_sec++;
        until.tv_nsec -= EL_S;
    }
    while (any_revoking(client)) {
        if (pthread_cond_timedwait(&client->quiet, &client->lock, &until) == ETIMEDOUT) return;
    }
}

static bool all_revoked(const el_client *client)
{
    for (const el_list *link = client->sessions.next; link != &client->sessions; link = link->next) {
        const el_session *session = EL_CONTAINER(link, el_session, link);
        if (session->over_error == ECANCELED && !session->is_revoked) return false;
    }
    return true;
}

int el_client_close(el_client *client)
{
    pthread_mutex_lock(&client->lock);
    client->state = EL_CLIENT_CLOSING;
    end_sessions(client, true, ECANCELED, "the client was closed");
    if (client->lanes[EL_LANE_IO].is_running) await_revokes(client);
    int result = all_revoked(client) ? 0 : ETCDLOCK_EUNKNOWN;
    pthread_mutex_unlock(&client->lock);

    end_transport(client);

    pthread_mutex_lock(&client->lock);
    client->log = NULL; /* close is not to wait for a slow reader of what is still queued */
    el_notifier_stop(&client->notifier);
    client->references--;
    unlock_and_free_if_last(client);
    return result;
}

/* ---- endpoints --------------------------------------------------------------------------------------------
 */

void el_client_leave_endpoint(el_client *client, unsigned endpoint, const char *reason)
{
    if (client->endpoint != endpoint || client->transport->n_endpoints == 1) return;
    client->endpoint = (endpoint + 1) % client->transport->n_endpoints;
    el_log(client, ETCDLOCK_LOG_WARNING, "leaving endpoint %u for endpoint %u: %s", endpoint + 1,
           client->endpoint + 1, reason);
}
