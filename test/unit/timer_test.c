/* lib/core/timer.c: the pairing heap gives timers in order of time, then of setting. */
#include "core/timer.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "support/runner.h"

enum { TIMERS = 150, STEPS = 20000, FEW_TIMES = 12 };

static el_timers timers;
static el_timer pool[TIMERS];

/* The model: what is set, sorted by time and then by order of setting. */
static el_timer *sorted[TIMERS];
static size_t n_sorted;

static uint64_t seed;

static unsigned draw(unsigned below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % below;
}

static void set_up(void)
{
    memset(&timers, 0, sizeof(timers));
    memset(pool, 0, sizeof(pool));
    n_sorted = 0;
}

static void model_clear(el_timer *timer)
{
    for (size_t i = 0; i < n_sorted; i++) {
        if (sorted[i] != timer) continue;
        memmove(&sorted[i], &sorted[i + 1], (n_sorted - i - 1) * sizeof(sorted[0]));
        n_sorted--;
        return;
    }
}

static void model_set(el_timer *timer, int64_t due_ns)
{
    model_clear(timer);
    size_t i = n_sorted;
    for (; i > 0 && sorted[i - 1]->due_ns > due_ns; i--)
        sorted[i] = sorted[i - 1];
    sorted[i] = timer;
    n_sorted++;
}

static void set(el_timer *timer, int64_t due_ns)
{
    model_clear(timer); /* before the heap changes the due_ns that the model sorts by */
    el_timers_set(&timers, timer, due_ns);
    model_set(timer, due_ns);
    ck_assert(el_timer_is_set(timer));
    ck_assert_int_eq(timer->due_ns, due_ns);
}

static void clear(el_timer *timer)
{
    el_timers_clear(&timers, timer);
    model_clear(timer);
    ck_assert(!el_timer_is_set(timer));
}

static void take(int64_t now_ns)
{
    el_timer *expected = n_sorted > 0 && sorted[0]->due_ns <= now_ns ? sorted[0] : NULL;
    el_timer *taken = el_timers_take_due(&timers, now_ns);
    ck_assert_ptr_eq(taken, expected);
    if (!taken) return;
    ck_assert(!el_timer_is_set(taken));
    ck_assert(!taken->child && !taken->sibling && !taken->previous);
    model_clear(taken);
}

static void expect_next(void)
{
    ck_assert_int_eq(el_timers_next_ns(&timers), n_sorted > 0 ? sorted[0]->due_ns : INT64_MAX);
}

/* Nothing set: nothing is due, and clearing does no harm. */
START_TEST(empty)
{
    expect_next();
    take(INT64_MAX);
    clear(&pool[0]);
    clear(&pool[0]);
    expect_next();
}
END_TEST

/* A timer is due from its own nanosecond on, whatever its sign. */
START_TEST(due_to_the_nanosecond)
{
    set(&pool[0], 5);
    take(4);
    take(5);
    set(&pool[0], INT64_MIN);
    take(INT64_MIN);
    set(&pool[0], INT64_MAX);
    take(INT64_MAX - 1);
    take(INT64_MAX);
    ck_assert_uint_eq(n_sorted, 0);
}
END_TEST

/* Timers of the same time come in the order of setting; setting one again moves it to the end. */
START_TEST(ties)
{
    for (size_t i = 0; i < 100; i++)
        set(&pool[i], 7);
    for (size_t i = 0; i < 100; i += 3)
        set(&pool[i], 7);
    for (size_t i = 0; i < 100; i++) {
        if (i % 3) ck_assert_ptr_eq(el_timers_take_due(&timers, 7), &pool[i]);
    }
    for (size_t i = 0; i < 100; i += 3)
        ck_assert_ptr_eq(el_timers_take_due(&timers, 7), &pool[i]);
    ck_assert_ptr_null(el_timers_take_due(&timers, 7));
}
END_TEST

/* Setting a timer that is set moves it, earlier and later, and it still comes once. */
START_TEST(set_again)
{
    for (int i = 0; i < TIMERS; i++)
        set(&pool[i], 1000 + i);
    set(&pool[TIMERS - 1], 1);
    expect_next();
    set(&pool[0], 5000);
    set(&pool[TIMERS - 1], 6000);
    for (int i = 0; i < TIMERS; i++) {
        expect_next();
        take(INT64_MAX);
    }
    take(INT64_MAX);
}
END_TEST

/* Any mix of set, clear and take agrees with a sorted array; few distinct times make many ties. */
START_TEST(agrees_with_model)
{
    seed = (uint64_t)_i + 1;
    unsigned times = _i % 2 ? FEW_TIMES : 1000000;
    for (int step = 0; step < STEPS; step++) {
        el_timer *timer = &pool[draw(TIMERS)];
        unsigned what = draw(10);
        if (what < 5) {
            set(timer, (int64_t)draw(times));
        } else if (what < 8) {
            clear(timer);
        } else {
            take((int64_t)draw(times));
        }
        expect_next();
    }
    while (n_sorted > 0)
        take(INT64_MAX);
    expect_next();
    ck_assert_ptr_null(timers.root);
}
END_TEST

/* A hundred thousand timers in rising, then falling order come out sorted, without deep recursion. */
START_TEST(crowd)
{
    enum { MANY = 100000 };
    el_timer *many = calloc(MANY, sizeof(*many));
    ck_assert_ptr_nonnull(many);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++)
            el_timers_set(&timers, &many[i], round ? MANY - i : i);
        int64_t last_ns = -1;
        for (int i = 0; i < MANY; i++) {
            el_timer *timer = el_timers_take_due(&timers, MANY);
            ck_assert_ptr_nonnull(timer);
            if (timer->due_ns <= last_ns) ck_abort_msg("not in order");
            last_ns = timer->due_ns;
        }
        ck_assert_ptr_null(timers.root);
    }
    free(many);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timer");
    TCase *tests = tcase_create("heap");
    tcase_set_timeout(tests, 60); /* for valgrind */
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, empty);
    tcase_add_test(tests, due_to_the_nanosecond);
    tcase_add_test(tests, ties);
    tcase_add_test(tests, set_again);
    tcase_add_loop_test(tests, agrees_with_model, 0, 6);
    tcase_add_test(tests, crowd);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
