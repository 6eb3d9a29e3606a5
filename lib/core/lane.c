/* The lanes: threads that wait for the transport and for timers, and hand both to the state machines. */
#include <errno.h>

#include "core/backoff.h"
#include "core/client.h"
#include "core/lane.h"
#include "core/process.h"

/* After something happened a lane naps instead of sleeping for ever, so that a timer set by another thread,
 * due later than this, need not wake it: that would cost every call with a deadline a trip through the
 * kernel. */
static const int64_t nap_ns = 1 * EL_S;

/* One turn fires at most so many timers before completions are looked at again. */
enum { TIMERS_PER_TURN = 64 };

void el_client_timer_set(el_client *client, el_lane lane, el_timer *timer, int64_t due_ns)
{
    el_lane_state *state = &client->lanes[lane];
    el_timers_set(&state->timers, timer, due_ns);
    if (due_ns < state->sleeping_until_ns) client->transport->wake(client->transport, lane);
}

void el_client_timer_clear(el_client *client, el_lane lane, el_timer *timer)
{
    el_timers_clear(&client->lanes[lane].timers, timer);
}

int64_t el_client_next_ns(el_client *client, el_lane lane)
{
    pthread_mutex_lock(&client->lock);
    int64_t next_ns = el_timers_next_ns(&client->lanes[lane].timers);
    pthread_mutex_unlock(&client->lock);
    return next_ns;
}

static int64_t fire_due(el_client *client, el_lane_state *state)
{
    for (int i = 0; i < TIMERS_PER_TURN; i++) {
        el_timer *timer = el_timers_take_due(&state->timers, el_now(client));
        if (!timer) break;
        timer->fire(timer);
    }
    return el_timers_next_ns(&state->timers);
}

void el_client_fire_rest(el_client *client, el_lane lane)
{
    el_lane_state *state = &client->lanes[lane];
    while (el_timers_next_ns(&state->timers) <= el_now(client))
        (void)fire_due(client, state);
}

bool el_client_turn(el_client *client, el_lane lane, bool may_wait, bool *ended)
{
    el_lane_state *state = &client->lanes[lane];
    el_transport *transport = client->transport;

    pthread_mutex_lock(&client->lock);
    int64_t until_ns = fire_due(client, state);
    if (!may_wait) until_ns = INT64_MIN;
    int64_t now_ns = el_now(client);
    if (may_wait && now_ns - state->last_active_ns < nap_ns && until_ns > now_ns + nap_ns)
        until_ns = now_ns + nap_ns;
    state->sleeping_until_ns = until_ns;
    pthread_mutex_unlock(&client->lock);

    *ended = false;
    el_completion *completion = transport->next(transport, lane, until_ns, ended);

    pthread_mutex_lock(&client->lock);
    state->sleeping_until_ns = INT64_MIN;
    if (completion) {
        state->last_active_ns = el_now(client);
        transport->deliver(transport, completion);
    }
    pthread_mutex_unlock(&client->lock);
    return completion != NULL;
}

static void *run(void *argument)
{
    el_lane_state *state = argument;
    bool ended = false;
    while (!ended)
        (void)el_client_turn(state->client, state->lane, true, &ended);
    return NULL;
}

int el_lane_start(el_client *client, el_lane lane)
{
    el_lane_state *state = &client->lanes[lane];
    if (el_process_start_thread(&state->thread, run, state)) return EAGAIN;
    state->is_running = true;
    return 0;
}

void el_lane_join(el_client *client, el_lane lane)
{
    el_lane_state *state = &client->lanes[lane];
    if (state->is_running) pthread_join(state->thread, NULL);
    state->is_running = false;
}
