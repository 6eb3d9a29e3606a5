/* test/bench: the figures of made-up slices, and the goals, are what a person would work out by hand. */
#include <check.h>
#include <math.h>

#include "bench/figures.h"
#include "bench/goal.h"
#include "support/runner.h"

/* Grants at 1, 2, 4, 5 and 9 ms of a slice of 10 ms; the third contender gets the lock twice in a row. */
static sample grants[] = {{1000, 100, 0}, {2000, 500, 1}, {4000, 300, 2}, {5000, 200, 2}, {9000, 400, 0}};
static const slice made_up = {.all = grants, .n = 5, .begin_us = 0, .end_us = 10000};
static const slice empty = {.begin_us = 0, .end_us = 10000};

/* A rate counts all samples over the whole slice, not over the time between the first and the last. */
START_TEST(rate_is_over_the_slice)
{
    ck_assert_double_eq_tol(figure_of(&made_up, FIGURE_RATE), 500, 1e-9);
    ck_assert_double_eq(figure_of(&empty, FIGURE_RATE), 0);
}
END_TEST

/* A grant to the one who had it last is no hand-over, and its time belongs to nobody's. */
START_TEST(handover_is_to_another)
{
    ck_assert_double_eq_tol(figure_of(&made_up, FIGURE_HANDOVERS), 300, 1e-9);
    ck_assert_double_eq_tol(figure_of(&made_up, FIGURE_HANDOVER_P50), 2, 1e-9);
    ck_assert_double_eq_tol(figure_of(&made_up, FIGURE_HANDOVER_P99), 4, 1e-9);
    ck_assert(isnan(figure_of(&empty, FIGURE_HANDOVER_P50)));
}
END_TEST

/* Percentiles of cycles are of their spans, in whatever order they come. */
START_TEST(cycles_are_by_span)
{
    ck_assert_double_eq_tol(figure_of(&made_up, FIGURE_CYCLE_P50), 300, 1e-9);
    ck_assert_double_eq_tol(figure_of(&made_up, FIGURE_CYCLE_P99), 500, 1e-9);
    ck_assert(isnan(figure_of(&empty, FIGURE_CYCLE_P50)));
}
END_TEST

/* The longest wait is that of a call, not of a hand-over. */
START_TEST(wait_is_of_a_call)
{
    ck_assert_double_eq_tol(figure_of(&made_up, FIGURE_LONGEST_WAIT), 0.5, 1e-9);
}
END_TEST

/* The median of an even number is one of the two in the middle; the ends are the least and the greatest. */
START_TEST(percentile_is_a_member)
{
    double numbers[] = {4, 1, 3, 2};
    ck_assert_double_eq(figure_percentile(numbers, 4, 0), 1);
    ck_assert_double_eq(figure_percentile(numbers, 4, 0.5), 3);
    ck_assert_double_eq(figure_percentile(numbers, 4, 1), 4);
    ck_assert_double_eq(figure_percentile(numbers, 1, 0.99), 1);
}
END_TEST

/* The time before the first grant and after the last are gaps too: a lock that nobody gets stands still. */
START_TEST(gap_has_both_ends)
{
    const slice late = {.all = grants + 3, .n = 1, .begin_us = 0, .end_us = 20000};
    ck_assert_double_eq_tol(figure_longest_gap_ms(&made_up), 4, 1e-9);
    ck_assert_double_eq_tol(figure_longest_gap_ms(&late), 15, 1e-9);
    ck_assert_double_eq_tol(figure_longest_gap_ms(&empty), 10, 1e-9);
}
END_TEST

static goal_verdict judge(const char *name, const char *measure, const char *peer, double ours, double theirs,
                          double ratio)
{
    char text[GOAL_ROOM];
    return goal_judge(text, name, measure, peer, ours, theirs, ratio);
}

/* A ratio that is just reached counts, one just below does not, and one that cannot be told does not. */
START_TEST(goal_of_a_ratio)
{
    ck_assert_int_eq(judge("distinct-64", "rate", "go", 8, 1, 8), GOAL_MET);
    ck_assert_int_eq(judge("distinct-64", "rate", "go", 7.99, 1, 7.99), GOAL_MISSED);
    ck_assert_int_eq(judge("distinct-64", "rate", "go", 8, (double)NAN, (double)NAN), GOAL_MISSED);
    ck_assert_int_eq(judge("uncontended", "cycle p50", "floor", 110, 100, 100.0 / 110), GOAL_MET);
    ck_assert_int_eq(judge("uncontended", "cycle p50", "floor", 111, 100, 100.0 / 111), GOAL_MISSED);
}
END_TEST

/* Goals about ours alone do not look at the peer; one write is too many. */
START_TEST(goal_of_ours_alone)
{
    ck_assert_int_eq(judge("trylock-held", "writes", "go", 0, 5000, (double)NAN), GOAL_MET);
    ck_assert_int_eq(judge("trylock-held", "writes", "go", 1, 5000, 5000), GOAL_MISSED);
    ck_assert_int_eq(judge("handover-4", "hand-over p99", "redlock", 20.1, 1, 0.05), GOAL_MISSED);
}
END_TEST

/* The time that may come on top of the peer's is added to that of this run. */
START_TEST(goal_above_a_peer)
{
    ck_assert_int_eq(judge("takeover", "slowest", "time to live", 3.9, 3, 3 / 3.9), GOAL_MET);
    ck_assert_int_eq(judge("takeover", "slowest", "time to live", 4.1, 3, 3 / 4.1), GOAL_MISSED);
}
END_TEST

/* Other clusters, peers and figures have no goals. */
START_TEST(no_goal)
{
    ck_assert_int_eq(judge("distinct-64, 3 members", "rate", "go", 1, 2, 0.5), GOAL_NONE);
    ck_assert_int_eq(judge("distinct-64", "rate", "zookeeper", 1, 2, 0.5), GOAL_NONE);
    ck_assert_int_eq(judge("handover-8", "hand-over p99", "go", 100, 2, 0.02), GOAL_NONE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench_figures");
    TCase *figures = tcase_create("figures"), *goals = tcase_create("goals");
    tcase_add_test(figures, rate_is_over_the_slice);
    tcase_add_test(figures, handover_is_to_another);
    tcase_add_test(figures, cycles_are_by_span);
    tcase_add_test(figures, wait_is_of_a_call);
    tcase_add_test(figures, percentile_is_a_member);
    tcase_add_test(figures, gap_has_both_ends);
    tcase_add_test(goals, goal_of_a_ratio);
    tcase_add_test(goals, goal_of_ours_alone);
    tcase_add_test(goals, goal_above_a_peer);
    tcase_add_test(goals, no_goal);
    suite_add_tcase(suite, figures);
    suite_add_tcase(suite, goals);
    return runner_run(suite);
}
