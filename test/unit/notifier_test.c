/* lib/core/notifier.c: callbacks in order, on a thread of their own, without the lock. */
#include "core/notifier.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/runner.h"

enum { NOTICES = 5 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static el_notifier notifier;
static el_notice notices[NOTICES];
static char ran[64]; /* one letter for each run */
static atomic_bool is_inside, may_go;

static void pause_ms(long ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static void wait_until(const atomic_bool *condition)
{
    while (!atomic_load(condition))
        pause_ms(1);
}

/* Takes the lock itself: it must be free in a callback. */
static void run(el_notice *notice)
{
    pthread_mutex_lock(&lock);
    ran[strlen(ran)] = (char)('a' + (notice - notices));
    pthread_mutex_unlock(&lock);
}

static void run_long(el_notice *notice)
{
    atomic_store(&is_inside, true);
    wait_until(&may_go);
    run(notice);
}

static void begin(bool is_inline)
{
    memset(&notifier, 0, sizeof(notifier));
    memset(notices, 0, sizeof(notices));
    memset(ran, 0, sizeof(ran));
    atomic_store(&is_inside, false);
    atomic_store(&may_go, false);
    for (int i = 0; i < NOTICES; i++) {
        notices[i].run = run;
        notices[i].subject = &notices[i];
    }
    ck_assert_int_eq(el_notifier_init(&notifier, &lock, is_inline), 0);
    pthread_mutex_lock(&lock);
}

static void end(void)
{
    el_notifier_stop(&notifier);
    pthread_mutex_unlock(&lock);
    el_notifier_destroy(&notifier);
}

static void post(int i)
{
    ck_assert_int_eq(el_notifier_post(&notifier, &notices[i]), 0);
}

/* The first notice runs and stays inside until may_go. */
static void begin_with_long_one(void)
{
    begin(false);
    notices[0].run = run_long;
    post(0);
    pthread_mutex_unlock(&lock);
    wait_until(&is_inside);
    pthread_mutex_lock(&lock);
}

/* Notices run in the order of posting; one that is queued already is not queued twice. */
START_TEST(order)
{
    begin_with_long_one();
    post(2);
    post(1);
    post(2);
    post(3);
    ck_assert(notices[2].is_queued);
    ck_assert_str_eq(ran, "");
    atomic_store(&may_go, true);
    end();
    ck_assert_str_eq(ran, "acbd");
    ck_assert(!notices[2].is_queued);
}
END_TEST

/* A notice that runs may be posted again meanwhile and runs once more. */
START_TEST(again_while_running)
{
    begin_with_long_one();
    post(0);
    post(1);
    atomic_store(&may_go, true);
    end();
    ck_assert_str_eq(ran, "aab");
}
END_TEST

/* A notice withdrawn before it began never runs; withdrawing one that is not queued does no harm. */
START_TEST(withdraw)
{
    begin_with_long_one();
    post(1);
    post(2);
    el_notifier_withdraw(&notifier, &notices[1]);
    el_notifier_withdraw(&notifier, &notices[1]);
    el_notifier_withdraw(&notifier, &notices[0]);
    ck_assert(!notices[1].is_queued);
    atomic_store(&may_go, true);
    end();
    ck_assert_str_eq(ran, "ac");
}
END_TEST

static void *let_go(void *argument)
{
    (void)argument;
    pause_ms(50);
    atomic_store(&may_go, true);
    return NULL;
}

/* Awaiting a subject waits for the notice about it that is running, and for no other. */
START_TEST(await_from_another_thread)
{
    pthread_t thread;
    begin_with_long_one();
    el_notifier_await(&notifier, &notices[1]);
    ck_assert_str_eq(ran, "");
    ck_assert_int_eq(pthread_create(&thread, NULL, let_go, NULL), 0);
    el_notifier_await(&notifier, &notices[0]);
    ck_assert_str_eq(ran, "a");
    el_notifier_await(&notifier, &notices[0]);
    pthread_join(thread, NULL);
    end();
}
END_TEST

static void run_awaiting_itself(el_notice *notice)
{
    pthread_mutex_lock(&lock);
    ck_assert(el_notifier_is_here(&notifier));
    el_notifier_await(&notifier, notice->subject);
    pthread_mutex_unlock(&lock);
    run(notice);
}

/* A callback that awaits its own subject does not wait for itself; elsewhere is not "here". */
START_TEST(await_from_inside)
{
    begin(false);
    ck_assert(!el_notifier_is_here(&notifier));
    notices[0].run = run_awaiting_itself;
    post(0);
    ck_assert(!el_notifier_is_here(&notifier));
    end();
    ck_assert_str_eq(ran, "a");
}
END_TEST

static void run_posting(el_notice *notice)
{
    run(notice);
    pthread_mutex_lock(&lock);
    ck_assert_int_eq(el_notifier_post(&notifier, &notices[4]), notifier.is_stopping ? ECANCELED : 0);
    pthread_mutex_unlock(&lock);
}

/* Stop runs what is queued; what comes later is refused and does not count as queued. */
START_TEST(stop)
{
    pthread_t thread;
    begin_with_long_one();
    post(1);
    post(2);
    notices[2].run = run_posting;
    ck_assert_int_eq(pthread_create(&thread, NULL, let_go, NULL), 0);
    el_notifier_stop(&notifier);
    pthread_join(thread, NULL);
    ck_assert_str_eq(ran, "abc");
    ck_assert_int_eq(el_notifier_post(&notifier, &notices[3]), ECANCELED);
    ck_assert(!notices[3].is_queued && !notices[4].is_queued);
    el_notifier_stop(&notifier);
    pthread_mutex_unlock(&lock);
    el_notifier_destroy(&notifier);
    ck_assert_str_eq(ran, "abc");
}
END_TEST

static void run_and_free(el_notice *notice)
{
    free(notice);
    run(&notices[0]);
}

/* A notice may free itself while it runs. */
START_TEST(frees_itself)
{
    begin(_i);
    el_notice *notice = calloc(1, sizeof(*notice));
    ck_assert_ptr_nonnull(notice);
    notice->run = run_and_free;
    ck_assert_int_eq(el_notifier_post(&notifier, notice), 0);
    post(1);
    end();
    ck_assert_str_eq(ran, "ab");
}
END_TEST

/* Without a notice there is no thread, and stopping ends at once. */
START_TEST(idle)
{
    begin(false);
    ck_assert(!notifier.is_started);
    el_notifier_await(&notifier, &notices[0]);
    end();
    ck_assert_str_eq(ran, "");
}
END_TEST

static atomic_int told;

static void *take_over(void *argument)
{
    int error;
    (void)argument;
    pthread_mutex_lock(&lock);
    ck_assert_int_ge(el_notifier_poll(&notifier, &error), 0);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void run_asking_too(el_notice *notice)
{
    int error;
    atomic_store(&is_inside, true);
    pthread_mutex_lock(&lock);
    while (!notifier.is_leaving)
        pthread_cond_wait(&notifier.changed, &lock);
    ck_assert_int_eq(el_notifier_poll(&notifier, &error), -1);
    atomic_store(&told, error);
    pthread_mutex_unlock(&lock);
    run(notice);
}

/* Whoever asks for the descriptor waits for the callback that is running; if that callback asks too, it is
 * refused and does not wait for the one that waits for it. */
START_TEST(asked_for_from_both_sides)
{
    pthread_t thread;
    begin(false);
    atomic_store(&told, 0);
    notices[0].run = run_asking_too;
    post(0);
    pthread_mutex_unlock(&lock);
    wait_until(&is_inside);
    ck_assert_int_eq(pthread_create(&thread, NULL, take_over, NULL), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(atomic_load(&told), EDEADLK);
    ck_assert_str_eq(ran, "a");
    pthread_mutex_lock(&lock);
    ck_assert(!notifier.is_started);
    post(1);
    ck_assert_int_eq(el_notifier_dispatch(&notifier), 0);
    ck_assert_str_eq(ran, "ab");
    end();
}
END_TEST

static int refused_dispatch;

static void *dispatch_elsewhere(void *argument)
{
    (void)argument;
    pthread_mutex_lock(&lock);
    refused_dispatch = el_notifier_dispatch(&notifier);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void run_beside_dispatch(el_notice *notice)
{
    pthread_t thread;
    run(notice);
    pthread_create(&thread, NULL, dispatch_elsewhere, NULL);
    pthread_join(thread, NULL);
}

/* What waits for a dispatch is run by stop, one notice at a time: another thread's dispatch is refused. */
START_TEST(stop_beside_dispatch)
{
    int error;
    begin(false);
    ck_assert_int_ge(el_notifier_poll(&notifier, &error), 0);
    notices[0].run = run_beside_dispatch;
    post(0);
    post(1);
    el_notifier_stop(&notifier);
    ck_assert_int_eq(refused_dispatch, EBUSY);
    ck_assert_str_eq(ran, "ab");
    ck_assert_int_eq(el_notifier_dispatch(&notifier), 0);
    end();
}
END_TEST

/* Inline notices wait for run_all, which runs also what they post, on the calling thread. */
START_TEST(inline_mode)
{
    begin(true);
    notices[1].run = run_posting;
    post(0);
    post(1);
    post(2);
    el_notifier_withdraw(&notifier, &notices[2]);
    el_notifier_await(&notifier, &notices[0]);
    ck_assert_str_eq(ran, "");
    ck_assert(!notifier.is_started);
    pthread_mutex_unlock(&lock);
    el_notifier_run_all(&notifier);
    pthread_mutex_lock(&lock);
    ck_assert_str_eq(ran, "abe");
    post(3);
    end();
    ck_assert_str_eq(ran, "abed");
}
END_TEST

static void run_with_signals(el_notice *notice)
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    ck_assert(sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGUSR1));
    run(notice);
}

/* The program's signals do not arrive on the thread, and the poster's mask is as before. */
START_TEST(signals)
{
    sigset_t blocked;
    begin(false);
    notices[0].run = run_with_signals;
    post(0);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    ck_assert(!sigismember(&blocked, SIGTERM) && !sigismember(&blocked, SIGUSR1));
    end();
    ck_assert_str_eq(ran, "a");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("notifier");
    TCase *tests = tcase_create("notifier");
    tcase_set_timeout(tests, 20); /* for valgrind */
    tcase_add_test(tests, order);
    tcase_add_test(tests, again_while_running);
    tcase_add_test(tests, withdraw);
    tcase_add_test(tests, await_from_another_thread);
    tcase_add_test(tests, await_from_inside);
    tcase_add_test(tests, stop);
    tcase_add_loop_test(tests, frees_itself, 0, 2);
    tcase_add_test(tests, idle);
    tcase_add_test(tests, asked_for_from_both_sides);
    tcase_add_test(tests, stop_beside_dispatch);
    tcase_add_test(tests, inline_mode);
    tcase_add_test(tests, signals);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
