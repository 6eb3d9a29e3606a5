/* etcdlock_fence_open_file: what is opened, what is created, what is refused, and what an administrator can
 * do to a file under the hands of those who use it. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "etcdlock/fence.h"
#include "fence/cell.h"
#include "fence/store.h"
#include "support/child.h"
#include "support/runner.h"

static etcdlock_fence *fence;

static void tear_down(void)
{
    if (fence) store_close(fence);
    fence = NULL;
    store_remove();
}

static int try_open(const char *name)
{
    fence = (etcdlock_fence *)&fence;
    int error = store_try(name, 0, &fence);
    if (error) ck_assert_ptr_null(fence);
    return error;
}

static int check(const char *resource, uint64_t token)
{
    return etcdlock_fence_check(fence, resource, token);
}

static int open_with(const etcdlock_fence_options *options)
{
    return etcdlock_fence_open_file(&fence, store_path("fence"), options);
}

/* ---- opening and creating -------------------------------------------------------------------------------
 */

/* What was admitted is remembered by the next handle, and by one that is open beside. */
START_TEST(remembers)
{
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(check("r", 7), 0);
    etcdlock_fence *beside = store_open((store_kind)_i);
    ck_assert_int_eq(etcdlock_fence_check(beside, "r", 6), ESTALE);
    ck_assert_int_eq(etcdlock_fence_check(beside, "r", 9), 0);
    ck_assert_int_eq(etcdlock_fence_check(beside, "new", 3), 0);
    ck_assert_int_eq(check("r", 8), ESTALE);
    ck_assert_uint_eq(store_highest(fence, "new"), 3);
    ck_assert_int_eq(check("new", 2), ESTALE);
    store_close(beside);
    store_close(fence);
    fence = store_open((store_kind)_i);
    ck_assert_uint_eq(store_highest(fence, "r"), 9);
    ck_assert_int_eq(check("r", 8), ESTALE);
}
END_TEST

/* Two handles of one process keep each other out like two processes. */
START_TEST(handles_exclude)
{
    fence = store_open((store_kind)_i);
    etcdlock_fence *beside = store_open((store_kind)_i);
    ck_assert_int_eq(etcdlock_fence_begin(fence, "r", 7), 0);
    ck_assert_int_eq(etcdlock_fence_begin_for(beside, "r", 8, 0), ETIMEDOUT);
    ck_assert_int_eq(etcdlock_fence_begin_for(beside, "r", 8, 20), ETIMEDOUT);
    ck_assert_ptr_nonnull(strstr(etcdlock_fence_error_message(), store_path("fence")));
    ck_assert_int_eq(etcdlock_fence_begin_for(beside, "r", 6, 60000), ESTALE);
    ck_assert_int_eq(etcdlock_fence_begin_for(beside, "s", 8, 0), 0);
    ck_assert_uint_eq(store_highest(beside, "r"), 7);
    ck_assert_int_eq(etcdlock_fence_end(fence, "r"), 0);
    ck_assert_int_eq(etcdlock_fence_begin_for(beside, "r", 8, 0), 0);
    ck_assert_int_eq(etcdlock_fence_end(beside, "r"), 0);
    ck_assert_int_eq(etcdlock_fence_end(beside, "s"), 0);
    store_close(beside);
}
END_TEST

/* Closing one handle does not open the gates of another one, as the older locks of a process would. */
START_TEST(close_keeps_other_gates)
{
    fence = store_open(STORE_PROCESS);
    ck_assert_int_eq(etcdlock_fence_begin(fence, "r", 7), 0);
    store_close(store_open(STORE_PROCESS));
    etcdlock_fence *beside = store_open(STORE_PROCESS);
    ck_assert_int_eq(etcdlock_fence_begin_for(beside, "r", 8, 0), ETIMEDOUT);
    ck_assert_int_eq(etcdlock_fence_end(fence, "r"), 0);
    store_close(beside);
}
END_TEST

/* EXISTING does not create: a store that has gone is an error. */
START_TEST(existing)
{
    etcdlock_fence_options options = ETCDLOCK_FENCE_OPTIONS_INIT;
    options.flags = ETCDLOCK_FENCE_EXISTING;
    ck_assert_int_eq(open_with(&options), ENOENT);
    ck_assert_int_eq(access(store_path("fence"), F_OK), -1);
    store_close(store_open(STORE_PROCESS));
    ck_assert_int_eq(open_with(&options), 0);
}
END_TEST

/* A file keeps the durability it was made with, DISK if nothing was said; who wants another is told. */
START_TEST(durability_belongs_to_file)
{
    store_close(store_open_file("fence", 0, 0));
    ck_assert_int_eq(store_try("fence", ETCDLOCK_FENCE_PROCESS, &fence), EINVAL);
    ck_assert_ptr_nonnull(strstr(etcdlock_fence_error_message(), "DISK"));
    store_close(store_open_file("fence", ETCDLOCK_FENCE_DISK, 0));
    store_close(store_open_file("other", ETCDLOCK_FENCE_PROCESS, 0));
    ck_assert_int_eq(store_try("other", ETCDLOCK_FENCE_DISK, &fence), EINVAL);
    store_close(store_open_file("other", 0, 0));
}
END_TEST

/* The file is its owner's alone, or has the mode that was asked for, less the umask. */
START_TEST(mode_of_file)
{
    struct stat status;
    etcdlock_fence_options options = ETCDLOCK_FENCE_OPTIONS_INIT;
    umask(022);
    store_close(store_open_file("private", 0, 0));
    ck_assert_int_eq(stat(store_path("private"), &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0600);
    options.mode = 0666;
    ck_assert_int_eq(open_with(&options), 0);
    ck_assert_int_eq(stat(store_path("fence"), &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0644);
}
END_TEST

/* Options that are not known are refused; an older caller's shorter struct is taken. */
START_TEST(options_are_judged)
{
    const etcdlock_fence_options good = ETCDLOCK_FENCE_OPTIONS_INIT;
    etcdlock_fence_options options = good;
    options.size = 0;
    ck_assert_int_eq(open_with(&options), EINVAL);
    options.size = sizeof(options) + 8;
    ck_assert_int_eq(open_with(&options), EINVAL);
    options = good, options.durability = (etcdlock_fence_durability)3;
    ck_assert_int_eq(open_with(&options), EINVAL);
    options = good, options.flags = 2;
    ck_assert_int_eq(open_with(&options), EINVAL);
    options = good, options.mode = 04600;
    ck_assert_int_eq(open_with(&options), EINVAL);
    options = good, options.mode = 0440;
    ck_assert_int_eq(open_with(&options), EINVAL);
    ck_assert_int_eq(etcdlock_fence_open_file(NULL, "x", NULL), EINVAL);
    ck_assert_int_eq(etcdlock_fence_open_file(&fence, NULL, NULL), EINVAL);
    ck_assert_int_eq(etcdlock_fence_open_file(&fence, "", NULL), EINVAL);
    ck_assert_ptr_null(fence);
    options = good, options.size = offsetof(etcdlock_fence_options, flags), options.flags = 99;
    ck_assert_int_eq(open_with(&options), 0);
}
END_TEST

/* The descriptors do not reach a program that is started. */
START_TEST(closed_on_exec)
{
    fence = store_open(STORE_PROCESS);
    int n_open = 0;
    for (int fd = 3; fd < 100; fd++) {
        char link[64], target[600];
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t size = readlink(link, target, sizeof(target) - 1);
        if (size < 0) continue;
        target[size] = '\0';
        if (strncmp(target, store_folder(), strlen(store_folder())) != 0) continue;
        ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        n_open++;
    }
    ck_assert_int_eq(n_open, 2);
}
END_TEST

/* A relative path goes on to mean the same file when the working folder changes. */
START_TEST(relative_path)
{
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(chdir(store_folder()), 0);
    ck_assert_int_eq(etcdlock_fence_open_file(&fence, "fence", NULL), 0);
    ck_assert_int_eq(fchdir(here), 0);
    close(here);
    ck_assert_int_eq(check("r", 7), 0);
    ck_assert_int_eq(access(store_path("fence"), F_OK), 0);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------------------
 */

/* A path that cannot be a fence file fails with the system's word for it, and nothing is made there. */
START_TEST(refused_paths)
{
    ck_assert_int_eq(try_open("no/such"), ENOENT);
    ck_assert_int_eq(mkdir(store_path("folder"), 0700), 0);
    ck_assert_int_eq(try_open("folder"), EISDIR);
    ck_assert_int_eq(try_open("folder/"), EISDIR);
    store_write("text", "hello", 5);
    ck_assert_int_eq(try_open("text/fence"), ENOTDIR);
    ck_assert_int_eq(symlink("nowhere", store_path("link")), 0);
    ck_assert_int_eq(try_open("link"), ELOOP);
    ck_assert_int_eq(access(store_path("nowhere"), F_OK), -1);
    ck_assert_int_eq(mkfifo(store_path("pipe"), 0600), 0);
    ck_assert_int_eq(try_open("pipe"), EBADMSG);
    ck_assert_int_eq(etcdlock_fence_open_file(&fence, "/dev/full", NULL), EBADMSG);
    ck_assert_int_eq(etcdlock_fence_open_file(&fence, "/", NULL), EISDIR);
    char name[300];
    memset(name, 'n', sizeof(name));
    name[299] = '\0';
    ck_assert_int_eq(try_open(name), ENAMETOOLONG);
    name[250] = '\0';
    ck_assert_int_eq(try_open(name), ENAMETOOLONG);
}
END_TEST

/* A file of somebody else's, an empty one too, is refused and left as it is. */
START_TEST(not_ours)
{
    static const char text[9000] = "#!/bin/sh\n";
    for (size_t size = 0; size <= sizeof(text); size += 4500) {
        store_write("foreign", text, size);
        ck_assert_int_eq(try_open("foreign"), EBADMSG);
        size_t after;
        unsigned char *bytes = store_read("foreign", &after);
        ck_assert_uint_eq(after, size);
        ck_assert_mem_eq(bytes, text, size);
        free(bytes);
    }
}
END_TEST

static void as_nobody(child *parent, void *arg)
{
    (void)arg;
    ck_assert_int_eq(setuid(65534), 0);
    child_send(parent, try_open("fence"));
    child_send(parent, try_open("new"));
    child_send(parent, strstr(etcdlock_fence_error_message(), store_path("new")) != NULL);
}

/* A file or a folder that may not be written is EACCES. */
START_TEST(no_access)
{
    if (getuid() != 0) return;
    store_close(store_open(STORE_PROCESS));
    ck_assert_int_eq(chmod(store_path("fence"), 0644), 0);
    ck_assert_int_eq(chmod(store_folder(), 0755), 0);
    child c;
    child_start(&c, as_nobody, NULL);
    ck_assert_int_eq(child_receive(&c), EACCES);
    ck_assert_int_eq(child_receive(&c), EACCES);
    ck_assert_int_eq(child_receive(&c), 1);
    child_end(&c);
}
END_TEST

static void as_nobody_with_token(child *parent, void *arg)
{
    (void)arg;
    ck_assert_int_eq(setuid(65534), 0);
    child_send(parent, try_open("fence"));
    child_send(parent, fence ? check("r", 7) : -1);
}

/* A folder that may be passed through but not listed is enough for a store that is there. */
START_TEST(folder_not_listed)
{
    if (getuid() != 0) return;
    store_close(store_open(STORE_DISK));
    ck_assert_int_eq(chmod(store_path("fence"), 0666), 0);
    ck_assert_int_eq(chmod(store_folder(), 0711), 0);
    child c;
    child_start(&c, as_nobody_with_token, NULL);
    ck_assert_int_eq(child_receive(&c), 0);
    ck_assert_int_eq(child_receive(&c), 0);
    child_end(&c);
}
END_TEST

/* A file of a newer version of the library is not touched. */
START_TEST(newer_version)
{
    store_close(store_open(STORE_PROCESS));
    size_t size;
    unsigned char *bytes = store_read("fence", &size);
    el_fence_cell header = {
        .kind = EL_FENCE_HEADER, .writes = 1, .version = EL_FENCE_VERSION + 1, .end = 8192};
    el_fence_cell_encode(&header, 0, bytes);
    el_fence_cell_encode(&header, 0, bytes + EL_FENCE_PAGE);
    store_write("fence", bytes, size);
    ck_assert_int_eq(try_open("fence"), ENOTSUP);
    free(bytes);
}
END_TEST

/* A store that was cut short is an error at every length, never an emptier store. */
START_TEST(cut_short)
{
    fence = store_open(STORE_PROCESS);
    for (int i = 0; i < 300; i++) {
        char name[80];
        snprintf(name, sizeof(name), "a resource with a name of some length, number %d", i);
        ck_assert_int_eq(check(name, 5), 0);
    }
    store_close(fence);
    size_t size;
    unsigned char *bytes = store_read("fence", &size);
    ck_assert_uint_ge(size, 3 * EL_FENCE_PAIR);
    for (size_t cut = 0; cut < size; cut += 97) {
        store_write("fence", bytes, cut);
        ck_assert_int_eq(try_open("fence"), EBADMSG);
    }
    free(bytes);
}
END_TEST

/* ---- while it is open -----------------------------------------------------------------------------------
 */

static void expect_gone(void)
{
    uint64_t token;
    ck_assert_int_eq(check("r", 8), EIDRM);
    ck_assert_int_eq(check("new", 8), EIDRM);
    ck_assert_int_eq(etcdlock_fence_begin(fence, "r", 8), EIDRM);
    ck_assert_int_eq(etcdlock_fence_highest(fence, "r", &token), EIDRM);
    ck_assert_int_eq(etcdlock_fence_reset(fence, "r"), EIDRM);
    ck_assert_ptr_nonnull(strstr(etcdlock_fence_error_message(), "removed or replaced"));
}

/* A file that was removed, renamed or replaced while it is open admits nothing; put back, it goes on. */
START_TEST(removed_or_replaced)
{
    char *path = strdup(store_path("fence")), *aside = strdup(store_path("aside"));
    fence = store_open(STORE_PROCESS);
    ck_assert_int_eq(check("r", 7), 0);
    ck_assert_int_eq(rename(path, aside), 0);
    expect_gone();
    store_close(store_open(STORE_PROCESS)); /* an empty one in its place */
    expect_gone();
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink(aside, path), 0);
    expect_gone();
    ck_assert_int_eq(rename(aside, path), 0);
    ck_assert_int_eq(check("r", 6), ESTALE);
    ck_assert_int_eq(check("r", 8), 0);
    ck_assert_int_eq(unlink(path), 0);
    expect_gone();
    free(path);
    free(aside);
}
END_TEST

/* Who kept a resource of a file that has gone hears of it at the end, and keeps nothing any more. */
START_TEST(removed_while_kept)
{
    fence = store_open(STORE_PROCESS);
    ck_assert_int_eq(etcdlock_fence_begin(fence, "r", 7), 0);
    ck_assert_int_eq(unlink(store_path("fence")), 0);
    ck_assert_int_eq(etcdlock_fence_end(fence, "r"), EIDRM);
    ck_assert_int_eq(etcdlock_fence_end(fence, "r"), EPERM);
}
END_TEST

/* An old copy that is put over the file is noticed by those who know better. */
START_TEST(old_copy_put_over)
{
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(check("r", 7), 0);
    size_t size, size_now;
    unsigned char *old = store_read("fence", &size);
    ck_assert_int_eq(check("r", 8), 0);
    store_write("fence", old, size);
    ck_assert_int_eq(check("r", 7), EBADMSG);
    ck_assert_int_eq(check("r", 9), EBADMSG);
    ck_assert_ptr_nonnull(strstr(etcdlock_fence_error_message(), "earlier state"));
    free(old);
    old = store_read("fence", &size_now);
    ck_assert_uint_eq(size_now, size);
    free(old);
}
END_TEST

/* So is a file that was emptied: also for a resource that was not known before. */
START_TEST(emptied_while_open)
{
    fence = store_open((store_kind)_i);
    ck_assert_int_eq(check("r", 7), 0);
    ck_assert_int_eq(truncate(store_path("fence"), 0), 0);
    ck_assert_int_eq(check("r", 8), EBADMSG);
    ck_assert_int_eq(check("new", 8), EBADMSG);
    etcdlock_fence *late;
    ck_assert_int_eq(store_try("fence", 0, &late), EBADMSG);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fence_file");
    TCase *tests = tcase_create("fence_file");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, NULL, tear_down);
    tcase_add_loop_test(tests, remembers, STORE_PROCESS, STORE_KINDS);
    tcase_add_loop_test(tests, handles_exclude, STORE_PROCESS, STORE_KINDS);
    tcase_add_test(tests, close_keeps_other_gates);
    tcase_add_test(tests, existing);
    tcase_add_test(tests, durability_belongs_to_file);
    tcase_add_test(tests, mode_of_file);
    tcase_add_test(tests, options_are_judged);
    tcase_add_test(tests, closed_on_exec);
    tcase_add_test(tests, relative_path);
    tcase_add_test(tests, refused_paths);
    tcase_add_test(tests, not_ours);
    tcase_add_test(tests, no_access);
    tcase_add_test(tests, folder_not_listed);
    tcase_add_test(tests, newer_version);
    tcase_add_test(tests, cut_short);
    tcase_add_test(tests, removed_or_replaced);
    tcase_add_test(tests, removed_while_kept);
    tcase_add_loop_test(tests, old_copy_put_over, STORE_PROCESS, STORE_KINDS);
    tcase_add_loop_test(tests, emptied_while_open, STORE_PROCESS, STORE_KINDS);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
