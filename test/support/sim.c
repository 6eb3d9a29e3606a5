#include "support/sim.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/sim_client.h"

#define START_NS (1000 * SIM_S) /* so that differences do not go below zero */

/* ---- clock, luck, agenda ---------------------------------------------------------------------------------
 */

void sim_lock(sim *s)
{
    if (s->options.realtime) pthread_mutex_lock(&s->mutex);
}

void sim_unlock(sim *s)
{
    if (s->options.realtime) pthread_mutex_unlock(&s->mutex);
}

static int64_t boottime_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * SIM_S + now.tv_nsec;
}

int64_t sim_now(sim *s)
{
    if (!s->options.realtime) return s->now_ns;
    return START_NS + (boottime_ns() - s->real_start_ns) * s->options.speed;
}

void sim_real_deadline(const sim *s, int64_t duration_ns, struct timespec *until)
{
    int64_t real_ns = duration_ns > 0 ? duration_ns / s->options.speed + 1 : 0;
    if (real_ns > 3600 * SIM_S) real_ns = 3600 * SIM_S; /* whoever waits looks again afterwards */
    clock_gettime(CLOCK_MONOTONIC, until);
    int64_t ns = until->tv_nsec + real_ns % SIM_S;
    until->tv_sec += real_ns / SIM_S + ns / SIM_S;
    until->tv_nsec = ns % SIM_S;
}

void sim_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* One step of a splitmix generator: equidistributed and good enough for schedules. */
uint64_t sim_random(sim *s)
{
    sim_lock(s);
    uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);
    sim_unlock(s);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

double sim_chance(sim *s)
{
    return (double)(sim_random(s) >> 11) * 0x1p-53;
}

int64_t sim_between(sim *s, int64_t low, int64_t high)
{
    if (high <= low) return low;
    return low + (int64_t)(sim_random(s) % ((uint64_t)(high - low) + 1));
}

int64_t sim_latency(sim *s)
{
    return sim_between(s, s->faults.latency_min_ns, s->faults.latency_max_ns);
}

void sim_schedule(sim *s, sim_event *event, int64_t at_ns)
{
    sim_event_set(&s->agenda, event, at_ns);
    if (s->options.realtime && sim_event_first(&s->agenda) == event) pthread_cond_signal(&s->agenda_changed);
}

static void run_first(sim *s)
{
    sim_event *event = sim_event_first(&s->agenda);
    if (event->at_ns > s->now_ns) s->now_ns = event->at_ns;
    sim_event_clear(&s->agenda, event);
    event->run(event->owner);
}

bool sim_step(sim *s)
{
    if (!sim_event_first(&s->agenda)) return false;
    run_first(s);
    return true;
}

int64_t sim_next_ns(sim *s)
{
    const sim_event *event = sim_event_first(&s->agenda);
    return event ? event->at_ns : INT64_MAX;
}

static void *serve_in_real_time(void *owner)
{
    sim *s = owner;
    sim_lock(s);
    while (!s->stopping) {
        const sim_event *event = sim_event_first(&s->agenda);
        int64_t now_ns = sim_now(s);
        if (event && event->at_ns <= now_ns) {
            run_first(s);
        } else if (event) {
            struct timespec until;
            sim_real_deadline(s, event->at_ns - now_ns, &until);
            pthread_cond_timedwait(&s->agenda_changed, &s->mutex, &until);
        } else {
            pthread_cond_wait(&s->agenda_changed, &s->mutex);
        }
    }
    sim_unlock(s);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------------------
 */

sim_faults sim_calm(void)
{
    return (sim_faults){
        .unsynced = 0.15,
        .latency_min_ns = SIM_MS / 10,
        .latency_max_ns = SIM_MS / 2,
        .lag_max_ns = SIM_MS,
    };
}

static void start_real_time(sim *s)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&s->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    sim_cond_init(&s->agenda_changed);
    s->real_start_ns = boottime_ns();
    if (pthread_create(&s->server, NULL, serve_in_real_time, s)) abort();
}

sim *sim_new(const sim_options *options)
{
    sim *s = sim_alloc(sizeof *s);
    if (options) s->options = *options;
    if (!s->options.members) s->options.members = 1;
    if (!s->options.max_txn_ops) s->options.max_txn_ops = SIM_MAX_TXN_OPS;
    if (!s->options.speed) s->options.speed = 1;
    if (s->options.members > SIM_MEMBERS_MAX) abort();
    s->random = s->options.seed;
    s->faults = sim_calm();
    s->now_ns = START_NS;
    s->next_lease_id = INT64_C(0x32695fd1c8a00000); /* above 2^53, as etcd's own */
    sim_auth_renew_token(s);
    sim_store_init(&s->store);
    s->log = sim_grow(NULL, &s->log_capacity, 1, sizeof *s->log);
    s->log[s->log_end++] = s->store.revision;
    bool realtime = s->options.realtime;
    s->options.realtime = false; /* no locks before they exist */
    sim_members_init(s);
    s->options.realtime = realtime;
    if (realtime) start_real_time(s);
    return s;
}

static void stop_real_time(sim *s)
{
    sim_lock(s);
    s->stopping = true;
    pthread_cond_signal(&s->agenda_changed);
    sim_unlock(s);
    pthread_join(s->server, NULL);
    s->now_ns = sim_now(s);
    s->options.realtime = false;
    for (sim_client *client = s->clients; client; client = client->next)
        for (int lane = 0; lane < EL_LANES; lane++)
            pthread_cond_destroy(&client->lanes[lane].changed);
    pthread_cond_destroy(&s->agenda_changed);
    pthread_mutex_destroy(&s->mutex);
}

void sim_free(sim *s)
{
    for (sim_client *client = s->clients; client; client = client->next)
        if (!client->gone) abort();
    if (s->options.realtime) stop_real_time(s);
    /* With everything healed the agenda runs dry, and all that was under way is freed on arrival. */
    s->hook = NULL;
    sim_heal(s);
    sim_members_clear(s);
    while (sim_step(s)) {
    }
    sim_members_clear(s);
    sim_leases_clear(s);
    while (s->clients) {
        sim_client *client = s->clients;
        s->clients = client->next;
        free(client);
    }
    sim_store_clear(&s->store);
    free(s->log);
    free(s->agenda.heap);
    free(s);
}

/* ---- settings --------------------------------------------------------------------------------------------
 */

void sim_set_faults(sim *s, const sim_faults *faults)
{
    sim_lock(s);
    s->faults = *faults;
    sim_unlock(s);
}

void sim_set_nospace(sim *s, bool full)
{
    sim_lock(s);
    s->full = full;
    sim_unlock(s);
}

void sim_refuse_watches(sim *s, const char *reason)
{
    sim_lock(s);
    s->watch_refusal = reason;
    sim_unlock(s);
}

void sim_set_hook(sim *s, void (*hook)(void *context, sim *s, int64_t revision), void *context)
{
    sim_lock(s);
    s->hook = hook;
    s->hook_context = context;
    sim_unlock(s);
}
