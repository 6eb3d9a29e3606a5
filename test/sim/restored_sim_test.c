/* The first answer after a restore of etcd from a snapshot, whatever was asked: the sessions of the client
 * end, and a new one on the same client works. */
#include <check.h>
#include <errno.h>

#include "core/backoff.h"
#include "core/guard.h"
#include "support/runner.h"
#include "support/solo.h"

typedef enum question { UNLOCK, ENTER, TRY, TRY_HELD, CONFIRM, GUARDED_WRITE, QUESTIONS } question;

static solo_lock first, second;

/* ---- a guarded write ---- */

static int n_writes_ended;

static void write_done(el_guard_call *call, const el_guard_end *end)
{
    (void)call;
    (void)end; /* it was applied; whether the loss is known first does not matter */
    n_writes_ended++;
}

static void begin_write(void)
{
    static el_op ops[2];
    static el_guard_call call;
    ops[1] = (el_op){.kind = EL_OP_PUT, .put = {.key = {"data", 4}, .value = {"x", 1}}};
    call = (el_guard_call){
        .success = ops, .n_success = 2, .deadline_ns = sim_now(solo_sim) + EL_S, .done = write_done};
    n_writes_ended = 0;
    pthread_mutex_lock(&solo_client->lock);
    el_guard_submit(el_guard_of(first.hold->contender), &call);
    pthread_mutex_unlock(&solo_client->lock);
}

/* ---- the restore ---- */

/* The store seems to have gone back if this side has seen more than there is. */
static void restore(void)
{
    pthread_mutex_lock(&solo_client->lock);
    solo_client->revision += 1000000;
    pthread_mutex_unlock(&solo_client->lock);
}

static void ask(question what)
{
    switch (what) {
    case UNLOCK:
        solo_unlock(&first);
        break;
    case ENTER:
        solo_begin(&second, EL_ENTER_WAIT);
        break;
    case TRY:
        solo_begin(&second, EL_ENTER_TRY);
        break;
    case TRY_HELD:
    case CONFIRM:
        solo_begin(&second, what == CONFIRM ? EL_ENTER_WAIT : EL_ENTER_TRY);
        break;
    case GUARDED_WRITE:
        begin_write();
        break;
    case QUESTIONS:
        break;
    }
}

START_TEST(after_a_restore)
{
    question what = (question)(_i / 2);
    sim_options options = {.seed = 1};
    bool is_same = what == TRY_HELD || what == CONFIRM;
    solo_start(&options, &(el_client_settings){.group_max = _i % 2});
    solo_make(&first, "first");
    solo_make(&second, is_same ? "first" : "second");
    solo_begin(&first, EL_ENTER_WAIT);
    solo_expect(&first, 0);
    if (what == TRY_HELD) {
        solo_begin(&second, EL_ENTER_TRY); /* the next one looks first */
        solo_expect(&second, EBUSY);
    }
    restore();
    ask(what);
    solo_run(1 * EL_S);
    ck_assert(!el_session_is_live(solo_session));
    ck_assert_int_eq(solo_session->over_error, ETCDLOCK_ESESSION);
    if (what == GUARDED_WRITE) ck_assert_int_eq(n_writes_ended, 1);
    solo_drop(&first);
    solo_drop(&second);

    solo_open_session();
    solo_make(&first, "third");
    solo_begin(&first, EL_ENTER_WAIT);
    solo_expect(&first, 0);
    solo_unlock(&first);
    solo_expect(&first, 0);
    ck_assert_uint_eq(solo_client->gathering.n, 0);
    ck_assert_uint_eq(solo_client->gathering.n_in_flight, 0);
    solo_drop(&first);
    solo_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("restored_sim");
    TCase *all = tcase_create("restored");
    tcase_set_timeout(all, 0);
    tcase_add_loop_test(all, after_a_restore, 0, 2 * QUESTIONS);
    suite_add_tcase(suite, all);
    return runner_run(suite);
}
