/* cluster: 1 | 3 */
/* The daemon of which one instance works at a time: the one in charge is frozen in the middle of a step, and
 * the next one takes over. The journal of the steps must have no gap, no double and no token that falls. The
 * same run without the guard breaks it, or the proof is none. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/etcdctl.h"
#include "support/file_scene.h"
#include "support/live.h"

/* What the journal says. */
typedef struct verdict {
    int steps;
    int out_of_order; /* lines whose number is not the one after that of the line before */
    int fallen;       /* lines whose token is lower than that of the line before */
} verdict;

static verdict read_journal(const scene *s)
{
    verdict found = {0};
    int64_t number = 0, former_number = 0;
    uint64_t token = 0, former_token = 0;
    FILE *journal = fopen(s->path, "re");
    ck_assert_ptr_nonnull(journal);
    while (fscanf(journal, "%" SCNd64 " %" SCNu64, &number, &token) == 2) {
        found.steps++;
        found.out_of_order += number != former_number + 1;
        found.fallen += token < former_token;
        former_number = number;
        former_token = token;
    }
    fclose(journal);
    return found;
}

static void start(program *p, const scene *s, const char *ttl, const char *steps, const char *stop)
{
    const char *words[] = {"singleton", s->path, ttl, steps, stop, s->guard};
    program_start(p, s->prefix, words, sizeof words / sizeof *words);
}

static void freeze(scene *scenes, const char *stop)
{
    for (int i = 0; i < SCENES; i++) {
        open_scene(&scenes[i], i);
        start(&scenes[i].late, &scenes[i], "--ttl=2", "--steps=3", stop);
    }
    for (int i = 0; i < SCENES; i++)
        program_await_stop(&scenes[i].late);
}

static void judge_intact(const scene *s, int steps, size_t refusals)
{
    verdict found = read_journal(s);
    ck_assert_int_eq(found.steps, steps);
    ck_assert_int_eq(found.out_of_order, 0);
    ck_assert_int_eq(found.fallen, 0);
    ck_assert_uint_eq(program_count(&s->late, "refused"), refusals);
    ck_assert_uint_ge(program_count(&s->late, "stands down"), 1);
    close_scene(s);
}

/* One late line in the journal: with the next question to ensure() the daemon has left its work. */
static void judge_broken(const scene *s, int steps, int fallen)
{
    verdict found = read_journal(s);
    ck_assert_int_eq(found.steps, steps);
    ck_assert_int_eq(found.out_of_order, 1);
    ck_assert_int_eq(found.fallen, fallen);
    ck_assert_uint_eq(program_count(&s->late, "refused"), 0);
    ck_assert_uint_ge(program_count(&s->late, "stands down"), 1);
    close_scene(s);
}

/* The frozen instance comes back when the next one has done its steps: its own is refused, and it stands
 * down. Without the guard the step is there twice. */
START_TEST(late_step_comes_after_the_next_ones)
{
    scene scenes[SCENES];
    freeze(scenes, "--stop-at=2");
    for (int i = 0; i < SCENES; i++)
        start(&scenes[i].next, &scenes[i], "--ttl=60", "--steps=3", NULL);
    for (int i = 0; i < SCENES; i++)
        program_end(&scenes[i].next);
    for (int i = 0; i < SCENES; i++)
        program_continue(&scenes[i].late);
    for (int i = 0; i < SCENES; i++)
        program_end(&scenes[i].late);
    judge_intact(&scenes[0], 6, 1);
    judge_broken(&scenes[1], 6, 1);
}
END_TEST

/* The frozen instance comes back when the next one is in charge, but has not done a step: its own is refused
 * as well. Without the guard both do the same step. */
START_TEST(late_step_comes_before_the_next_ones)
{
    scene scenes[SCENES];
    freeze(scenes, "--stop-at=2");
    for (int i = 0; i < SCENES; i++)
        start(&scenes[i].next, &scenes[i], "--ttl=60", "--steps=3", "--stop-at=1");
    for (int i = 0; i < SCENES; i++) {
        program_await_stop(&scenes[i].next);
        program_continue(&scenes[i].late);
        program_await(&scenes[i].late, "stands down");
    }
    for (int i = 0; i < SCENES; i++)
        program_continue(&scenes[i].next);
    for (int i = 0; i < SCENES; i++) {
        program_end(&scenes[i].next);
        program_end(&scenes[i].late);
    }
    judge_intact(&scenes[0], 6, 1);
    judge_broken(&scenes[1], 6, 0);
}
END_TEST

/* An instance that is frozen between two steps asks ensure() as it comes back, and leaves its work without
 * another step: here the guard has nothing to do. */
START_TEST(ensure_ends_the_work)
{
    scene scenes[SCENES];
    freeze(scenes, "--stop-before=2");
    for (int i = 0; i < SCENES; i++)
        start(&scenes[i].next, &scenes[i], "--ttl=60", "--steps=3", NULL);
    for (int i = 0; i < SCENES; i++)
        program_end(&scenes[i].next);
    for (int i = 0; i < SCENES; i++)
        program_continue(&scenes[i].late);
    for (int i = 0; i < SCENES; i++) {
        program_end(&scenes[i].late);
        judge_intact(&scenes[i], 6, 0);
    }
}
END_TEST

/* SIGTERM ends the instance in charge after its step, and one that waits in the queue at once; both leave
 * nothing behind. */
START_TEST(sigterm)
{
    scene s;
    open_scene(&s, 0);
    start(&s.late, &s, "--ttl=60", NULL, NULL);
    program_await(&s.late, "step 1,");
    start(&s.next, &s, "--ttl=60", NULL, NULL);
    for (int64_t until_ms = live_now_ms() + 10000; etcdctl_count(s.prefix) < 2;)
        ck_assert_int_lt(live_now_ms(), until_ms);
    ck_assert_int_eq(kill(s.next.pid, SIGTERM), 0);
    program_end(&s.next);
    ck_assert_str_eq(s.next.said, "");
    ck_assert_uint_eq(etcdctl_count(s.prefix), 1);
    ck_assert_int_eq(kill(s.late.pid, SIGTERM), 0);
    program_end(&s.late);
    verdict found = read_journal(&s);
    ck_assert_uint_eq(program_count(&s.late, "step "), found.steps);
    close_scene(&s);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("singleton", &cases, 60);
    tcase_add_test(cases, late_step_comes_after_the_next_ones);
    tcase_add_test(cases, late_step_comes_before_the_next_ones);
    tcase_add_test(cases, ensure_ends_the_work);
    tcase_add_test(cases, sigterm);
    return live_run(suite);
}
