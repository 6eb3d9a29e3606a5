/* What no call of the guard changes of its caller: errno, whatever the call returns, and the thread itself,
 * which is not cancelled inside. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "etcdlock/fence.h"
#include "fence/store.h"
#include "support/runner.h"

enum { TOKEN = 7, ERRNO = 4321 };

static etcdlock_fence *fence, *beside;
static store_kind kind;

static void tear_down(void)
{
    if (beside) store_close(beside);
    if (fence) store_close(fence);
    fence = beside = NULL;
    store_remove();
}

static int ignore(const char *resource, uint64_t token, void *arg)
{
    (void)resource, (void)token, (void)arg;
    return 0;
}

static int open_missing(void)
{
    etcdlock_fence *none;
    return store_try("no/such", 0, &none);
}

/* Without Check's own calls, which can be cancelled. */
static int open_and_close(void)
{
    etcdlock_fence *one;
    int error = kind == STORE_MEMORY ? etcdlock_fence_open_memory(&one) : store_try("fence", 0, &one);
    return error ? error : etcdlock_fence_close(one);
}

static int open_nothing(void)
{
    return etcdlock_fence_open_file(NULL, NULL, NULL);
}

static int check_admitted(void)
{
    return etcdlock_fence_check(fence, "r", TOKEN);
}

static int check_new(void)
{
    static unsigned n;
    char name[20];
    snprintf(name, sizeof(name), "new %u", n++);
    return etcdlock_fence_check(fence, name, TOKEN);
}

static int check_stale(void)
{
    return etcdlock_fence_check(fence, "r", TOKEN - 1);
}

static int check_kept(void)
{
    return etcdlock_fence_begin_for(fence, "kept", TOKEN + 1, 5);
}

static int check_token_0(void)
{
    return etcdlock_fence_check(fence, "r", 0);
}

static int check_nothing(void)
{
    return etcdlock_fence_check(NULL, "r", 1);
}

static int begin_and_end(void)
{
    int error = etcdlock_fence_begin(fence, "r", TOKEN);
    return error ? error : etcdlock_fence_end(fence, "r");
}

static int end_not_begun(void)
{
    return etcdlock_fence_end(fence, "r");
}

static int look(void)
{
    uint64_t token;
    return etcdlock_fence_highest(fence, "r", &token);
}

static int walk(void)
{
    return etcdlock_fence_walk(fence, ignore, NULL);
}

static int reset(void)
{
    return etcdlock_fence_reset(fence, "another");
}

static int close_kept(void)
{
    return etcdlock_fence_close(beside);
}

static const struct {
    const char *name;
    int (*call)(void);
    int answer;
    int answer_in_memory; /* where another handle is another guard */
} calls[] = {
    {"open of no such folder", open_missing, ENOENT, ENOENT},
    {"open and close", open_and_close, 0, 0},
    {"open of nothing", open_nothing, EINVAL, EINVAL},
    {"check", check_admitted, 0, 0},
    {"check of a new resource", check_new, 0, 0},
    {"check of a stale token", check_stale, ESTALE, ESTALE},
    {"begin of a kept resource", check_kept, ETIMEDOUT, EDEADLK},
    {"check of token 0", check_token_0, EINVAL, EINVAL},
    {"check of nothing", check_nothing, EINVAL, EINVAL},
    {"begin and end", begin_and_end, 0, 0},
    {"end of what was not begun", end_not_begun, EPERM, EPERM},
    {"highest", look, 0, 0},
    {"walk", walk, 0, 0},
    {"reset", reset, 0, 0},
    {"close of a kept guard", close_kept, EBUSY, EBUSY},
};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

static void set_up_guard(store_kind k)
{
    kind = k;
    store_folder();
    fence = store_open(kind);
    beside = store_open(kind);
    ck_assert_int_eq(etcdlock_fence_check(fence, "r", TOKEN), 0);
    ck_assert_int_eq(etcdlock_fence_check(fence, "another", TOKEN), 0);
    ck_assert_int_eq(etcdlock_fence_begin(beside, "kept", TOKEN), 0);
    if (kind == STORE_MEMORY) ck_assert_int_eq(etcdlock_fence_begin(fence, "kept", TOKEN), 0);
}

static void set_free(void)
{
    if (kind == STORE_MEMORY) ck_assert_int_eq(etcdlock_fence_end(fence, "kept"), 0);
    ck_assert_int_eq(etcdlock_fence_end(beside, "kept"), 0);
}

static int answer(int i)
{
    return kind == STORE_MEMORY ? calls[i].answer_in_memory : calls[i].answer;
}

/* errno is after each call what it was before, whether it failed or not. */
START_TEST(errno_is_left)
{
    set_up_guard((store_kind)_i);
    for (int i = 0; i < CALLS; i++) {
        errno = ERRNO;
        int error = calls[i].call();
        int after = errno;
        ck_assert_msg(error == answer(i), "%s: %d", calls[i].name, error);
        ck_assert_msg(after == ERRNO, "%s: errno became %d", calls[i].name, after);
    }
    set_free();
}
END_TEST

/* Also where the file has gone, as it is then the system that says no. */
START_TEST(errno_is_left_without_file)
{
    set_up_guard(STORE_DISK);
    ck_assert_int_eq(unlink(store_path("fence")), 0);
    errno = ERRNO;
    ck_assert_int_eq(check_admitted(), EIDRM);
    ck_assert_int_eq(errno, ERRNO);
    ck_assert_int_eq(look(), EIDRM);
    ck_assert_int_eq(errno, ERRNO);
    ck_assert_int_eq(etcdlock_fence_end(beside, "kept"), EIDRM);
    ck_assert_int_eq(errno, ERRNO);
}
END_TEST

static int n_returned;

/* With a cancellation that waits for the first point at which the thread may be cancelled. */
static void *call_all(void *arg)
{
    (void)arg;
    pthread_cancel(pthread_self());
    for (n_returned = 0; n_returned < CALLS; n_returned++)
        (void)calls[n_returned].call();
    pthread_testcancel();
    return NULL;
}

/* None of the calls is a cancellation point: a thread whose cancellation is pending returns from all of them,
 * and is cancelled behind them. */
START_TEST(not_cancelled)
{
    set_up_guard((store_kind)_i);
    pthread_t thread;
    void *end;
    ck_assert_int_eq(pthread_create(&thread, NULL, call_all, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, &end), 0);
    ck_assert_ptr_eq(end, PTHREAD_CANCELED);
    ck_assert_msg(n_returned == CALLS, "cancelled in: %s", calls[n_returned % CALLS].name);
    set_free();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fence_caller");
    TCase *tests = tcase_create("fence_caller");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, NULL, tear_down);
    tcase_add_loop_test(tests, errno_is_left, 0, STORE_KINDS);
    tcase_add_test(tests, errno_is_left_without_file);
    tcase_add_loop_test(tests, not_cancelled, 0, STORE_KINDS);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
