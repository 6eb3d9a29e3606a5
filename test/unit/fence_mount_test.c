/* The guard on file systems that do not take everything: full ones and read-only ones, mounted for this test
 * in a namespace of its own. Where none can be made, the cases say so and do nothing. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "etcdlock/fence.h"
#include "fence/store.h"
#include "support/runner.h"

enum { TOKEN = 7, PAGE = 4096, PAGES = 16, CROWD = 4000 };

static etcdlock_fence *fence;
static bool is_mounted;

/* A file system of PAGES pages over the folder; it goes with the process. False: none can be made here. */
static bool mount_small(const char *test)
{
    char options[50];
    snprintf(options, sizeof(options), "size=%d,mode=0700", PAGES * PAGE);
    is_mounted = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                 mount("fence", store_folder(), "tmpfs", 0, options) == 0;
    if (!is_mounted) printf("fence_mount: %s skipped: no file system can be mounted here\n", test);
    return is_mounted;
}

static void make_read_only(bool read_only)
{
    ck_assert_int_eq(mount(NULL, store_folder(), NULL, MS_REMOUNT | (read_only ? MS_RDONLY : 0), NULL), 0);
}

static void tear_down(void)
{
    if (fence) store_close(fence);
    fence = NULL;
    if (is_mounted) ck_assert_int_eq(umount(store_folder()), 0);
    store_remove();
}

static void fill(void)
{
    static const char page[PAGE];
    int fd = open(store_path("filler"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    while (write(fd, page, PAGE) == PAGE)
        ;
    ck_assert_int_eq(errno, ENOSPC);
    close(fd);
}

static const char *name_of(int i)
{
    static char name[200];
    snprintf(name, sizeof(name), "%0150d", i);
    return name;
}

/* Adds resources until there is no room; returns how many there are. */
static int crowd(void)
{
    for (int i = 0; i < CROWD; i++) {
        int error = etcdlock_fence_check(fence, name_of(i), TOKEN);
        if (!error) continue;
        ck_assert_int_eq(error, ENOSPC);
        ck_assert_ptr_nonnull(strstr(etcdlock_fence_error_message(), "make room"));
        return i;
    }
    ck_abort_msg("it was never full");
}

/* On a read-only file system no store is opened nor made, and the error says which of all reasons it is. */
START_TEST(read_only)
{
    if (!mount_small("read_only")) return;
    store_close(store_open(STORE_DISK));
    make_read_only(true);
    ck_assert_int_eq(store_try("fence", 0, &fence), EROFS);
    ck_assert_ptr_null(fence);
    ck_assert_ptr_nonnull(strstr(etcdlock_fence_error_message(), "read-only"));
    ck_assert_int_eq(store_try("new", 0, &fence), EROFS);
    ck_assert_ptr_nonnull(strstr(etcdlock_fence_error_message(), store_path("new")));
    make_read_only(false);
    fence = store_open(STORE_DISK);
}
END_TEST

/* On a full one no store is made, and no part of one stays. */
START_TEST(full_before)
{
    if (!mount_small("full_before")) return;
    fill();
    ck_assert_int_eq(store_try("fence", 0, &fence), ENOSPC);
    ck_assert_ptr_null(fence);
    ck_assert_int_eq(store_n_files(), 1);
    ck_assert_int_eq(unlink(store_path("filler")), 0);
    fence = store_open(STORE_DISK);
}
END_TEST

/* A store that finds its file system full goes on with what it has: higher tokens are admitted and
 * remembered, lower ones refused; only another resource is an error. With room again it comes in. */
START_TEST(full_meanwhile)
{
    if (!mount_small("full_meanwhile")) return;
    fence = store_open((store_kind)_i);
    fill();
    ck_assert_int_eq(etcdlock_fence_check(fence, "first", TOKEN), ENOSPC);
    ck_assert_uint_eq(store_highest(fence, "first"), 0);
    ck_assert_int_eq(truncate(store_path("filler"), PAGE), 0);
    int n = crowd();
    ck_assert_int_gt(n, 20);
    ck_assert_int_eq(etcdlock_fence_check(fence, name_of(n), TOKEN), ENOSPC);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(etcdlock_fence_check(fence, name_of(i), TOKEN + 1), 0);
        ck_assert_int_eq(etcdlock_fence_check(fence, name_of(i), TOKEN), ESTALE);
    }
    etcdlock_fence *late = store_open((store_kind)_i);
    ck_assert_uint_eq(store_highest(late, name_of(n - 1)), TOKEN + 1);
    ck_assert_uint_eq(store_highest(late, name_of(n)), 0);
    ck_assert_int_eq(unlink(store_path("filler")), 0);
    ck_assert_int_eq(etcdlock_fence_check(late, name_of(n), TOKEN), 0);
    ck_assert_int_eq(etcdlock_fence_check(fence, name_of(n), TOKEN - 1), ESTALE);
    store_close(late);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fence_mount");
    TCase *tests = tcase_create("fence_mount");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, NULL, tear_down);
    tcase_add_test(tests, read_only);
    tcase_add_test(tests, full_before);
    tcase_add_loop_test(tests, full_meanwhile, STORE_PROCESS, STORE_KINDS);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
