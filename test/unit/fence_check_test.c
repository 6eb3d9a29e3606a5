/* etcdlock/fence.h: what every guard does, in memory and in a file: admit and refuse, keep others out, look,
 * reset. Each case runs for each kind of guard. */
#include "etcdlock/fence.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fence/store.h"
#include "support/child.h"
#include "support/runner.h"

static etcdlock_fence *fence;

static int check(const char *resource, uint64_t token)
{
    return etcdlock_fence_check(fence, resource, token);
}

static void tear_down(void)
{
    store_close(fence);
    store_remove();
}

/* ---- check --------------------------------------------------------------------------------------------- */

/* A token as high as the highest or higher is admitted, a lower one is refused, and refusing changes nothing.
 */
START_TEST(admits_what_is_not_lower)
{
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(check("r", 41), 0);
    ck_assert_int_eq(check("r", 41), 0);
    ck_assert_int_eq(check("r", 57), 0);
    ck_assert_int_eq(check("r", 56), ESTALE);
    ck_assert_int_eq(check("r", 1), ESTALE);
    ck_assert_int_eq(check("r", 57), 0);
    ck_assert_uint_eq(store_highest(fence, "r"), 57);
    ck_assert_int_eq(check("r", UINT64_MAX), 0);
    ck_assert_int_eq(check("r", UINT64_MAX - 1), ESTALE);
}
END_TEST

/* The refusal's message names the resource and both tokens. */
START_TEST(refusal_says_why)
{
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(check("orders", 57), 0);
    ck_assert_int_eq(check("orders", 41), ESTALE);
    const char *message = etcdlock_fence_error_message();
    ck_assert_ptr_nonnull(strstr(message, "orders"));
    ck_assert_ptr_nonnull(strstr(message, "41"));
    ck_assert_ptr_nonnull(strstr(message, "57"));
}
END_TEST

/* Resources do not know of each other, also where one's name begins like the other's. */
START_TEST(resources_are_separate)
{
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(check("a", 100), 0);
    ck_assert_int_eq(check("ab", 5), 0);
    ck_assert_int_eq(check("\x01\xff/ \n", 6), 0);
    ck_assert_int_eq(check("a", 99), ESTALE);
    ck_assert_int_eq(check("ab", 4), ESTALE);
    ck_assert_uint_eq(store_highest(fence, "\x01\xff/ \n"), 6);
    ck_assert_uint_eq(store_highest(fence, "b"), 0);
}
END_TEST

/* Names have 1 to 1,024 bytes; a name that differs from another in its last byte only is another one. */
START_TEST(names_have_bounds)
{
    fence = store_open((store_kind)_i);
    char name[ETCDLOCK_FENCE_RESOURCE_MAX + 2];
    memset(name, 'n', sizeof(name));
    name[ETCDLOCK_FENCE_RESOURCE_MAX + 1] = '\0';
    ck_assert_int_eq(check(name, 1), EINVAL);
    ck_assert_int_eq(check("", 1), EINVAL);
    ck_assert_int_eq(check(NULL, 1), EINVAL);
    name[ETCDLOCK_FENCE_RESOURCE_MAX] = '\0';
    ck_assert_int_eq(check(name, 9), 0);
    name[ETCDLOCK_FENCE_RESOURCE_MAX - 1] = 'm';
    ck_assert_int_eq(check(name, 3), 0);
    ck_assert_int_eq(check(name, 2), ESTALE);
}
END_TEST

/* What no caller may pass is EINVAL everywhere, with a message, and leaves the guard as it was. */
START_TEST(wrong_arguments)
{
    uint64_t token = 1;
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(check("r", 0), EINVAL);
    ck_assert_ptr_nonnull(strstr(etcdlock_fence_error_message(), "token 0"));
    ck_assert_int_eq(etcdlock_fence_check(NULL, "r", 1), EINVAL);
    ck_assert_int_eq(etcdlock_fence_begin(NULL, "r", 1), EINVAL);
    ck_assert_int_eq(etcdlock_fence_begin_for(NULL, "r", 1, 5), EINVAL);
    ck_assert_int_eq(etcdlock_fence_begin(fence, "r", 0), EINVAL);
    ck_assert_int_eq(etcdlock_fence_end(NULL, "r"), EINVAL);
    ck_assert_int_eq(etcdlock_fence_end(fence, ""), EINVAL);
    ck_assert_int_eq(etcdlock_fence_highest(NULL, "r", &token), EINVAL);
    ck_assert_uint_eq(token, 0);
    ck_assert_int_eq(etcdlock_fence_highest(fence, "r", NULL), EINVAL);
    ck_assert_int_eq(etcdlock_fence_highest(fence, NULL, &token), EINVAL);
    ck_assert_int_eq(etcdlock_fence_reset(NULL, "r"), EINVAL);
    ck_assert_int_eq(etcdlock_fence_reset(fence, ""), EINVAL);
    ck_assert_int_eq(etcdlock_fence_walk(NULL, NULL, NULL), EINVAL);
    ck_assert_int_eq(etcdlock_fence_walk(fence, NULL, NULL), EINVAL);
    ck_assert_int_eq(etcdlock_fence_open_memory(NULL), EINVAL);
    ck_assert_int_eq(etcdlock_fence_close(NULL), 0);
    ck_assert_uint_eq(store_highest(fence, "r"), 0);
}
END_TEST

/* ---- begin and end --------------------------------------------------------------------------------------
 */

typedef struct other {
    int (*call)(struct other *other);
    const char *resource;
    uint64_t token;
    int64_t ms;
    int error;
    atomic_bool is_started;
    atomic_bool is_done;
    pthread_t thread;
} other;

static int other_begin(other *o)
{
    int error = etcdlock_fence_begin_for(fence, o->resource, o->token, o->ms);
    if (!error) ck_assert_int_eq(etcdlock_fence_end(fence, o->resource), 0);
    return error;
}

static int other_check(other *o)
{
    return check(o->resource, o->token);
}

static int other_end(other *o)
{
    return etcdlock_fence_end(fence, o->resource);
}

static void *run_other(void *arg)
{
    other *o = arg;
    o->is_started = true;
    o->error = o->call(o);
    o->is_done = true;
    return NULL;
}

static void start(other *o)
{
    ck_assert_int_eq(pthread_create(&o->thread, NULL, run_other, o), 0);
}

static int result(other *o)
{
    ck_assert_int_eq(pthread_join(o->thread, NULL), 0);
    return o->error;
}

static int run(other *o)
{
    start(o);
    return result(o);
}

/* Begins in another thread, and ends if that was admitted. */
static int beginning(const char *resource, uint64_t token, int64_t ms)
{
    return run(&(other){.call = other_begin, .resource = resource, .token = token, .ms = ms});
}

/* Between begin and end no other thread gets in, not even with the same token; other resources are free. */
START_TEST(begin_keeps_others_out)
{
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(etcdlock_fence_begin(fence, "r", 7), 0);
    ck_assert_int_eq(beginning("r", 7, 30), ETIMEDOUT);
    ck_assert_int_eq(beginning("r", 8, 0), ETIMEDOUT);
    ck_assert_int_eq(beginning("s", 1, 0), 0);
    ck_assert_uint_eq(store_highest(fence, "r"), 7);
    ck_assert_int_eq(etcdlock_fence_end(fence, "r"), 0);
    ck_assert_int_eq(beginning("r", 8, 0), 0);
    ck_assert_int_eq(etcdlock_fence_begin(fence, "r", 7), ESTALE);
}
END_TEST

/* A check with a higher token waits for the end, and is then admitted. */
START_TEST(check_waits_for_end)
{
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(etcdlock_fence_begin(fence, "r", 7), 0);
    other o = {.call = other_check, .resource = "r", .token = 8};
    start(&o);
    while (!o.is_started)
        sched_yield();
    /* Time to return in, if it does not wait. */
    nanosleep(&(struct timespec){0, 60 * 1000000}, NULL);
    ck_assert(!o.is_done);
    ck_assert_uint_eq(store_highest(fence, "r"), 7);
    ck_assert_int_eq(etcdlock_fence_end(fence, "r"), 0);
    ck_assert_int_eq(result(&o), 0);
    ck_assert_uint_eq(store_highest(fence, "r"), 8);
}
END_TEST

/* A token that is too low is refused at once, also while the resource is kept. */
START_TEST(stale_does_not_wait)
{
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(etcdlock_fence_begin(fence, "r", 7), 0);
    other o = {.call = other_begin, .resource = "r", .token = 6, .ms = -1};
    ck_assert_int_eq(run(&o), ESTALE);
    ck_assert_int_eq(beginning("r", 6, 0), ESTALE);
    ck_assert_int_eq(etcdlock_fence_end(fence, "r"), 0);
}
END_TEST

/* The thread that keeps a resource cannot wait for itself, and only it can end. */
START_TEST(only_who_began)
{
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(etcdlock_fence_end(fence, "r"), EPERM);
    ck_assert_int_eq(etcdlock_fence_begin(fence, "r", 7), 0);
    ck_assert_int_eq(etcdlock_fence_begin(fence, "r", 8), EDEADLK);
    ck_assert_int_eq(check("r", 8), EDEADLK);
    ck_assert_int_eq(etcdlock_fence_reset(fence, "r"), EDEADLK);
    ck_assert_int_eq(run(&(other){.call = other_end, .resource = "r"}), EPERM);
    ck_assert_int_eq(etcdlock_fence_begin(fence, "s", 1), 0);
    ck_assert_int_eq(etcdlock_fence_end(fence, "r"), 0);
    ck_assert_int_eq(etcdlock_fence_end(fence, "r"), EPERM);
    ck_assert_int_eq(etcdlock_fence_end(fence, "s"), 0);
    ck_assert_uint_eq(store_highest(fence, "r"), 7);
}
END_TEST

/* A guard that is in use is not closed. */
START_TEST(close_of_kept)
{
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(etcdlock_fence_begin(fence, "r", 7), 0);
    ck_assert_int_eq(etcdlock_fence_close(fence), EBUSY);
    ck_assert_int_eq(etcdlock_fence_begin(fence, "s", 7), 0);
    ck_assert_int_eq(etcdlock_fence_end(fence, "s"), 0);
    ck_assert_int_eq(etcdlock_fence_end(fence, "r"), 0);
}
END_TEST

enum { CROWD = 6, ROUNDS = 300 };

static atomic_uint_fast64_t next_token;
static uint64_t written; /* by whoever is in: not atomic, so that ThreadSanitizer sees a second one */
static unsigned n_written;

static void *crowd(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t token = atomic_fetch_add(&next_token, 1) + 1;
        int error = etcdlock_fence_begin(fence, "r", token);
        if (error == ESTALE) continue;
        ck_assert_int_eq(error, 0);
        ck_assert_uint_ge(token, written);
        written = token;
        n_written++;
        ck_assert_int_eq(etcdlock_fence_end(fence, "r"), 0);
    }
    return NULL;
}

/* Threads that write between begin and end never meet, and what they write never goes back. */
START_TEST(crowd_of_threads)
{
    fence = store_open((store_kind)_i);
    pthread_t threads[CROWD];
    for (int i = 0; i < CROWD; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, crowd, NULL), 0);
    for (int i = 0; i < CROWD; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(store_highest(fence, "r"), written);
    ck_assert_uint_ge(n_written, ROUNDS);
}
END_TEST

/* A thread that is cancelled while it waits takes no turn with it: the next one gets in. */
START_TEST(cancelled_waiter)
{
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(etcdlock_fence_begin(fence, "r", 7), 0);
    other o = {.call = other_begin, .resource = "r", .token = 8, .ms = 100};
    start(&o);
    nanosleep(&(struct timespec){0, 20 * 1000000}, NULL);
    ck_assert_int_eq(pthread_cancel(o.thread), 0);
    ck_assert_int_eq(pthread_join(o.thread, NULL), 0);
    ck_assert_int_eq(etcdlock_fence_end(fence, "r"), 0);
    ck_assert_int_eq(beginning("r", 9, 0), 0);
}
END_TEST

/* ---- looking and resetting ------------------------------------------------------------------------------
 */

static int remember(const char *resource, uint64_t token, void *arg)
{
    char *text = arg;
    snprintf(text + strlen(text), 100, "%s=%llu ", resource, (unsigned long long)token);
    return strcmp(resource, "stop") == 0 ? 77 : 0;
}

/* A walk tells of every resource with a token, in the order in which they came, and ends when it is told to.
 */
START_TEST(walk_tells_all)
{
    char text[500] = "";
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(etcdlock_fence_walk(fence, remember, text), 0);
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(check("z", 3), 0);
    ck_assert_int_eq(check("a", 5), 0);
    ck_assert_int_eq(check("gone", 5), 0);
    ck_assert_int_eq(etcdlock_fence_reset(fence, "gone"), 0);
    ck_assert_int_eq(check("m", 4), 0);
    ck_assert_int_eq(etcdlock_fence_walk(fence, remember, text), 0);
    ck_assert_str_eq(text, "z=3 a=5 m=4 ");
    ck_assert_int_eq(check("stop", 1), 0);
    ck_assert_int_eq(check("more", 1), 0);
    *text = '\0';
    ck_assert_int_eq(etcdlock_fence_walk(fence, remember, text), 77);
    ck_assert_str_eq(text, "z=3 a=5 m=4 stop=1 ");
}
END_TEST

/* After a reset any token is admitted, of that resource only; what was never seen cannot be reset. */
START_TEST(reset_forgets_one)
{
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(check("r", 1000), 0);
    ck_assert_int_eq(check("s", 1000), 0);
    ck_assert_int_eq(etcdlock_fence_reset(fence, "t"), ENOENT);
    ck_assert_int_eq(etcdlock_fence_reset(fence, "r"), 0);
    ck_assert_uint_eq(store_highest(fence, "r"), 0);
    ck_assert_int_eq(check("r", 3), 0);
    ck_assert_int_eq(check("r", 2), ESTALE);
    ck_assert_int_eq(check("s", 999), ESTALE);
}
END_TEST

static void in_child(child *parent, void *arg)
{
    (void)arg;
    uint64_t token;
    child_send(parent, check("r", 8));
    child_send(parent, etcdlock_fence_begin(fence, "r", 8));
    child_send(parent, etcdlock_fence_end(fence, "r"));
    child_send(parent, etcdlock_fence_highest(fence, "r", &token));
    child_send(parent, etcdlock_fence_close(fence));
}

/* A child cannot use its parent's handle, can free its copy, and does the parent no harm by that. */
START_TEST(forked_child)
{
    child c;
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(check("r", 7), 0);
    child_start(&c, in_child, NULL);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(child_receive(&c), ETCDLOCK_EFORKED);
    ck_assert_int_eq(child_receive(&c), 0);
    child_end(&c);
    ck_assert_uint_eq(store_highest(fence, "r"), 7);
    ck_assert_int_eq(check("r", 8), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fence_check");
    TCase *tests = tcase_create("fence_check");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, NULL, tear_down);
    tcase_add_loop_test(tests, admits_what_is_not_lower, 0, STORE_KINDS);
    tcase_add_loop_test(tests, refusal_says_why, 0, STORE_KINDS);
    tcase_add_loop_test(tests, resources_are_separate, 0, STORE_KINDS);
    tcase_add_loop_test(tests, names_have_bounds, 0, STORE_KINDS);
    tcase_add_loop_test(tests, wrong_arguments, 0, STORE_KINDS);
    tcase_add_loop_test(tests, begin_keeps_others_out, 0, STORE_KINDS);
    tcase_add_loop_test(tests, check_waits_for_end, 0, STORE_KINDS);
    tcase_add_loop_test(tests, stale_does_not_wait, 0, STORE_KINDS);
    tcase_add_loop_test(tests, only_who_began, 0, STORE_KINDS);
    tcase_add_loop_test(tests, close_of_kept, 0, STORE_KINDS);
    tcase_add_loop_test(tests, crowd_of_threads, 0, STORE_KINDS);
    tcase_add_loop_test(tests, cancelled_waiter, 0, STORE_KINDS);
    tcase_add_loop_test(tests, walk_tells_all, 0, STORE_KINDS);
    tcase_add_loop_test(tests, reset_forgets_one, 0, STORE_KINDS);
    tcase_add_loop_test(tests, forked_child, 0, STORE_KINDS);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
