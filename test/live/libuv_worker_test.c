/* examples/libuv_worker: two loops of many locks side by side, and one that is interrupted. */
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdio.h>

#include "support/etcdctl.h"
#include "support/live.h"

static char program[512];

static pid_t start(const char *locks, const char *rounds, const char *work_ms)
{
    const char *prefix = live_name("uv/"); /* of this process, not of the next */
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid > 0) return pid;
    setenv("ETCDCTL_ENDPOINTS", getenv("ETCDLOCK_TEST_ENDPOINTS"), 1);
    setenv("ETCDLOCK_PREFIX", prefix, 1);
    execl(program, program, locks, rounds, work_ms, (char *)NULL);
    _exit(127);
}

static int status_of(pid_t pid)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Every round of every lock is held, in rising order of tokens, by one of the two at a time. */
START_TEST(two_loops)
{
    pid_t other = start("100", "3", "2");
    ck_assert_int_eq(status_of(start("100", "3", "2")), 0);
    ck_assert_int_eq(status_of(other), 0);
    ck_assert_uint_eq(etcdctl_count(live_name("uv/")), 0);
}
END_TEST

/* More than one of the two can have: both listen to signals by then. */
static bool are_both_in(void *arg)
{
    (void)arg;
    return etcdctl_count(live_name("uv/")) > 50;
}

/* Ctrl-C ends the waits, lets the holds end, and leaves nothing behind. */
START_TEST(interrupted)
{
    pid_t one = start("50", "1000", "200"), other = start("50", "1000", "200");
    ck_assert(live_wait_until(are_both_in, NULL, 10000));
    ck_assert_int_eq(kill(one, SIGINT), 0);
    ck_assert_int_eq(status_of(one), 0);
    ck_assert_int_eq(kill(other, SIGINT), 0);
    ck_assert_int_eq(status_of(other), 0);
    ck_assert_uint_eq(etcdctl_count(live_name("uv/")), 0);
}
END_TEST

/* Arguments that make no sense are refused. */
START_TEST(wrong_arguments)
{
    ck_assert_int_eq(status_of(start("0", "1", "1")), 2);
    ck_assert_int_eq(status_of(start("ten", "1", "1")), 2);
}
END_TEST

int main(void)
{
    TCase *cases;
    struct stat found;
    const char *out = getenv("OUT");
    snprintf(program, sizeof program, "%s/examples/libuv_worker", out ? out : "build/release");
    if (stat(program, &found) != 0) {
        printf("%s is not there: libuv is not installed\n", program);
        return 0;
    }
    Suite *suite = live_suite("libuv_worker", &cases, 60);
    tcase_add_test(cases, two_loops);
    tcase_add_test(cases, interrupted);
    tcase_add_test(cases, wrong_arguments);
    return live_run(suite);
}
