/* The first answer after a restore of etcd from a snapshot, whatever was asked: the sessions of the client end,
 * and a new one on the same client works. */
#include <check.h>
#include <errno.h>

#include "core/backoff.h"
#include "core/guard.h"
#include "recipes/mutex.h"
#include "support/solo.h"

typedef enum question { UNLOCK, ENTER, TRY, TRY_HELD, CONFIRM, GUARDED_WRITE, QUESTIONS } question;

typedef struct place {
    el_mutex *mutex;
    el_hold *hold;
    int n_ended;
    int error; /* of the last end */
} place;

static place first, second;

static void hold_done(el_hold *hold, const el_failure *failure)
{
    place *one = hold->user;
    one->n_ended++;
    one->error = failure->error;
}

static void begin(place *one, el_enter_mode mode)
{
    el_failure failure;
    one->n_ended = 0;
    pthread_mutex_lock(&solo_client->lock);
    ck_assert_int_eq(el_mutex_begin(one->mutex, &one->hold, 1, mode, INT64_MAX, hold_done, one, &failure), 0);
    pthread_mutex_unlock(&solo_client->lock);
}

static void begin_unlock(place *one)
{
    el_failure failure;
    bool is_over;
    one->n_ended = 0;
    pthread_mutex_lock(&solo_client->lock);
    ck_assert_int_eq(el_mutex_begin_unlock(one->mutex, 1, hold_done, one, &is_over, &failure), 0);
    pthread_mutex_unlock(&solo_client->lock);
}

static void expect(place *one, int error)
{
    solo_run(1 * EL_S);
    ck_assert_int_eq(one->n_ended, 1);
    ck_assert_int_eq(one->error, error);
}

static void make(place *one, const char *name)
{
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    *one = (place){.n_ended = 0};
    pthread_mutex_lock(&solo_client->lock);
    ck_assert_int_eq(el_mutex_make(&one->mutex, solo_session, name, &options), 0);
    pthread_mutex_unlock(&solo_client->lock);
}

static void drop(place *one)
{
    pthread_mutex_lock(&solo_client->lock);
    el_mutex_free(one->mutex);
    pthread_mutex_unlock(&solo_client->lock);
}

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
        case UNLOCK: begin_unlock(&first); break;
        case ENTER: begin(&second, EL_ENTER_WAIT); break;
        case TRY: begin(&second, EL_ENTER_TRY); break;
        case TRY_HELD:
        case CONFIRM: begin(&second, what == CONFIRM ? EL_ENTER_WAIT : EL_ENTER_TRY); break;
        case GUARDED_WRITE: begin_write(); break;
        case QUESTIONS: break;
    }
}

START_TEST(after_a_restore)
{
    question what = (question)(_i / 2);
    sim_options options = {.seed = 1};
    bool is_same = what == TRY_HELD || what == CONFIRM;
    solo_start(&options, _i % 2);
    make(&first, "first");
    make(&second, is_same ? "first" : "second");
    begin(&first, EL_ENTER_WAIT);
    expect(&first, 0);
    if (what == TRY_HELD) {
        begin(&second, EL_ENTER_TRY); /* the next one looks first */
        expect(&second, EBUSY);
    }
    restore();
    ask(what);
    solo_run(1 * EL_S);
    ck_assert(!el_session_is_live(solo_session));
    ck_assert_int_eq(solo_session->over_error, ETCDLOCK_ESESSION);
    if (what == GUARDED_WRITE) ck_assert_int_eq(n_writes_ended, 1);
    drop(&first);
    drop(&second);

    solo_open_session();
    make(&first, "third");
    begin(&first, EL_ENTER_WAIT);
    expect(&first, 0);
    begin_unlock(&first);
    expect(&first, 0);
    ck_assert_uint_eq(solo_client->gathering.n, 0);
    ck_assert_uint_eq(solo_client->gathering.n_in_flight, 0);
    drop(&first);
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
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
