/* cluster: 1 | 3 postgres */
/* The jobs example: a worker is frozen between its last question and its payment, and the next one takes the
 * job. The payment must be made once. The same run without the guard makes it twice, or the proof is none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/live.h"
#include "support/program.h"

enum { SCENES = 4, TEXT_ROOM = 256 };

typedef struct scene {
    const char *example; /* jobs: SQLite; jobs_postgres: PostgreSQL */
    const char *guard;   /* "--no-guard" or NULL */
    char database[TEXT_ROOM];
    const char *prefix;
    program late; /* is frozen */
    program next;
} scene;

static bool is_postgres(const scene *s)
{
    return strcmp(s->example, "jobs_postgres") == 0;
}

static void shell(const char *command)
{
    ck_assert_msg(system(command) == 0, "failed: %s", command); /* NOLINT */
}

/* What the database itself says, by its own client. */
static long ask(const scene *s, const char *question)
{
    char command[2 * TEXT_ROOM + 100], answer[64] = "";
    if (is_postgres(s))
        snprintf(command, sizeof command, "psql -qAt -c \"%s\" '%s'", question, s->database);
    else
        snprintf(command, sizeof command, "sqlite3 '%s' \"%s\"", s->database, question);
    FILE *stream = popen(command, "re");
    ck_assert_ptr_nonnull(stream);
    ck_assert_msg(fgets(answer, sizeof answer, stream), "no answer to: %s", command);
    ck_assert_int_eq(pclose(stream), 0);
    return strtol(answer, NULL, 10);
}

static void open_scene(scene *s, int number, const char *jobs)
{
    static const char *const examples[] = {"jobs", "jobs_postgres"};
    char command[TEXT_ROOM], part[8];
    program filler;
    *s = (scene){.example = examples[number % 2], .guard = number < 2 ? NULL : "--no-guard"};
    snprintf(part, sizeof part, "%d/", number);
    s->prefix = live_name(part);
    if (is_postgres(s)) {
        snprintf(command, sizeof command, "psql -q -c 'CREATE DATABASE proof_%d_%d'", (int)getpid(), number);
        snprintf(s->database, sizeof s->database, "dbname=proof_%d_%d", (int)getpid(), number);
        shell(command);
    } else {
        snprintf(s->database, sizeof s->database, "/tmp/etcdlock-proof-%d-%d", (int)getpid(), number);
    }
    const char *words[] = {s->example, s->database, "--fill", jobs};
    program_start(&filler, s->prefix, words, sizeof words / sizeof *words);
    program_end(&filler);
}

static void close_scene(const scene *s)
{
    char command[2 * TEXT_ROOM];
    if (is_postgres(s))
        snprintf(command, sizeof command, "psql -q -c 'DROP DATABASE %s'", s->database + strlen("dbname="));
    else
        snprintf(command, sizeof command, "rm '%s'", s->database);
    shell(command);
}

/* stop: "--stop-at=1" or "--stop-within=1" */
static void start_late(scene *s, const char *stop)
{
    const char *words[] = {s->example, s->database, "--name", "late", "--ttl", "2", stop, s->guard};
    program_start(&s->late, s->prefix, words, sizeof words / sizeof *words);
}

/* stop: "--stop-at=1" or NULL */
static void start_next(scene *s, const char *stop)
{
    const char *words[] = {s->example, s->database, "--name", "next", "--ttl", "60", stop, s->guard};
    program_start(&s->next, s->prefix, words, sizeof words / sizeof *words);
}

/* All jobs are done, and each has been paid once, with its own amount. */
static void assert_intact(const scene *s, long jobs)
{
    ck_assert_int_eq(ask(s, "SELECT count(*) FROM jobs WHERE done_by IS NOT NULL"), jobs);
    ck_assert_int_eq(ask(s, "SELECT count(*) FROM payments"), jobs);
    ck_assert_int_eq(ask(s, "SELECT count(DISTINCT job) FROM payments"), jobs);
    ck_assert_int_eq(ask(s, "SELECT sum(amount) FROM payments"), jobs * (jobs + 1) / 2 * 100);
}

/* The next worker has paid, and the late one was refused. */
static void assert_refused(const scene *s)
{
    ck_assert_int_eq(ask(s, "SELECT count(*) FROM payments WHERE worker <> 'next'"), 0);
    ck_assert_int_eq(program_count(&s->late, "job 1 refused"), 1);
    ck_assert_int_eq(program_count(&s->late, "done"), 0);
}

/* Job 1 has been paid by both. */
static void assert_paid_twice(const scene *s, long jobs)
{
    ck_assert_int_eq(ask(s, "SELECT count(*) FROM payments"), jobs + 1);
    ck_assert_int_eq(ask(s, "SELECT count(*) FROM payments WHERE job = 1"), 2);
    ck_assert_int_eq(ask(s, "SELECT count(DISTINCT worker) FROM payments WHERE job = 1"), 2);
    ck_assert_int_eq(program_count(&s->late, "job 1 done"), 1);
    ck_assert_int_eq(program_count(&s->late, "refused"), 0);
}

static void judge(const scene *s, long jobs)
{
    ck_assert_int_eq(program_count(&s->next, "job 1 done"), 1);
    ck_assert_uint_ge(program_count(&s->late, "job 1 lost"), 1); /* which it learns after its write */
    if (s->guard) {
        assert_paid_twice(s, jobs);
    } else {
        assert_intact(s, jobs);
        assert_refused(s);
    }
}

static void freeze_all(scene *scenes, const char *jobs, const char *stop)
{
    for (int i = 0; i < SCENES; i++) {
        open_scene(&scenes[i], i, jobs);
        start_late(&scenes[i], stop);
    }
    for (int i = 0; i < SCENES; i++)
        program_await_stop(&scenes[i].late);
}

/* The frozen worker comes back when the next one has done everything: its payment is refused. Without the
 * guard the job is paid by both. */
START_TEST(late_payment_comes_after_the_next_ones)
{
    scene scenes[SCENES];
    freeze_all(scenes, "5", "--stop-at=1");
    for (int i = 0; i < SCENES; i++)
        start_next(&scenes[i], NULL);
    for (int i = 0; i < SCENES; i++)
        program_end(&scenes[i].next);
    for (int i = 0; i < SCENES; i++)
        program_continue(&scenes[i].late);
    for (int i = 0; i < SCENES; i++) {
        program_end(&scenes[i].late);
        judge(&scenes[i], 5);
        close_scene(&scenes[i]);
    }
}
END_TEST

/* The frozen worker comes back when the next one has claimed the job, but not paid yet: the payment is
 * refused all the same, since the claim has told the guard. Without the guard the job is paid by both. */
START_TEST(late_payment_comes_before_the_next_ones)
{
    scene scenes[SCENES];
    freeze_all(scenes, "1", "--stop-at=1");
    for (int i = 0; i < SCENES; i++)
        start_next(&scenes[i], "--stop-at=1");
    for (int i = 0; i < SCENES; i++)
        program_await_stop(&scenes[i].next);
    for (int i = 0; i < SCENES; i++) {
        program_continue(&scenes[i].late);
        program_await(&scenes[i].late, "job 1 lost");
    }
    for (int i = 0; i < SCENES; i++)
        program_continue(&scenes[i].next);
    for (int i = 0; i < SCENES; i++) {
        program_end(&scenes[i].next);
        program_end(&scenes[i].late);
        judge(&scenes[i], 1);
        close_scene(&scenes[i]);
    }
}
END_TEST

/* A worker that is frozen in the middle of its transaction. SQLite: all others wait until it goes on, so that
 * its payment is not late; the transaction alone sees to that. PostgreSQL: the server ends its session, and
 * the next one pays; without the guard and its limit both pay. */
START_TEST(frozen_in_the_transaction)
{
    scene scenes[SCENES];
    freeze_all(scenes, "1", "--stop-within=1");
    for (int i = 0; i < SCENES; i++)
        start_next(&scenes[i], NULL);
    for (int i = 0; i < SCENES; i++) {
        if (is_postgres(&scenes[i]))
            program_end(&scenes[i].next);
        else
            program_await(&scenes[i].next, "job 1 locked");
    }
    for (int i = 0; i < SCENES; i++)
        program_continue(&scenes[i].late);
    for (int i = 0; i < SCENES; i++) {
        const scene *s = &scenes[i];
        program_end(&scenes[i].late);
        if (!is_postgres(s)) program_end(&scenes[i].next);
        if (is_postgres(s) && s->guard)
            assert_paid_twice(s, 1);
        else
            assert_intact(s, 1);
        ck_assert_int_eq(program_count(&s->next, "job 1 done"), is_postgres(s) ? 1 : 0);
        ck_assert_int_eq(program_count(&s->late, "job 1 done"), is_postgres(s) && !s->guard ? 0 : 1);
        ck_assert_uint_ge(program_count(&s->late, "job 1 lost"), 1);
        close_scene(s);
    }
}
END_TEST

/* A guard that has seen tokens of the future, as after etcd was restored from an old snapshot: the worker
 * says so and ends, pays nothing, and leaves its lock. */
START_TEST(guard_ahead_of_etcd)
{
    for (int i = 0; i < 2; i++) {
        scene s;
        open_scene(&s, i, "1");
        ck_assert_int_eq(
            ask(&s, "INSERT INTO etcdlock_fence VALUES ('jobs/1', 4000000000000000000); SELECT 1"), 1);
        start_next(&s, NULL);
        int status = program_status(&s.next);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
        ck_assert_int_eq(program_count(&s.next, "job 1 locked"), 1);
        ck_assert_int_eq(program_count(&s.next, "claimed"), 0);
        ck_assert_int_eq(ask(&s, "SELECT count(*) FROM payments"), 0);
        close_scene(&s);
    }
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("jobs", &cases, 60);
    tcase_add_test(cases, late_payment_comes_after_the_next_ones);
    tcase_add_test(cases, late_payment_comes_before_the_next_ones);
    tcase_add_test(cases, frozen_in_the_transaction);
    tcase_add_test(cases, guard_ahead_of_etcd);
    return live_run(suite);
}
