/* The oracle passes a good history, and finds each kind of breach. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/oracle.h"
#include "support/runner.h"

static char path[64];
static oracle o;
static oracle_verdict verdict;

static void set_up(void)
{
    strcpy(path, "/tmp/oracle-test-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    oracle_open(&o, path);
}

static void tear_down(void)
{
    oracle_close(&o);
    unlink(path);
}

static void put(oracle_event event, int pid, uint64_t token, int64_t at_ns, int64_t valid_until_ns)
{
    oracle_record r = {.name = "a", .event = event, .pid = pid, .tid = pid};
    r.token = token;
    r.at_ns = at_ns;
    r.valid_until_ns = valid_until_ns;
    oracle_append(&o, &r);
}

static void put_shared(int pid, uint64_t token, int64_t at_ns, int64_t valid_until_ns)
{
    oracle_record r = {.name = "a", .event = ORACLE_ENTER, .pid = pid, .shared = 1, .token = token};
    r.at_ns = at_ns;
    r.valid_until_ns = valid_until_ns;
    oracle_append(&o, &r);
}

static void expect_good(void)
{
    bool good = oracle_judge(path, &verdict);
    ck_assert_msg(good && !verdict.breach[0], "%s", verdict.breach);
}

static void expect_breach(const char *rule)
{
    ck_assert(!oracle_judge(path, &verdict));
    ck_assert_msg(strncmp(verdict.breach, rule, strlen(rule)) == 0, "%s", verdict.breach);
}

/* No records. */
START_TEST(empty)
{
    expect_good();
    ck_assert_uint_eq(verdict.holds, 0);
}
END_TEST

/* Holders one after the other: by unlock, by loss, by the end of validity, by death; another lock between. */
START_TEST(good)
{
    oracle_record other = {.name = "b", .event = ORACLE_ENTER, .pid = 9, .token = 3};
    other.at_ns = 15;
    other.valid_until_ns = 1000;
    put(ORACLE_ENTER, 1, 10, 10, 100);
    oracle_append(&o, &other);
    put(ORACLE_STILL, 1, 10, 15, 120);
    put(ORACLE_UNLOCK, 1, 10, 20, 120);
    put(ORACLE_ENTER, 2, 12, 20, 50);
    put(ORACLE_ENTER, 3, 14, 50, 200);
    put(ORACLE_LOSS, 3, 14, 60, 200);
    put(ORACLE_UNLOCK, 2, 12, 70, 50);
    put(ORACLE_ENTER, 4, 15, 61, 500);
    put(ORACLE_KILLED, 4, 0, 90, 0);
    put(ORACLE_ENTER, 5, 16, 90, 500);
    expect_good();
    ck_assert_uint_eq(verdict.holds, 6);
    ck_assert_uint_eq(verdict.losses, 1);
    ck_assert_uint_eq(verdict.kills, 1);
}
END_TEST

/* A second one before the first has left. */
START_TEST(overlap)
{
    put(ORACLE_ENTER, 1, 10, 10, 100);
    put(ORACLE_ENTER, 2, 12, 29, 100);
    put(ORACLE_UNLOCK, 1, 10, 30, 100);
    expect_breach("two holders at once");
}
END_TEST

/* A dead one was never proved dead, so its validity counts; and what it said of it last. */
START_TEST(overlap_with_silent)
{
    put(ORACLE_ENTER, 1, 10, 10, 20);
    put(ORACLE_STILL, 1, 10, 18, 40);
    put(ORACLE_ENTER, 2, 12, 39, 100);
    expect_breach("two holders at once");
}
END_TEST

/* It overlaps one who is not the one just before. */
START_TEST(overlap_with_older)
{
    put(ORACLE_ENTER, 1, 10, 10, 100);
    put_shared(2, 5, 5, 8);
    put(ORACLE_ENTER, 3, 12, 50, 60);
    expect_breach("two holders at once");
}
END_TEST

/* A kill ends only what was held by that process before. */
START_TEST(kill_of_another)
{
    put(ORACLE_ENTER, 1, 10, 10, 100);
    put(ORACLE_KILLED, 2, 0, 20, 0);
    put(ORACLE_KILLED, 1, 0, 5, 0);
    put(ORACLE_ENTER, 3, 12, 30, 100);
    expect_breach("two holders at once");
}
END_TEST

/* Readers together, writers alone. */
START_TEST(sharing)
{
    put_shared(1, 10, 10, 50);
    put_shared(2, 12, 20, 60);
    put_shared(3, 11, 30, 55);
    put(ORACLE_ENTER, 4, 20, 60, 70);
    put_shared(5, 21, 70, 90);
    expect_good();
    put(ORACLE_ENTER, 6, 30, 80, 99);
    expect_breach("two holders at once");
}
END_TEST

/* A reader beside a writer. */
START_TEST(sharing_with_writer)
{
    put(ORACLE_ENTER, 1, 10, 10, 50);
    put_shared(2, 12, 40, 60);
    expect_breach("two holders at once");
}
END_TEST

/* A token that falls, or comes twice, there and in different processes. */
START_TEST(token_falls)
{
    put(ORACLE_ENTER, 1, 10, 10, 20);
    put(ORACLE_ENTER, 2, 9, 30, 40);
    expect_breach("a token not greater");
}
END_TEST

START_TEST(token_twice)
{
    put(ORACLE_ENTER, 1, 10, 10, 20);
    put(ORACLE_UNLOCK, 1, 10, 15, 20);
    put(ORACLE_ENTER, 2, 10, 30, 40);
    expect_breach("a token was given twice");
}
END_TEST

/* One stopped between grant and record holds nothing, and its place in time says nothing. */
START_TEST(stale_entry)
{
    put(ORACLE_ENTER, 2, 12, 30, 100);
    put(ORACLE_ENTER, 1, 10, 50, 20);
    put(ORACLE_LOSS, 1, 10, 51, 20);
    expect_good();
    ck_assert_uint_eq(verdict.stale, 1);
}
END_TEST

static void put_write(uint64_t token, int64_t order)
{
    oracle_record r = {.name = "a", .event = ORACLE_WRITE, .pid = 1, .token = token};
    r.order = order;
    oracle_append(&o, &r);
}

/* Writes are judged in the order of the store, not of the file. */
START_TEST(writes)
{
    put_write(10, 1);
    put_write(12, 4);
    put_write(10, 2);
    put_write(12, 5);
    expect_good();
    ck_assert_uint_eq(verdict.writes, 4);
    put_write(11, 6);
    expect_breach("a stale write was accepted");
}
END_TEST

START_TEST(writes_in_one_place)
{
    put_write(10, 1);
    put_write(12, 1);
    expect_breach("two writes in one place");
}
END_TEST

/* Histories that no program can have. */
START_TEST(nonsense)
{
    put(ORACLE_UNLOCK, 1, 10, 10, 20);
    expect_breach("left or held without");
}
END_TEST

START_TEST(left_twice)
{
    put(ORACLE_ENTER, 1, 10, 10, 20);
    put(ORACLE_UNLOCK, 1, 10, 15, 20);
    put(ORACLE_STILL, 1, 10, 16, 30);
    expect_breach("held after having left");
}
END_TEST

START_TEST(left_by_another)
{
    put(ORACLE_ENTER, 1, 10, 10, 20);
    put(ORACLE_UNLOCK, 2, 10, 15, 20);
    expect_breach("left by another process");
}
END_TEST

START_TEST(unknown_event)
{
    put((oracle_event)77, 1, 10, 10, 20);
    expect_breach("a record makes no sense");
}
END_TEST

START_TEST(torn)
{
    put(ORACLE_ENTER, 1, 10, 10, 20);
    ck_assert_int_eq(truncate(path, sizeof(oracle_record) - 1), 0);
    expect_breach("a torn record");
}
END_TEST

/* Many processes at once, through the calls that programs use: every record is there and whole. */
START_TEST(many_writers)
{
    enum { WRITERS = 6, ROUNDS = 200 };
    pid_t children[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] > 0) continue;
        char name[16];
        snprintf(name, sizeof name, "lock%d", i);
        for (uint64_t token = 1; token <= ROUNDS; token++) {
            oracle_enter(&o, name, token, INT64_MAX);
            oracle_wrote(&o, name, token, (int64_t)token);
            oracle_still(&o, name, token, INT64_MAX);
            oracle_leave(&o, name, token, INT64_MAX, token % 2);
        }
        _exit(0);
    }
    for (int i = 0; i < WRITERS; i++) {
        int status = -1;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_int_eq(status, 0);
        oracle_killed(&o, children[i]);
    }
    expect_good();
    ck_assert_uint_eq(verdict.holds, (size_t)WRITERS * ROUNDS);
    ck_assert_uint_eq(verdict.writes, (size_t)WRITERS * ROUNDS);
    ck_assert_uint_eq(verdict.losses, (size_t)WRITERS * ROUNDS / 2);
    ck_assert_uint_eq(verdict.stale, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("oracle");
    TCase *cases = tcase_create("oracle");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, empty);
    tcase_add_test(cases, good);
    tcase_add_test(cases, overlap);
    tcase_add_test(cases, overlap_with_silent);
    tcase_add_test(cases, overlap_with_older);
    tcase_add_test(cases, kill_of_another);
    tcase_add_test(cases, sharing);
    tcase_add_test(cases, sharing_with_writer);
    tcase_add_test(cases, token_falls);
    tcase_add_test(cases, token_twice);
    tcase_add_test(cases, stale_entry);
    tcase_add_test(cases, writes);
    tcase_add_test(cases, writes_in_one_place);
    tcase_add_test(cases, nonsense);
    tcase_add_test(cases, left_twice);
    tcase_add_test(cases, left_by_another);
    tcase_add_test(cases, unknown_event);
    tcase_add_test(cases, torn);
    tcase_add_test(cases, many_writers);
    suite_add_tcase(suite, cases);
    return runner_run(suite);
}
