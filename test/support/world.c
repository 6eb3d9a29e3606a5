#include "support/world.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/backoff.h"

static const int64_t patience_ns =
    300 * EL_S; /* virtual: a healed world in which waits last longer is stuck */
static const int64_t settle_ns = 60 * EL_S;

/* ---- small things ----------------------------------------------------------------------------------------
 */

void world_say(world *w, const char *format, ...)
{
    if (!w->is_loud) return;
    va_list arguments;
    va_start(arguments, format);
    printf("%12.6f  ", (double)w->now_ns / 1e9);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
}

void world_breach(world *w, const char *format, ...)
{
    if (w->breach[0]) return;
    va_list arguments;
    va_start(arguments, format);
    int n = snprintf(w->breach, sizeof(w->breach), "at %.6f s: ", (double)w->now_ns / 1e9);
    vsnprintf(w->breach + n, sizeof(w->breach) - (size_t)n, format, arguments);
    va_end(arguments);
    world_say(w, "BREACH %s", w->breach);
}

uint64_t world_random(world *w, uint64_t below)
{
    return sim_random(w->sim) % below;
}

bool world_chance(world *w, double probability)
{
    return sim_chance(w->sim) < probability;
}

const char *world_lock_name(unsigned lock)
{
    static const char *const names[WORLD_LOCKS_MAX] = {"jobs", "jobs/nested", "b"};
    return names[lock];
}

static void take_log(etcdlock_log_level level, const char *message, void *arg)
{
    world_client *c = arg;
    (void)level;
    world_say(c->world, "client %d: %s", (int)(c - c->world->clients), message);
}

/* ---- clients
 * ----------------------------------------------------------------------------------------------- */

static void session_opened(el_session *session, const el_failure *failure)
{
    if (failure->error) session->over_error = failure->error;
}

static void open_session(world_client *c)
{
    el_session_settings settings = {.ttl_s = 2 + (int64_t)world_random(c->world, 9)};
    c->session = el_session_new(c->client, &settings);
    el_session_open(c->session, session_opened);
}

static void bind_all(world_client *c)
{
    for (unsigned lock = 0; lock < c->world->n_locks; lock++) {
        el_mutex_rebind(c->shared[lock], c->session);
        for (unsigned i = 0; i < c->n_actors; i++)
            el_mutex_rebind(c->actors[i].own[lock], c->session);
    }
}

/* A program that goes on after a loss opens a new session. */
static void tend_session(world_client *c)
{
    world *w = c->world;
    if (c->session && c->session->phase == EL_SESSION_OVER) {
        el_session_unref(c->session);
        c->session = NULL;
        c->reopen_ns = w->now_ns + (int64_t)world_random(w, 2 * EL_S);
    }
    if (!c->session && w->now_ns >= c->reopen_ns) {
        open_session(c);
        bind_all(c);
    }
}

static void make_client(world *w, unsigned i, unsigned *n_actors)
{
    /* Each alone; several groups in flight; groups that are hardly ever full. */
    static const unsigned group_max[] = {1, 3, 5, 0};
    world_client *c = &w->clients[i];
    el_client_settings settings = {
        .dial_timeout_ns = 2 * EL_S,
        .command_timeout_ns = 5 * EL_S,
        .host = "sim",
        .group_max = group_max[w->seed % 4],
        .log = w->is_loud ? take_log : NULL,
        .log_arg = c,
        .log_level = ETCDLOCK_LOG_DEBUG,
    };
    c->world = w;
    c->transport = sim_client_new(w->sim);
    if (el_client_new(&c->client, c->transport, &settings)) world_breach(w, "no client");
    c->n_actors = 1 + (unsigned)world_random(w, WORLD_ACTORS_MAX);
    pthread_mutex_lock(&c->client->lock);
    open_session(c);
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    options.flags = w->is_robust ? ETCDLOCK_ROBUST : 0;
    options.lock_delay_ms = w->lock_delay_ns / EL_MS;
    for (unsigned lock = 0; lock < w->n_locks; lock++)
        (void)el_mutex_make(&c->shared[lock], c->session, world_lock_name(lock), &options);
    for (unsigned k = 0; k < c->n_actors; k++) {
        actor *a = &c->actors[k];
        a->client = c;
        a->number = ++*n_actors;
        a->next_ns = (int64_t)world_random(w, 500 * EL_MS);
        for (unsigned lock = 0; lock < w->n_locks; lock++)
            (void)el_mutex_make(&a->own[lock], c->session, world_lock_name(lock), &options);
    }
    pthread_mutex_unlock(&c->client->lock);
}

/* ---- stepping
 * ------------------------------------------------------------------------------------------------ */

static int64_t act_all(world_client *c)
{
    world *w = c->world;
    int64_t next_ns = INT64_MAX;
    if (w->is_over) return next_ns;
    pthread_mutex_lock(&c->client->lock);
    tend_session(c);
    for (unsigned i = 0; i < c->n_actors; i++) {
        actor *a = &c->actors[i];
        if (a->next_ns <= w->now_ns) actor_act(a);
        if (a->next_ns < next_ns) next_ns = a->next_ns;
    }
    if (!c->session && c->reopen_ns > w->now_ns && c->reopen_ns < next_ns) next_ns = c->reopen_ns;
    pthread_mutex_unlock(&c->client->lock);
    return next_ns;
}

static void run_client(world_client *c)
{
    world *w = c->world;
    bool any = true, ended;
    while (any) {
        any = false;
        for (int lane = 0; lane < EL_LANES; lane++)
            while (el_client_turn(c->client, (el_lane)lane, false, &ended))
                any = true;
        for (int lane = 0; lane < EL_LANES; lane++)
            if (el_client_next_ns(c->client, (el_lane)lane) <= w->now_ns) any = true;
    }
    if (w->is_loud) el_notifier_run_all(&c->client->notifier);
}

/* A process that was stopped inside `next` first delivers what it finds there, before any timer. */
static void wake_up(world_client *c)
{
    bool ended;
    for (int lane = 0; lane < EL_LANES; lane++) {
        el_completion *completion = c->transport->next(c->transport, (el_lane)lane, INT64_MIN, &ended);
        if (!completion) continue;
        pthread_mutex_lock(&c->client->lock);
        c->transport->deliver(c->transport, completion);
        pthread_mutex_unlock(&c->client->lock);
    }
    c->was_frozen = false;
}

static void tend_client(world_client *c)
{
    if (sim_frozen(c->transport)) {
        c->was_frozen = true;
        return;
    }
    if (c->was_frozen) wake_up(c);
    run_client(c);
    int64_t act_ns = act_all(c);
    run_client(c);
    for (int lane = 0; lane < EL_LANES; lane++) {
        int64_t next_ns = el_client_next_ns(c->client, (el_lane)lane);
        if (lane == EL_LANE_IO && act_ns < next_ns) next_ns = act_ns;
        sim_wake_at(c->transport, (el_lane)lane, next_ns);
    }
}

void world_step(world *w)
{
    sim_step(w->sim);
    w->now_ns = sim_now(w->sim);
    w->counts.steps++;
    for (unsigned i = 0; i < w->n_clients; i++)
        tend_client(&w->clients[i]);
    check_after_step(w);
}

static bool all_idle(const world *w)
{
    for (unsigned i = 0; i < w->n_clients; i++) {
        const world_client *c = &w->clients[i];
        for (unsigned k = 0; k < c->n_actors; k++)
            if (c->actors[k].state != ACTOR_IDLE || c->actors[k].write.is_under_way ||
                c->actors[k].is_repairing)
                return false;
    }
    return true;
}

static void run_until(world *w, int64_t until_ns)
{
    while (w->now_ns < until_ns && !w->breach[0] && sim_next_ns(w->sim) < until_ns)
        world_step(w);
}

static void trouble(world *w)
{
    while (w->now_ns < w->trouble_end_ns && !w->breach[0]) {
        if (w->now_ns >= w->next_trouble_ns) nemesis_act(w);
        world_step(w);
    }
}

static void thaw_all(world *w)
{
    for (unsigned i = 0; i < w->n_clients; i++)
        if (sim_frozen(w->clients[i].transport)) sim_freeze(w->clients[i].transport, w->now_ns);
}

/* For a breach: where a contender stands. */
static const char *describe(const el_contender *c)
{
    static char text[500];
    const el_hub *hub = &c->client->hub;
    const el_watch *own = c->own.watcher.watch, *before = c->predecessor.watcher.watch;
    snprintf(text, sizeof(text),
             "%s state %d owned %d create %lld late %d, own watch ready %d from %lld reading %d; predecessor "
             "%.*s create "
             "%lld seen %lld, watch ready %d from %lld deleted %lld reading %d; stream %d commit %d kind %d",
             c->key, (int)c->state, c->owner != NULL, (long long)c->place.create_revision,
             (int)c->may_come_late, own ? own->is_ready : -1, own ? (long long)own->from_revision : -1,
             c->own.read != NULL, (int)c->predecessor.key.size,
             c->predecessor.key.size ? c->predecessor_key : "", (long long)c->predecessor.create_revision,
             (long long)c->predecessor.seen_revision, before ? before->is_ready : -1,
             before ? (long long)before->from_revision : -1,
             before ? (long long)before->deleted_revision : -1, c->predecessor.read != NULL, (int)hub->state,
             (int)c->commit.is_under_way, (int)c->commit.kind);
    return text;
}

/* Invariant 6: a wait ends within a second of its own entry's end (and a watch may be late by 100 ms). */
static void test_own_end(world *w)
{
    run_until(w, w->now_ns + 500 * EL_MS);
    actor *a = nemesis_delete_waiter(w);
    if (!a) return;
    unsigned attempt = a->attempts;
    run_until(w, w->now_ns + 1100 * EL_MS);
    w->counts.checks++;
    if (a->state == ACTOR_WAITING && a->attempts == attempt)
        world_breach(w, "actor %u still waits, a second after its entry was deleted: %s", a->number,
                     describe(a->hold->contender));
}

static void say_keys(world *w)
{
    sim_key_info keys[32];
    size_t n = sim_keys(w->sim, "", keys, 32);
    for (size_t i = 0; i < n && i < 32; i++)
        world_say(w, "key %.*s create %lld lease %llx", (int)keys[i].key.size, keys[i].key.data,
                  (long long)keys[i].create_revision, (unsigned long long)keys[i].lease);
}

static void say_contenders(world *w)
{
    for (unsigned i = 0; i < w->n_clients; i++) {
        el_session *session = w->clients[i].session;
        if (!session) continue;
        for (el_list *link = session->contenders.next; link != &session->contenders; link = link->next)
            world_say(w, "client %u: %s", i, describe(EL_CONTAINER(link, el_contender, link)));
    }
}

static void breach_if_stuck(const actor *a)
{
    if (a->write.is_under_way)
        world_breach(a->client->world, "actor %u: a guarded call never ends", a->number);
    if (a->state == ACTOR_IDLE) return;
    say_keys(a->client->world);
    say_contenders(a->client->world);
    world_breach(a->client->world, "actor %u is stuck in state %d, long after everything was healed: %s",
                 a->number, (int)a->state,
                 a->hold && a->hold->contender ? describe(a->hold->contender) : "without a place");
}

static void end_all(world *w)
{
    int64_t limit_ns = w->now_ns + patience_ns;
    w->is_ending = true;
    while (!all_idle(w) && !w->breach[0] && w->now_ns < limit_ns)
        world_step(w);
    for (unsigned i = 0; !w->breach[0] && i < w->n_clients; i++)
        for (unsigned k = 0; k < w->clients[i].n_actors; k++)
            breach_if_stuck(&w->clients[i].actors[k]);
    run_until(w, w->now_ns + settle_ns);
    if (!w->breach[0]) check_settled(w);
}

/* ---- the end
 * ---------------------------------------------------------------------------------------------------- */

/* Also those that were lost long ago: what is left of them is held by what they have left undone. */
static void check_sessions_empty(world_client *c)
{
    el_list *sessions = &c->client->sessions;
    for (el_list *link = sessions->next; link != sessions; link = link->next) {
        el_session *session = EL_CONTAINER(link, el_session, link);
        if (!el_list_is_empty(&session->contenders))
            world_breach(c->world, "a contender outlives its session: %s",
                         describe(EL_CONTAINER(session->contenders.next, el_contender, link)));
    }
}

static void end_sessions(world *w)
{
    w->is_over = true;
    for (unsigned i = 0; i < w->n_clients; i++) {
        world_client *c = &w->clients[i];
        pthread_mutex_lock(&c->client->lock);
        if (c->session) el_session_end(c->session, ECANCELED, "the world ends");
        pthread_mutex_unlock(&c->client->lock);
    }
    run_until(w, w->now_ns + 30 * EL_S);
    for (unsigned i = 0; i < w->n_clients; i++)
        check_sessions_empty(&w->clients[i]);
    if (!w->breach[0] && sim_leases_alive(w->sim) > 0)
        world_breach(w, "%zu leases outlive their sessions", sim_leases_alive(w->sim));
    if (!w->breach[0] && sim_requests_left(w->sim) > 0)
        world_breach(w, "%zu requests are still under way at the end", sim_requests_left(w->sim));
}

static void free_mutex(el_mutex *mutex)
{
    while (!el_list_is_empty(&mutex->holds))
        el_hold_abandon(EL_CONTAINER(mutex->holds.next, el_hold, link));
    el_mutex_free(mutex);
}

static void free_client(world_client *c)
{
    pthread_mutex_lock(&c->client->lock);
    for (unsigned lock = 0; lock < c->world->n_locks; lock++) {
        free_mutex(c->shared[lock]);
        for (unsigned i = 0; i < c->n_actors; i++)
            free_mutex(c->actors[i].own[lock]);
    }
    if (c->session) el_session_unref(c->session);
    pthread_mutex_unlock(&c->client->lock);
    (void)el_client_close(c->client);
}

bool world_run(world *w, const world_options *options)
{
    long alive = el_alloc_alive();
    *w = (world){.seed = options->seed, .is_loud = options->is_loud, .trouble_end_ns = options->trouble_ns};
    sim_options sim_settings = {.seed = options->seed};
    uint64_t members = options->seed % 5;
    sim_settings.members = members < 2 ? 1 : members < 4 ? 3 : 5;
    w->n_members = sim_settings.members;
    w->is_robust = options->seed % 3 == 0;
    if (options->seed % 7 < 2) w->lock_delay_ns = (int64_t)(1 + options->seed % 11) * 100 * EL_MS;
    w->sim = sim_new(&sim_settings);
    w->n_locks = 1 + (unsigned)world_random(w, WORLD_LOCKS_MAX);
    w->n_clients = 2 + (unsigned)world_random(w, WORLD_CLIENTS_MAX - 1);
    w->trouble_end_ns = sim_now(w->sim) + options->trouble_ns;
    w->now_ns = sim_now(w->sim);
    sim_set_hook(w->sim, check_hook, w);
    unsigned n_actors = 0;
    for (unsigned i = 0; i < w->n_clients; i++)
        make_client(w, i, &n_actors);
    if (options->is_calm) {
        w->next_trouble_ns = INT64_MAX;
    } else {
        nemesis_set_rates(w);
    }
    trouble(w);
    sim_heal(w->sim);
    nemesis_clean_up(w);
    thaw_all(w);
    w->next_trouble_ns = INT64_MAX;
    world_say(w, "healed");
    run_until(w, w->now_ns + 15 * EL_S);
    if (!w->breach[0]) test_own_end(w);
    if (!w->breach[0]) end_all(w);
    if (!w->breach[0]) end_sessions(w);
    for (unsigned i = 0; i < w->n_clients; i++)
        free_client(&w->clients[i]);
    sim_free(w->sim);
    if (!w->breach[0] && el_alloc_alive() != alive)
        world_breach(w, "%ld blocks of memory leaked", el_alloc_alive() - alive);
    return !w->breach[0];
}
