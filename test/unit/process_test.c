/* lib/core/process.c: a child after fork() is another process, and each thread has its own number. */
#include "core/process.h"

#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/runner.h"

/* The child's verdict comes back as its exit code. */
static int in_child(int (*check)(unsigned parent_generation, int64_t parent_thread))
{
    unsigned generation = el_process_generation();
    int64_t thread = el_process_thread();
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) _exit(check(generation, thread));
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_uint_eq(el_process_generation(), generation);
    ck_assert_int_eq(el_process_thread(), thread);
    return WEXITSTATUS(status);
}

static int is_new_process(unsigned parent_generation, int64_t parent_thread)
{
    if (el_process_generation() == parent_generation) return 1;
    if (el_process_thread() == parent_thread || el_process_thread() != getpid()) return 2;
    return 0;
}

static int has_new_grandchild(unsigned parent_generation, int64_t parent_thread)
{
    unsigned generation = el_process_generation();
    pid_t child = fork();
    if (child < 0) return 3;
    if (child == 0) {
        bool is_new = is_new_process(parent_generation, parent_thread) == 0 &&
                      is_new_process(generation, parent_thread) == 0;
        _exit(is_new ? 0 : 4);
    }
    int status;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 5;
    return WEXITSTATUS(status);
}

/* Without a fork the generation stays, and it is never 0, which marks nothing in zeroed structs. */
START_TEST(stays)
{
    ck_assert_uint_ne(el_process_generation(), 0);
    ck_assert_uint_eq(el_process_generation(), el_process_generation());
}
END_TEST

/* A forked child has another generation and another thread number; the parent keeps both. */
START_TEST(child)
{
    ck_assert_int_eq(in_child(is_new_process), 0);
}
END_TEST

/* A child of a child differs from both of them. */
START_TEST(grandchild)
{
    ck_assert_int_eq(in_child(has_new_grandchild), 0);
}
END_TEST

/* A child knows its thread number even if nobody asked for the generation before the fork. */
START_TEST(thread_number_first)
{
    int64_t thread = el_process_thread();
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) _exit(el_process_thread() == thread);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

static void *other_thread(void *number)
{
    *(int64_t *)number = el_process_thread();
    return NULL;
}

/* The first thread's number is the process's, another thread's is another and the generation the same. */
START_TEST(threads)
{
    pthread_t thread;
    int64_t number = 0;
    unsigned generation = el_process_generation();
    ck_assert_int_eq(el_process_thread(), getpid());
    ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, &number), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_gt(number, 0);
    ck_assert_int_ne(number, el_process_thread());
    ck_assert_uint_eq(el_process_generation(), generation);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("process");
    TCase *tests = tcase_create("process");
    tcase_add_test(tests, stays);
    tcase_add_test(tests, child);
    tcase_add_test(tests, grandchild);
    tcase_add_test(tests, thread_number_first);
    tcase_add_test(tests, threads);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
