/* The guard in a file, killed at every byte that it writes: from the creation of the file on, whatever a
 * process had been told is remembered, and the next process goes on as if nothing had been. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etcdlock/fence.h"
#include "fence/disk.h"
#include "fence/store.h"
#include "support/runner.h"

enum {
    STEPS = 12,
    LONG_WRITE = 200, /* of a long name or of zeros: not each of their bytes is tried */
    LONG_STRIDE = 13,
    LONGER_WRITE = 2000,
    LONGER_STRIDE = 331,
};

/* What the one who is killed does; 0 for a token is a reset. */
static const struct {
    const char *resource;
    uint64_t token;
} steps[STEPS] = {
    {"a", 5}, {"a", 9}, {"b", 3},      {"long", 1},   {"a", 10},   {"b", 4},
    {"a", 0}, {"a", 2}, {"longer", 8}, {"longer", 9}, {"long", 2}, {"a", 3},
};

/* Shared with the one who is killed. */
static struct {
    int n_done;   /* steps that it was told are done */
    long n_bytes; /* written so far */
    long kill_at; /* negative: lives */
    int n_writes;
    size_t sizes[400];
} * shared;

/* The names are long enough to need another pair of pages. */
static const char *full_name(const char *short_name)
{
    static char name[1025];
    int fill = strncmp(short_name, "long", 4) == 0 ? 1000 : 1;
    snprintf(name, sizeof(name), "%s%0*d", short_name, fill, 0);
    return name;
}

static ssize_t deadly_write(int fd, const void *bytes, size_t size, off_t offset)
{
    shared->sizes[shared->n_writes++] = size;
    if (shared->kill_at >= 0 && shared->n_bytes + (long)size > shared->kill_at) {
        long rest = shared->kill_at - shared->n_bytes;
        if (rest > 0 && pwrite(fd, bytes, (size_t)rest, offset) != rest) _exit(1);
        kill(getpid(), SIGKILL);
    }
    shared->n_bytes += (long)size;
    return pwrite(fd, bytes, size, offset);
}

static void set_up(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    store_folder();
}

static void tear_down(void)
{
    munmap(shared, sizeof(*shared));
    store_remove();
}

static int do_step(etcdlock_fence *fence, int i)
{
    const char *name = full_name(steps[i].resource);
    if (steps[i].token == 0) return etcdlock_fence_reset(fence, name);
    return etcdlock_fence_check(fence, name, steps[i].token);
}

_Noreturn static void live(void)
{
    el_fence_disk.write_at = deadly_write;
    etcdlock_fence *fence = store_open(STORE_PROCESS);
    for (int i = 0; i < STEPS; i++) {
        if (do_step(fence, i)) _exit(1);
        shared->n_done = i + 1;
    }
    _exit(0);
}

static int run_killed_at(long byte)
{
    store_folder(); /* before the fork, so that both use the same */
    shared->kill_at = byte;
    shared->n_bytes = shared->n_done = shared->n_writes = 0;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) live();
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

/* The token of a resource after the first n steps. */
static uint64_t token_after(const char *resource, int n)
{
    uint64_t token = 0;
    for (int i = 0; i < n; i++) {
        if (strcmp(steps[i].resource, resource) == 0) token = steps[i].token;
    }
    return token;
}

static void judge(long byte)
{
    etcdlock_fence *fence = store_open(STORE_PROCESS);
    for (int i = 0; i < STEPS; i++) {
        uint64_t highest = store_highest(fence, full_name(steps[i].resource));
        uint64_t done = token_after(steps[i].resource, shared->n_done);
        uint64_t doing =
            token_after(steps[i].resource, shared->n_done + 1 < STEPS ? shared->n_done + 1 : STEPS);
        ck_assert_msg(highest == done || highest == doing, "byte %ld: %s has %llu, not %llu or %llu", byte,
                      steps[i].resource, (unsigned long long)highest, (unsigned long long)done,
                      (unsigned long long)doing);
    }
    /* The step that was cut off and all that follow are done by the next one. */
    for (int i = shared->n_done; i < STEPS; i++) {
        int error = do_step(fence, i);
        ck_assert_msg(error == 0, "byte %ld, step %d: error %d: %s", byte, i, error,
                      etcdlock_fence_error_message());
    }
    store_close(fence);
    fence = store_open(STORE_PROCESS);
    for (int i = 0; i < STEPS; i++)
        ck_assert_uint_eq(store_highest(fence, full_name(steps[i].resource)),
                          token_after(steps[i].resource, STEPS));
    store_close(fence);
}

/* Killed after each prefix of all that it writes. */
START_TEST(killed_at_any_byte)
{
    ck_assert_int_eq(run_killed_at(-1), 0);
    int n_writes = shared->n_writes, n_killed = 0;
    size_t sizes[400];
    memcpy(sizes, shared->sizes, sizeof(sizes));
    store_remove();
    long at = 0;
    for (int i = 0; i < n_writes; i++) {
        size_t stride = sizes[i] >= LONGER_WRITE ? LONGER_STRIDE : sizes[i] >= LONG_WRITE ? LONG_STRIDE : 1;
        for (size_t byte = 0; byte < sizes[i]; byte += stride) {
            ck_assert_int_eq(run_killed_at(at + (long)byte), SIGKILL);
            judge(at + (long)byte);
            store_remove();
            n_killed++;
        }
        at += (long)sizes[i];
    }
    ck_assert_int_gt(n_killed, 1000);
}
END_TEST

static long calls_left;

static ssize_t full_disk_write(int fd, const void *bytes, size_t size, off_t offset)
{
    if (calls_left-- > 0) return pwrite(fd, bytes, size, offset);
    if (calls_left == -1 && size > 1) return pwrite(fd, bytes, size / 2, offset);
    errno = ENOSPC;
    return -1;
}

/* A disk that is full at any write is ENOSPC, admits nothing, and harms nothing: with room again the same
 * handle goes on. */
START_TEST(full_at_any_write)
{
    bool was_full = true;
    for (long n = 0; was_full; n++) {
        calls_left = 1000;
        el_fence_disk.write_at = full_disk_write;
        etcdlock_fence *fence = store_open(STORE_PROCESS);
        was_full = false;
        shared->n_done = 0;
        for (int i = 0; i < STEPS; i++) {
            if (i == 1) calls_left = n;
            int error = do_step(fence, i);
            if (error) {
                ck_assert_int_eq(error, ENOSPC);
                ck_assert_ptr_nonnull(strstr(etcdlock_fence_error_message(), "make room"));
                was_full = true;
                calls_left = 1000;
                ck_assert_int_eq(do_step(fence, i), 0);
            }
            shared->n_done = i + 1;
        }
        judge(-1);
        store_close(fence);
        store_remove();
    }
}
END_TEST

/* A disk that is full when the file is made leaves nothing behind. */
START_TEST(full_at_creation)
{
    calls_left = 0;
    el_fence_disk.write_at = full_disk_write;
    etcdlock_fence *fence;
    ck_assert_int_eq(store_try("fence", 0, &fence), ENOSPC);
    ck_assert_int_eq(rmdir(store_folder()), 0);
    ck_assert_int_eq(mkdir(store_folder(), 0700), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fence_kill");
    TCase *tests = tcase_create("fence_kill");
    tcase_set_timeout(tests, 200);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, killed_at_any_byte);
    tcase_add_test(tests, full_at_any_write);
    tcase_add_test(tests, full_at_creation);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
