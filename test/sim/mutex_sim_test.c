/* Seeded lives of several clients under random faults, with all invariants checked after each step.
 *
 * SEED=n replays one and tells what happens; SEEDS=n runs so many, FIRST=n begins there. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/backoff.h"
#include "support/runner.h"
#include "support/world.h"

static uint64_t present_seed;

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* An assertion inside the library must not hide the seed that led there. */
static void tell_seed(int signal_number)
{
    char text[80];
    int n = snprintf(text, sizeof(text), "\nsignal %d; replay with: SEED=%llu make test-sim\n", signal_number,
                     (unsigned long long)present_seed);
    if (write(STDERR_FILENO, text, (size_t)n) < 0) _exit(3);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void run_seed(uint64_t seed, bool is_loud, world_counts *sum)
{
    static world w;
    world_options options = {.seed = seed, .trouble_ns = 30 * EL_S, .is_loud = is_loud};
    present_seed = seed;
    bool is_well = world_run(&w, &options);
    if (!is_well)
        ck_abort_msg("seed %llu: %s\nreplay with: SEED=%llu make test-sim", (unsigned long long)seed,
                     w.breach, (unsigned long long)seed);
    sum->steps += w.counts.steps;
    sum->grants += w.counts.grants;
    sum->timeouts += w.counts.timeouts;
    sum->losses += w.counts.losses;
    sum->refusals += w.counts.refusals;
    sum->ghosts += w.counts.ghosts;
    sum->faults += w.counts.faults;
    sum->checks += w.counts.checks;
    sum->writes += w.counts.writes;
    sum->unknown_writes += w.counts.unknown_writes;
    sum->refused_writes += w.counts.refused_writes;
    sum->late_writes += w.counts.late_writes;
    sum->deaths_told += w.counts.deaths_told;
    sum->repairs += w.counts.repairs;
}

/* No seed leads to a breach of an invariant, a stuck wait, a key left behind or a leak. */
START_TEST(every_seed_keeps_the_invariants)
{
    world_counts sum = {0};
    setlinebuf(stdout);
    signal(SIGABRT, tell_seed);
    signal(SIGSEGV, tell_seed);
    if (getenv("SEED") && *getenv("SEED")) {
        run_seed(from_environment("SEED", 0), true, &sum);
        return;
    }
    uint64_t first = from_environment("FIRST", 1), seeds = from_environment("SEEDS", 2000);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        run_seed(seed, false, &sum);
        if ((seed - first + 1) % 500 == 0)
            fprintf(stderr,
                    "  %llu seeds: %lu steps, %lu grants, %lu losses, %lu time-outs, %lu ghosts, %lu faults; "
                    "%lu guarded writes, %lu refused, %lu unknown, %lu of them applied late; %lu deaths "
                    "told, %lu repaired\n",
                    (unsigned long long)(seed - first + 1), sum.steps, sum.grants, sum.losses, sum.timeouts,
                    sum.ghosts, sum.faults, sum.writes, sum.refused_writes, sum.unknown_writes,
                    sum.late_writes, sum.deaths_told, sum.repairs);
    }
    ck_assert_uint_gt(sum.grants, seeds); /* a test in which nothing happens proves nothing */
    ck_assert_uint_gt(sum.writes, seeds);
    ck_assert_uint_gt(sum.deaths_told, seeds / 20);
    ck_assert_uint_gt(sum.refused_writes + sum.unknown_writes, seeds / 10);
}
END_TEST

/* The same seed gives the same life, to the step. */
START_TEST(a_seed_is_repeatable)
{
    world_counts first = {0}, second = {0};
    run_seed(7, false, &first);
    run_seed(7, false, &second);
    ck_assert_int_eq(memcmp(&first, &second, sizeof(first)), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mutex_sim");
    TCase *all = tcase_create("seeds");
    tcase_set_timeout(all, 0);
    tcase_add_test(all, every_seed_keeps_the_invariants);
    tcase_add_test(all, a_seed_is_repeatable);
    suite_add_tcase(suite, all);
    return runner_run(suite);
}
