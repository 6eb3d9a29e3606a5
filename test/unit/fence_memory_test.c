/* The guard without memory: every allocation fails in turn. Nothing is admitted wrongly, nothing is left open
 * or allocated, and the error is ENOMEM. */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "etcdlock/fence.h"
#include "fence/refusal.h"
#include "fence/store.h"
#include "support/runner.h"

enum { MOST = 1000, TOKEN = 7 };

static etcdlock_fence *fence;

static void set_up(void)
{
    refusal_none();
    store_folder();
}

static void tear_down(void)
{
    set_up();
    if (fence) store_close(fence);
    fence = NULL;
    store_remove();
}

static int open_kind(store_kind kind, etcdlock_fence **out)
{
    if (kind == STORE_MEMORY) return etcdlock_fence_open_memory(out);
    return store_try("fence", kind == STORE_PROCESS ? ETCDLOCK_FENCE_PROCESS : ETCDLOCK_FENCE_DISK, out);
}

/* Whichever allocation fails, opening says ENOMEM, leaves nothing open or allocated and a whole store or
 * none, and succeeds in the end. */
START_TEST(open_without_memory)
{
    int error = ENOMEM;
    long n = 0;
    long before = refusal.alive;
    for (; error; n++) {
        fence = (etcdlock_fence *)&fence;
        refusal.allocations = n;
        error = open_kind((store_kind)_i, &fence);
        refusal.allocations = -1;
        if (!error) break;
        ck_assert_int_eq(error, ENOMEM);
        ck_assert_ptr_null(fence);
        ck_assert_ptr_nonnull(strstr(etcdlock_fence_error_message(), "memory"));
        ck_assert_int_eq(store_n_descriptors(), 0);
        ck_assert_int_eq(refusal.alive, before);
        ck_assert_int_le(store_n_files(), 1);
        ck_assert_int_lt(n, MOST);
    }
    ck_assert_int_ge(n, _i == STORE_MEMORY ? 1 : 3);
    ck_assert_int_eq(etcdlock_fence_check(fence, "r", TOKEN), 0);
}
END_TEST

/* So does opening a store of many resources; what it has is not changed. */
START_TEST(open_full_store_without_memory)
{
    etcdlock_fence *filler = store_open(STORE_PROCESS);
    char name[20];
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "r%d", i);
        ck_assert_int_eq(etcdlock_fence_check(filler, name, TOKEN), 0);
    }
    store_close(filler);
    long before = refusal.alive;
    bool is_through = false;
    int n_refused = 0;
    for (long n = 0; !is_through; n++) {
        ck_assert_int_lt(n, MOST);
        refusal.allocations = n;
        int error = open_kind(STORE_PROCESS, &fence);
        is_through = refusal.allocations >= 0;
        refusal.allocations = -1;
        ck_assert(error == 0 || error == ENOMEM);
        n_refused += error == ENOMEM;
        for (int i = 0; !error && i < 40; i++) {
            snprintf(name, sizeof(name), "r%d", i);
            ck_assert_int_eq(etcdlock_fence_check(fence, name, TOKEN - 1), ESTALE);
        }
        if (!error) store_close(fence);
        fence = NULL;
        ck_assert_int_eq(refusal.alive, before);
        ck_assert_int_eq(store_n_descriptors(), 0);
    }
    ck_assert_int_ge(n_refused, 40);
}
END_TEST

static int call_check(const char *name)
{
    return etcdlock_fence_check(fence, name, TOKEN - 1);
}

static int call_begin(const char *name)
{
    int error = etcdlock_fence_begin(fence, name, TOKEN - 1);
    if (!error) ck_assert_int_eq(etcdlock_fence_end(fence, name), 0);
    return error;
}

static int call_highest(const char *name)
{
    uint64_t token = 99;
    int error = etcdlock_fence_highest(fence, name, &token);
    ck_assert_uint_eq(token, error ? 0 : TOKEN);
    return error;
}

static int count(const char *name, uint64_t token, void *arg)
{
    ck_assert_uint_eq(token, TOKEN);
    ck_assert_uint_ge(strlen(name), 1);
    ++*(int *)arg;
    return 0;
}

static int call_walk(const char *name)
{
    (void)name;
    int n = 0;
    int error = etcdlock_fence_walk(fence, count, &n);
    if (!error) ck_assert_int_eq(n, 41);
    return error;
}

static const struct {
    int (*call)(const char *name);
    int answer;
} calls[] = {{call_check, ESTALE}, {call_begin, ESTALE}, {call_highest, 0}, {call_walk, 0}};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

/* A handle that has to learn of others' resources, and cannot remember them, says ENOMEM and not something
 * else; with memory again it knows them, and refuses what it has to. */
START_TEST(learning_without_memory)
{
    fence = store_open(STORE_PROCESS);
    ck_assert_int_eq(etcdlock_fence_check(fence, "known", TOKEN), 0);
    etcdlock_fence *filler = store_open(STORE_PROCESS);
    char name[20];
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "r%d", i);
        ck_assert_int_eq(etcdlock_fence_check(filler, name, TOKEN), 0);
    }
    store_close(filler);
    int error = ENOMEM, n_refused = 0;
    for (; error == ENOMEM; n_refused++) {
        ck_assert_int_lt(n_refused, MOST);
        refusal.allocations = n_refused % 3;
        error = calls[_i].call("r39");
        refusal.allocations = -1;
        if (error != ENOMEM) break;
        ck_assert_ptr_nonnull(strstr(etcdlock_fence_error_message(), "memory"));
        ck_assert_int_eq(etcdlock_fence_check(fence, "known", TOKEN - 1), ESTALE);
        ck_assert_int_eq(etcdlock_fence_check(fence, "known", TOKEN), 0);
    }
    ck_assert_int_eq(error, calls[_i].answer);
    ck_assert_int_ge(n_refused, 10);
}
END_TEST

/* A new resource that cannot be remembered is not admitted; tried again, it is, once and for all. */
START_TEST(adding_without_memory)
{
    fence = store_open((store_kind)_i);
    char name[20];
    int n_refused = 0;
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "r%d", i);
        int error = ENOMEM;
        for (long n = 0; error; n++) {
            /* A table that cannot grow is not an error: so that it does, its allocation is let through in
             * turn. */
            refusal.allocations = (i + n) % 2;
            error = etcdlock_fence_begin(fence, name, TOKEN);
            refusal.allocations = -1;
            ck_assert(error == 0 || error == ENOMEM);
            ck_assert_int_lt(n, 4);
            n_refused += error != 0;
            if (error) ck_assert_int_eq(etcdlock_fence_end(fence, name), EPERM);
        }
        ck_assert_int_eq(etcdlock_fence_end(fence, name), 0);
        ck_assert_int_eq(etcdlock_fence_check(fence, name, TOKEN - 1), ESTALE);
    }
    ck_assert_int_ge(n_refused, 40);
    if (_i == STORE_MEMORY) return;
    etcdlock_fence *late = store_open((store_kind)_i);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "r%d", i);
        ck_assert_uint_eq(store_highest(late, name), TOKEN);
    }
    store_close(late);
}
END_TEST

/* A process that cannot be told of its forks gets no guard, since its children could not be recognised. */
START_TEST(not_told_of_forks)
{
    refusal.no_forks = ENOMEM;
    ck_assert_int_eq(open_kind((store_kind)_i, &fence), ENOMEM);
    ck_assert_ptr_null(fence);
    ck_assert_int_eq(store_n_files(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fence_memory");
    TCase *tests = tcase_create("fence_memory");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, open_without_memory, 0, STORE_KINDS);
    tcase_add_test(tests, open_full_store_without_memory);
    tcase_add_loop_test(tests, learning_without_memory, 0, CALLS);
    tcase_add_loop_test(tests, adding_without_memory, 0, STORE_KINDS);
    tcase_add_loop_test(tests, not_told_of_forks, 0, STORE_KINDS);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
