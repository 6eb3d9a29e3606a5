#include "support/pair.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/backoff.h"
#include "support/drive.h"

static const int64_t patience_ns = 60 * EL_S;

/* ---- moving on
 * ---------------------------------------------------------------------------------------------- */

static bool is_held(const pair_side *side)
{
    return side->hold && side->hold->state == EL_HOLD_HELD && el_hold_is_good(side->hold);
}

static void step(pair *p)
{
    sim_step(p->sim);
    for (int i = 0; i < 2; i++)
        drive_client(p->sides[i].client);
    if (is_held(&p->sides[0]) && is_held(&p->sides[1])) p->both_held = true;
}

static void run_for(pair *p, int64_t ns)
{
    int64_t end_ns = sim_now(p->sim) + ns;
    for (int i = 0; i < 2; i++)
        drive_client(p->sides[i].client);
    while (sim_next_ns(p->sim) < end_ns)
        step(p);
}

static bool await(pair *p, pair_side *side)
{
    int64_t end_ns = sim_now(p->sim) + patience_ns;
    for (int i = 0; i < 2; i++)
        drive_client(p->sides[i].client);
    while (!side->is_done && sim_next_ns(p->sim) < end_ns)
        step(p);
    return side->is_done;
}

/* ---- the story
 * ------------------------------------------------------------------------------------------------ */

static pair *present; /* the callbacks of a session carry no argument */

static void session_opened(el_session *session, const el_failure *failure)
{
    for (int i = 0; i < 2; i++) {
        pair_side *side = &present->sides[i];
        if (side->session != session) continue;
        side->is_done = true;
        side->error = failure->error;
    }
}

static void hold_done(el_hold *hold, const el_failure *failure)
{
    pair_side *side = hold->user;
    side->is_done = true;
    side->error = failure->error;
    if (failure->error || hold->state == EL_HOLD_LEAVING) side->hold = NULL;
}

static void open_side(pair *p, pair_side *side)
{
    el_client_settings settings = {
        .dial_timeout_ns = 2 * EL_S, .command_timeout_ns = 5 * EL_S, .host = "sim"};
    el_session_settings session_settings = {.ttl_s = 60};
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    options.flags = p->flags;
    if (el_client_new(&side->client, side->transport, &settings)) {
        side->client = NULL;
        side->transport = NULL;
        return;
    }
    pthread_mutex_lock(&side->client->lock);
    side->session = el_session_new(side->client, &session_settings);
    side->is_done = !side->session;
    if (side->session) el_session_open(side->session, session_opened);
    pthread_mutex_unlock(&side->client->lock);
    if (!await(p, side) || !side->session) return;
    pthread_mutex_lock(&side->client->lock);
    if (side->session->phase == EL_SESSION_LIVE &&
        el_mutex_make(&side->mutex, side->session, "story", &options))
        side->mutex = NULL;
    pthread_mutex_unlock(&side->client->lock);
}

static void begin_lock(pair_side *side, unsigned thread)
{
    el_failure failure;
    side->is_done = true;
    if (!side->mutex) return;
    pthread_mutex_lock(&side->client->lock);
    side->is_done = el_mutex_begin(side->mutex, &side->hold, thread, EL_ENTER_WAIT, INT64_MAX, hold_done,
                                   side, &failure) != 0;
    pthread_mutex_unlock(&side->client->lock);
}

static void begin_unlock(pair_side *side, unsigned thread)
{
    el_failure failure;
    bool is_over = true;
    if (!side->hold) return;
    pthread_mutex_lock(&side->client->lock);
    el_hold *hold = side->hold;
    side->is_done = false;
    (void)el_mutex_begin_unlock(side->mutex, thread, hold_done, side, &is_over, &failure);
    if (is_over) {
        side->hold = side->hold == hold ? NULL : side->hold;
        side->is_done = true;
    }
    pthread_mutex_unlock(&side->client->lock);
}

static void write_done(el_guard_call *call, const el_guard_end *end)
{
    pair_side *side = call->user;
    side->is_done = true;
    side->has_written = !end->failure.error;
    side->may_have_written = !end->failure.error || end->failure.error == ETCDLOCK_EUNKNOWN;
}

static void begin_write(pair_side *side, const char *value)
{
    if (!side->hold || side->hold->state != EL_HOLD_HELD) return;
    pthread_mutex_lock(&side->client->lock);
    el_guard *guard = el_hold_is_good(side->hold) ? el_guard_of(side->hold->contender) : NULL;
    side->is_done = !guard;
    side->operations[1] = (el_op){.kind = EL_OP_PUT};
    side->operations[1].put.key = (el_span){"register", 8};
    side->operations[1].put.value = (el_span){value, strlen(value)};
    side->write = (el_guard_call){.success = side->operations,
                                  .n_success = 2,
                                  .deadline_ns = sim_now(present->sim) + 5 * EL_S,
                                  .done = write_done,
                                  .user = side};
    if (guard) el_guard_submit(guard, &side->write);
    pthread_mutex_unlock(&side->client->lock);
}

/* What is in the register is what was written last, as its writers were told. */
static const char *judge_register(const pair *p)
{
    sim_key_info info;
    const char *is = sim_keys(p->sim, "register", &info, 1) > 0 ? info.value.data : "";
    bool is_second = *is == 'b', is_first = *is == 'a';
    if (p->sides[1].has_written && !is_second) return "the second write is lost";
    if (p->sides[0].has_written && !is_first && !is_second) return "the first write is lost";
    if (is_first && !p->sides[0].may_have_written) return "the first write was told to have failed";
    if (is_second && !p->sides[1].may_have_written) return "the second write was told to have failed";
    if (!*is || info.version <= p->sides[0].may_have_written + p->sides[1].may_have_written) return NULL;
    return "a write was applied twice";
}

static const char *story(pair *p)
{
    pair_side *a = &p->sides[0], *b = &p->sides[1];
    for (int i = 0; i < 2; i++)
        open_side(p, &p->sides[i]);
    begin_lock(a, 1);
    if (!await(p, a)) return "the first lock call does not end";
    begin_write(a, "a");
    if (!await(p, a)) return "the first write does not end";
    begin_lock(b, 2);
    run_for(p, 300 * EL_MS); /* long enough for both to watch their own entries */
    begin_unlock(a, 1);
    if (!await(p, a)) return "the first unlock call does not end";
    el_alloc_fail_after(-1);
    if (!await(p, b)) return "the second lock call does not end";
    begin_write(b, "b");
    if (!await(p, b)) return "the second write does not end";
    begin_unlock(b, 2);
    return await(p, b) ? NULL : "the second unlock call does not end";
}

/* ---- the end
 * ---------------------------------------------------------------------------------------------------- */

static void end_side(pair *p, pair_side *side)
{
    if (!side->client) return;
    pthread_mutex_lock(&side->client->lock);
    if (side->session) el_session_end(side->session, ECANCELED, "the story ends");
    pthread_mutex_unlock(&side->client->lock);
    run_for(p, 20 * EL_S);
    pthread_mutex_lock(&side->client->lock);
    while (side->mutex && !el_list_is_empty(&side->mutex->holds))
        el_hold_abandon(EL_CONTAINER(side->mutex->holds.next, el_hold, link));
    if (side->mutex) el_mutex_free(side->mutex);
    if (side->session) el_session_unref(side->session);
    pthread_mutex_unlock(&side->client->lock);
    (void)el_client_close(side->client);
    side->client = NULL;
}

const char *pair_tell(pair *p, void (*prepare)(pair *p, void *context), void *context)
{
    long alive = el_alloc_alive();
    sim_options options = {.seed = 1};
    *p = (pair){.sim = sim_new(&options)};
    present = p;
    for (int i = 0; i < 2; i++)
        p->sides[i].transport = sim_client_new(p->sim);
    if (prepare) prepare(p, context);
    const char *wrong = story(p);
    el_alloc_fail_after(-1);
    sim_heal(p->sim);
    run_for(p, 60 * EL_S);
    sim_key_info info;
    bool any_live = false;
    for (int i = 0; i < 2; i++)
        any_live |= p->sides[i].session && p->sides[i].session->phase == EL_SESSION_LIVE;
    if (!wrong && p->both_held) wrong = "both held it at once";
    if (!wrong) wrong = judge_register(p);
    if (!wrong && any_live && sim_keys(p->sim, "story/", &info, 1) > 0) wrong = "a key is left behind";
    for (int i = 0; i < 2; i++)
        end_side(p, &p->sides[i]);
    if (!wrong && sim_leases_alive(p->sim) > 0) wrong = "a lease is left behind";
    sim_free(p->sim);
    if (!wrong && el_alloc_alive() != alive) wrong = "memory is leaked";
    return wrong;
}
