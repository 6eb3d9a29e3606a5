/* The guard in a file when the system refuses it something: a rename that does not replace, hard links, every
 * write and sync in turn; and a fork in the middle of opening. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "etcdlock/fence.h"
#include "fence/disk.h"
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

/* ---- creating where the file system can do less ---------------------------------------------------------
 */

static const int no_replace[] = {EINVAL, ENOSYS};

/* A file system that has no rename without replacing gets its store by a hard link; nothing else is left. */
START_TEST(created_by_link)
{
    refusal.no_replace = no_replace[_i];
    ck_assert_int_eq(store_try("fence", ETCDLOCK_FENCE_DISK, &fence), 0);
    ck_assert_int_eq(store_n_files(), 1);
    ck_assert_int_eq(etcdlock_fence_check(fence, "r", TOKEN), 0);
    struct stat status;
    ck_assert_int_eq(stat(store_path("fence"), &status), 0);
    ck_assert_uint_eq(status.st_nlink, 1);
}
END_TEST

/* Another process is quicker. */
static void create_first(void)
{
    int no = refusal.no_replace;
    refusal.before_rename = NULL;
    refusal.no_replace = 0;
    etcdlock_fence *first = store_open(STORE_DISK);
    ck_assert_int_eq(etcdlock_fence_check(first, "r", TOKEN), 0);
    store_close(first);
    refusal.no_replace = no;
}

/* A store that another process has made meanwhile is not replaced, by neither way: its tokens count. */
START_TEST(another_creates_meanwhile)
{
    refusal.no_replace = _i < 2 ? no_replace[_i] : 0;
    refusal.before_rename = create_first;
    ck_assert_int_eq(store_try("fence", ETCDLOCK_FENCE_DISK, &fence), 0);
    ck_assert_int_eq(store_n_files(), 1);
    ck_assert_int_eq(etcdlock_fence_check(fence, "r", TOKEN - 1), ESTALE);
}
END_TEST

/* A file system that has neither is no place for a store, and is named as the reason. */
START_TEST(no_links_either)
{
    refusal.no_replace = EINVAL;
    refusal.no_links = EPERM;
    ck_assert_int_eq(store_try("fence", ETCDLOCK_FENCE_DISK, &fence), ENOTSUP);
    ck_assert_ptr_nonnull(strstr(etcdlock_fence_error_message(), "file system"));
    ck_assert_int_eq(store_n_files(), 0);
    ck_assert_int_eq(store_n_descriptors(), 0);
}
END_TEST

/* ---- writes and syncs -----------------------------------------------------------------------------------
 */

static const int disk_errors[] = {ENOSPC, EROFS, EIO, EDQUOT};
enum { DISK_ERRORS = sizeof(disk_errors) / sizeof(disk_errors[0]) };

static long n_disk_calls; /* before the one that fails; negative: none does */
static int disk_error;

static bool disk_refuses(void)
{
    if (n_disk_calls < 0 || n_disk_calls-- > 0) return false;
    errno = disk_error;
    return true;
}

static ssize_t refused_write(int fd, const void *bytes, size_t size, off_t offset)
{
    return disk_refuses() ? -1 : pwrite(fd, bytes, size, offset);
}

static int refused_sync(int fd)
{
    return disk_refuses() ? -1 : fdatasync(fd);
}

/* A store is made, two resources come, one is raised. Returns what failed. */
static int live_a_little(void)
{
    int error = store_try("fence", ETCDLOCK_FENCE_DISK, &fence);
    if (!error) error = etcdlock_fence_check(fence, "old", TOKEN);
    if (!error) error = etcdlock_fence_check(fence, "r", TOKEN);
    if (!error) error = etcdlock_fence_check(fence, "r", TOKEN + 1);
    if (!error) error = etcdlock_fence_reset(fence, "old");
    return error;
}

/* Whichever write or sync fails, the call says with what; the store is not damaged by it, the same calls
 * succeed afterwards, and what was admitted before is remembered. */
START_TEST(nth_write_fails)
{
    el_fence_disk = (el_fence_disk_calls){refused_write, refused_sync};
    disk_error = disk_errors[_i];
    bool is_through = false;
    long n = 0;
    for (; !is_through; n++) {
        ck_assert_int_lt(n, MOST);
        n_disk_calls = n;
        int error = live_a_little();
        is_through = n_disk_calls >= 0;
        n_disk_calls = -1;
        ck_assert_int_eq(error, is_through ? 0 : disk_error);
        if (error) ck_assert_ptr_nonnull(strstr(etcdlock_fence_error_message(), strerror(disk_error)));
        if (fence) store_close(fence);
        ck_assert_int_le(store_n_files(), 1);
        ck_assert_int_eq(store_try("fence", ETCDLOCK_FENCE_DISK, &fence), 0);
        uint64_t highest = store_highest(fence, "r");
        ck_assert_uint_le(highest, TOKEN + 1);
        if (highest) ck_assert_int_eq(etcdlock_fence_check(fence, "r", highest - 1), ESTALE);
        ck_assert_int_eq(etcdlock_fence_check(fence, "r", TOKEN + 1), 0);
        ck_assert_int_eq(etcdlock_fence_check(fence, "old", TOKEN), 0);
        store_close(fence);
        fence = NULL;
        ck_assert_int_eq(remove(store_path("fence")), 0);
    }
    ck_assert_int_ge(n, 15);
}
END_TEST

/* ---- forks ----------------------------------------------------------------------------------------------
 */

static sem_t may_fork, has_forked;
static pid_t forked;

/* The child tells by its status how many descriptors it has. Check is not for two threads at a time. */
static void *fork_when_told(void *arg)
{
    sem_wait(&may_fork);
    forked = fork();
    if (forked == 0) _exit(store_n_descriptors());
    sem_post(&has_forked);
    return arg;
}

/* The file has just been opened. A fork that does not wait for us is through before the time is up. */
static void let_fork(void)
{
    refusal.after_open = NULL;
    sem_post(&may_fork);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    if (sem_timedwait(&has_forked, &until) == 0) sem_post(&has_forked);
}

/* A child that is forked while another thread opens a store gets none of its descriptors, which would keep
 * the parent's resources after its death. */
START_TEST(fork_while_opening)
{
    store_close(store_open(STORE_PROCESS));
    pthread_t forker;
    ck_assert_int_eq(sem_init(&may_fork, 0, 0), 0);
    ck_assert_int_eq(sem_init(&has_forked, 0, 0), 0);
    ck_assert_int_eq(pthread_create(&forker, NULL, fork_when_told, NULL), 0);
    refusal.after_open = let_fork;
    ck_assert_int_eq(store_try("fence", ETCDLOCK_FENCE_PROCESS, &fence), 0);
    ck_assert_int_eq(pthread_join(forker, NULL), 0);
    ck_assert_int_eq(store_n_descriptors(), 2);
    int status;
    ck_assert_int_eq(waitpid(forked, &status, 0), forked);
    ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fence_fault");
    TCase *tests = tcase_create("fence_fault");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, created_by_link, 0, 2);
    tcase_add_loop_test(tests, another_creates_meanwhile, 0, 3);
    tcase_add_test(tests, no_links_either);
    tcase_add_loop_test(tests, nth_write_fails, 0, DISK_ERRORS);
    tcase_add_test(tests, fork_while_opening);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
