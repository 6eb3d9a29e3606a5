#include "torture/rounds.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "torture/calls.h"
#include "torture/chance.h"
#include "torture/resource.h"

enum { ENSURED_MS = 100, LONG_HOLD_ONE_IN = 500, CANCEL_ONE_IN = 60 };

/* One thread, and its present hold. */
typedef struct rounds {
    torture_client *c;
    int number;
    chance chance;
    int resources[LOCKS];
    generation *g;
    int lock;
    etcdlock_mutex *mutex;
    uint64_t token;
    int64_t valid_until_ns;
    bool is_session_over;
} rounds;

static tale_record record_of(const rounds *r, tale_kind kind)
{
    return (tale_record){
        .kind = kind, .slot = r->c->slot, .lock = r->lock, .lease = r->g->lease, .token = r->token};
}

/* The clock is read first, so that what is said is never later than the library's deadline. */
static int64_t valid_until_ns(const rounds *r)
{
    int64_t now_ns = oracle_now_ns();
    return now_ns + etcdlock_mutex_remaining_ms(r->mutex) * 1000000;
}

static void tell_loss(rounds *r, tale_how how, int code)
{
    tale_record record = record_of(r, TALE_LOSS);
    record.what = how;
    record.code = code;
    tale_tell(record);
    if (code == ETCDLOCK_ESESSION) r->is_session_over = true;
}

static int ask(rounds *r)
{
    tale_record record = record_of(r, TALE_CALL);
    int64_t kind = chance_between(&r->chance, 1, 100);
    int64_t began_ns = oracle_now_ns();
    record.what = kind <= 20 ? CALL_TRY : kind <= 45 ? CALL_LOCK : CALL_LOCK_FOR;
    if (record.what == CALL_LOCK_FOR) record.asked_ms = chance_between(&r->chance, 0, kind <= 60 ? 40 : 4000);
    record.code = calls_lock(r->c, r->mutex, (tale_call)record.what, record.asked_ms);
    record.at_ns = began_ns;
    record.span_ns = oracle_now_ns() - began_ns;
    record.token = record.code == 0 ? etcdlock_mutex_token(r->mutex) : 0;
    tale_tell(record);
    return record.code;
}

/* False: the hold is lost. */
static bool work(rounds *r, int64_t ms)
{
    struct pollfd lost = {.fd = etcdlock_mutex_lost_fd(r->mutex), .events = POLLIN};
    int readable = poll(&lost, 1, (int)ms);
    if (etcdlock_mutex_token(r->mutex) == 0) {
        int code = etcdlock_mutex_ensure(r->mutex, 0);
        tell_loss(r, readable > 0 ? HOW_DESCRIPTOR : HOW_TOKEN, code);
        return false;
    }
    int status = etcdlock_mutex_ensure(r->mutex, ENSURED_MS);
    if (status == ETCDLOCK_ESESSION || status == ETCDLOCK_EENTRY) {
        tell_loss(r, HOW_ENSURE, status);
        return false;
    }
    if (status != 0 && status != ETIMEDOUT) odd(r->c, __LINE__, status);
    /* Not ensured: to write all the same is what careless programs do, and what the token is for. */
    return true;
}

static void write_once(rounds *r)
{
    int64_t counter = resource_put(r->resources[r->lock], r->token);
    if (counter > 0)
        oracle_wrote(&r->c->history, lock_name(r->lock), r->token, counter);
    else
        tale_tell(record_of(r, TALE_REFUSED));
}

static void leave(rounds *r, bool is_lost)
{
    const char *name = lock_name(r->lock);
    if (!is_lost && etcdlock_mutex_token(r->mutex) == 0) {
        tell_loss(r, HOW_TOKEN, etcdlock_mutex_ensure(r->mutex, 0));
        is_lost = true;
    }
    if (!is_lost) r->valid_until_ns = valid_until_ns(r);
    oracle_leave(&r->c->history, name, r->token, r->valid_until_ns, is_lost);
    tale_record record = record_of(r, TALE_UNLOCK);
    record.at_ns = oracle_now_ns();
    record.code = calls_unlock(r->c, r->mutex);
    record.span_ns = oracle_now_ns() - record.at_ns;
    record.what = is_lost;
    tale_tell(record);
    bool says_lost = record.code == ETCDLOCK_ESESSION || record.code == ETCDLOCK_EENTRY;
    if (says_lost && !is_lost) tell_loss(r, HOW_UNLOCK, record.code);
    if (is_lost && !says_lost) odd(r->c, __LINE__, record.code);
}

static void hold(rounds *r)
{
    const char *name = lock_name(r->lock);
    bool is_lost = false;
    r->token = etcdlock_mutex_token(r->mutex);
    if (r->token == 0) {
        int status = calls_unlock(r->c, r->mutex);
        if (status != ETCDLOCK_ESESSION && status != ETCDLOCK_EENTRY) odd(r->c, __LINE__, status);
        tell_loss(r, HOW_TOKEN, status);
        return;
    }
    r->valid_until_ns = valid_until_ns(r);
    /* The tale first: the judge asks it for the lease of each hold in the history. */
    tale_tell(record_of(r, TALE_ENTER));
    oracle_enter(&r->c->history, name, r->token, r->valid_until_ns);
    bool is_long = chance_between(&r->chance, 1, LONG_HOLD_ONE_IN) == 1;
    int64_t steps = is_long ? 30 : chance_between(&r->chance, 1, 4);
    for (int64_t i = 0; i < steps && !is_lost && !atomic_load(&r->c->finish); i++) {
        is_lost = !work(r, is_long ? r->c->ttl_s * 50 : chance_between(&r->chance, 0, 15));
        /* Also after a loss, now and then: the resource has to refuse, if somebody else was in. */
        if (!is_lost || i % 2 == 0) write_once(r);
        if (is_lost) break;
        r->valid_until_ns = valid_until_ns(r);
        if (etcdlock_mutex_token(r->mutex) != 0)
            oracle_still(&r->c->history, name, r->token, r->valid_until_ns);
    }
    leave(r, is_lost);
}

static void one_round(rounds *r)
{
    r->token = 0;
    r->is_session_over = false;
    r->lock = (int)chance_between(&r->chance, 0, LOCKS - 1);
    r->mutex = generation_mutex(r->c, r->g, r->number, r->lock);
    if (chance_between(&r->chance, 1, CANCEL_ONE_IN) == 1) {
        int other = (int)chance_between(&r->chance, 0, r->c->threads - 1);
        int status = etcdlock_mutex_cancel(generation_mutex(r->c, r->g, other, r->lock));
        if (status != 0) odd(r->c, __LINE__, status);
        tale_tell(record_of(r, TALE_CANCEL));
    }
    int status = ask(r);
    if (status == 0)
        hold(r);
    else if (status == ETCDLOCK_ESESSION)
        r->is_session_over = true;
    else if (status != ETIMEDOUT && status != ECANCELED)
        usleep((useconds_t)chance_between(&r->chance, 1, 60) * 1000);
}

void rounds_run(torture_client *c, int number)
{
    rounds r = {.c = c, .number = number, .chance = {c->seed * 1000 + (uint64_t)number}};
    for (int i = 0; i < LOCKS; i++)
        r.resources[i] = resource_open(c->folder, i);
    while (!atomic_load(&c->finish) && (r.g = generation_get(c))) {
        one_round(&r);
        bool is_over = r.is_session_over || etcdlock_session_get_state(r.g->session) == ETCDLOCK_SESSION_LOST;
        generation_put(c, r.g, is_over);
    }
    for (int i = 0; i < LOCKS; i++)
        close(r.resources[i]);
}
