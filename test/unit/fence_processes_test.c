/* The guard in a file between processes: who is kept out, what becomes of a dead keeper and of a frozen one,
 * and how large the file grows. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etcdlock/fence.h"
#include "fence/cell.h"
#include "fence/store.h"
#include "support/child.h"
#include "support/runner.h"

static etcdlock_fence *fence;

static void set_up(void)
{
    store_folder(); /* before there are children, so that they share it */
}

static void tear_down(void)
{
    if (fence) store_close(fence);
    fence = NULL;
    store_remove();
}

/* ---- keepers --------------------------------------------------------------------------------------------
 */

/* Keeps "r" with token 7 until it is told to end, and has a child of its own if arg is given. */
static void keep(child *parent, void *arg)
{
    etcdlock_fence *mine = store_open(STORE_PROCESS);
    ck_assert_int_eq(etcdlock_fence_begin(mine, "r", 7), 0);
    if (arg && fork() == 0) {
        child_send(parent, getpid());
        for (;;)
            pause();
    }
    if (!arg) child_send(parent, getpid());
    (void)child_receive(parent);
    ck_assert_int_eq(etcdlock_fence_end(mine, "r"), 0);
    store_close(mine);
}

/* Another process that keeps the resource keeps us out, and lets us in when it ends. */
START_TEST(kept_by_another_process)
{
    child c;
    child_start(&c, keep, NULL);
    (void)child_receive(&c);
    fence = store_open(STORE_PROCESS);
    ck_assert_int_eq(etcdlock_fence_begin_for(fence, "r", 8, 20), ETIMEDOUT);
    ck_assert_int_eq(etcdlock_fence_check(fence, "r", 6), ESTALE);
    ck_assert_int_eq(etcdlock_fence_check(fence, "s", 1), 0);
    child_send(&c, 0);
    ck_assert_int_eq(etcdlock_fence_begin_for(fence, "r", 8, -1), 0);
    ck_assert_int_eq(etcdlock_fence_end(fence, "r"), 0);
    child_end(&c);
}
END_TEST

/* A keeper that is frozen keeps on; one that is killed sets the resource free, with its token remembered. */
START_TEST(frozen_and_killed)
{
    child c;
    child_start(&c, keep, NULL);
    (void)child_receive(&c);
    fence = store_open_file("fence", 0, 30);
    ck_assert_int_eq(kill(c.pid, SIGSTOP), 0);
    ck_assert_int_eq(etcdlock_fence_check(fence, "r", 8), ETIMEDOUT);
    ck_assert_ptr_nonnull(strstr(etcdlock_fence_error_message(), "frozen"));
    ck_assert_uint_eq(store_highest(fence, "r"), 7);
    ck_assert_int_eq(kill(c.pid, SIGKILL), 0);
    ck_assert_int_ne(child_status(&c), 0);
    ck_assert_int_eq(etcdlock_fence_begin_for(fence, "r", 6, 0), ESTALE);
    ck_assert_int_eq(etcdlock_fence_begin_for(fence, "r", 7, 0), 0);
    ck_assert_int_eq(etcdlock_fence_end(fence, "r"), 0);
}
END_TEST

/* A child that a keeper has forked does not go on keeping the resource when the keeper is killed. */
START_TEST(orphan_keeps_nothing)
{
    child c;
    child_start(&c, keep, &c);
    pid_t orphan = (pid_t)child_receive(&c);
    fence = store_open(STORE_PROCESS);
    ck_assert_int_eq(etcdlock_fence_begin_for(fence, "r", 8, 0), ETIMEDOUT);
    ck_assert_int_eq(kill(c.pid, SIGKILL), 0);
    ck_assert_int_ne(child_status(&c), 0);
    ck_assert_int_eq(kill(orphan, 0), 0);
    ck_assert_int_eq(etcdlock_fence_begin_for(fence, "r", 8, 0), 0);
    ck_assert_int_eq(etcdlock_fence_end(fence, "r"), 0);
    ck_assert_int_eq(kill(orphan, SIGKILL), 0);
}
END_TEST

/* ---- many -----------------------------------------------------------------------------------------------
 */

enum { CREATORS = 8, HAMMER_TURNS = 300, HAMMER_TURNS_MAX = 5 * HAMMER_TURNS };

static void create(child *parent, void *arg)
{
    (void)child_receive(parent);
    etcdlock_fence *mine = store_open_file("fence", (etcdlock_fence_durability)(uintptr_t)arg, 0);
    ck_assert_int_eq(etcdlock_fence_check(mine, "shared", 5), 0);
    char own[32];
    snprintf(own, sizeof(own), "of %d", (int)getpid());
    ck_assert_int_eq(etcdlock_fence_check(mine, own, 6), 0);
    child_send(parent, getpid());
    store_close(mine);
}

/* Processes that create the file at once get the same one, and leave nothing beside it. */
START_TEST(created_at_once)
{
    child c[CREATORS];
    for (int i = 0; i < CREATORS; i++)
        child_start(&c[i], create, (void *)(uintptr_t)_i);
    for (int i = 0; i < CREATORS; i++)
        child_send(&c[i], 0);
    for (int i = 0; i < CREATORS; i++) {
        char own[32];
        snprintf(own, sizeof(own), "of %d", (int)child_receive(&c[i]));
        if (!fence) fence = store_open_file("fence", 0, 0);
        ck_assert_uint_eq(store_highest(fence, own), 6);
        child_end(&c[i]);
    }
    ck_assert_uint_eq(store_highest(fence, "shared"), 5);
    ck_assert_int_eq(unlink(store_path("fence")), 0);
    ck_assert_int_eq(rmdir(store_folder()), 0);
    ck_assert_int_eq(mkdir(store_folder(), 0700), 0);
}
END_TEST

/* Shared by the two who hammer: how often each was in. */
static atomic_int *n_turns;

static void hammer(child *parent, void *arg)
{
    etcdlock_fence *mine = store_open_file("fence", ETCDLOCK_FENCE_PROCESS, 60000);
    atomic_int *own = arg, *others = own == n_turns ? n_turns + 1 : n_turns;
    (void)child_receive(parent);
    while ((*own < HAMMER_TURNS || *others < HAMMER_TURNS) && *own < HAMMER_TURNS_MAX) {
        ck_assert_int_eq(etcdlock_fence_begin(mine, "r", 7), 0);
        usleep(1000);
        atomic_fetch_add(own, 1);
        ck_assert_int_eq(etcdlock_fence_end(mine, "r"), 0);
    }
    child_send(parent, *others >= HAMMER_TURNS);
    store_close(mine);
}

/* One who comes back at once does not starve the other: of two who hammer without a pause, neither has five
 * times as many turns before the other has had its own. (A turn is at least 1 ms, so that one of the two may
 * be stopped for over a second.) */
START_TEST(hammering_is_fair)
{
    child c[2];
    n_turns = mmap(NULL, sizeof(atomic_int[2]), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(n_turns, MAP_FAILED);
    for (int i = 0; i < 2; i++)
        child_start(&c[i], hammer, &n_turns[i]);
    for (int i = 0; i < 2; i++)
        child_send(&c[i], 0);
    for (int i = 0; i < 2; i++) {
        bool is_fair = child_receive(&c[i]);
        ck_assert_msg(is_fair, "%d turns against %d", n_turns[i], n_turns[1 - i]);
        child_end(&c[i]);
    }
    munmap(n_turns, sizeof(atomic_int[2]));
}
END_TEST

static uint64_t size_now(void)
{
    struct stat status;
    ck_assert_int_eq(stat(store_path("fence"), &status), 0);
    return (uint64_t)status.st_size;
}

/* The file does not grow by checks. */
START_TEST(bounded_by_resources)
{
    fence = store_open(STORE_PROCESS);
    ck_assert_int_eq(etcdlock_fence_check(fence, "r", 1), 0);
    uint64_t size = size_now();
    ck_assert_uint_le(size, 2 * EL_FENCE_PAIR);
    for (uint64_t token = 2; token < 50000; token++)
        ck_assert_int_eq(etcdlock_fence_check(fence, "r", token), 0);
    ck_assert_uint_eq(size_now(), size);
}
END_TEST

static int count(const char *resource, uint64_t token, void *arg)
{
    (void)resource;
    *(uint64_t *)arg += token;
    return 0;
}

/* Names of every length find their place in the file and are found again; it grows by what the header says.
 */
START_TEST(names_of_every_length)
{
    char name[ETCDLOCK_FENCE_RESOURCE_MAX + 1];
    memset(name, 'n', sizeof(name));
    fence = store_open(STORE_PROCESS);
    etcdlock_fence *beside = store_open(STORE_PROCESS);
    uint64_t bytes = 0, sum = 0;
    for (int i = 0; i < ETCDLOCK_FENCE_RESOURCE_MAX; i++) {
        int length = i * 401 % ETCDLOCK_FENCE_RESOURCE_MAX + 1; /* each once, in no order */
        name[length] = '\0';
        ck_assert_int_eq(etcdlock_fence_check(i % 2 ? fence : beside, name, (uint64_t)length), 0);
        name[length] = 'n';
        bytes += 2 * (uint64_t)(length + 32);
    }
    store_close(beside);
    store_close(fence);
    ck_assert_uint_le(size_now(), bytes * 4 / 3 + 2 * EL_FENCE_PAIR);
    fence = store_open(STORE_PROCESS);
    for (int length = 1; length <= ETCDLOCK_FENCE_RESOURCE_MAX; length++) {
        name[length] = '\0';
        ck_assert_uint_eq(store_highest(fence, name), (uint64_t)length);
        name[length] = 'n';
    }
    ck_assert_int_eq(etcdlock_fence_walk(fence, count, &sum), 0);
    ck_assert_uint_eq(sum, 1024 * 1025 / 2);
}
END_TEST

/* ---- damage ---------------------------------------------------------------------------------------------
 */

/* Whichever byte of the file is damaged: either the other copy still tells all, or it is an error; a damaged
 * byte in both copies of one thing is always an error. Never is a token lower than the highest admitted. */
START_TEST(any_byte_damaged)
{
    fence = store_open(STORE_PROCESS);
    ck_assert_int_eq(etcdlock_fence_check(fence, "first", 1000), 0);
    ck_assert_int_eq(etcdlock_fence_check(fence, "first", 1001), 0);
    ck_assert_int_eq(etcdlock_fence_check(fence, "second", 77), 0);
    store_close(fence);
    size_t size;
    unsigned char *bytes = store_read("fence", &size);
    const unsigned used = 100; /* of each page: header 56; two resources of 29 and 30, rounded up */
    unsigned n_errors = 0;
    for (size_t page = 0; page < size; page += EL_FENCE_PAGE) {
        for (size_t at = page; at < page + used; at++) {
            for (int both = 0; both < 2; both++) {
                size_t twin = at ^ EL_FENCE_PAGE;
                unsigned char flip = (unsigned char)(1u << at % 8);
                bytes[at] ^= flip;
                if (both) bytes[twin] ^= flip;
                store_write("fence", bytes, size);
                int error = store_try("fence", 0, &fence);
                if (!error) {
                    ck_assert_int_eq(etcdlock_fence_check(fence, "first", 1000), ESTALE);
                    ck_assert_int_eq(etcdlock_fence_check(fence, "second", 76), ESTALE);
                    ck_assert_int_eq(etcdlock_fence_check(fence, "first", 1001), 0);
                    store_close(fence);
                } else {
                    ck_assert_msg(error == EBADMSG || error == ENOTSUP, "byte %zu: %d", at, error);
                    ck_assert_msg(both, "byte %zu: one copy was whole: %s", at,
                                  etcdlock_fence_error_message());
                    n_errors++;
                }
                fence = NULL;
                bytes[at] ^= flip;
                if (both) bytes[twin] ^= flip;
            }
        }
    }
    /* 56 bytes of the header, 29 and 30 of the resources; each as the one and as the other twin. */
    ck_assert_uint_eq(n_errors, 2 * (56 + 29 + 30));
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fence_processes");
    TCase *tests = tcase_create("fence_processes");
    tcase_set_timeout(tests, 100);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, kept_by_another_process);
    tcase_add_test(tests, frozen_and_killed);
    tcase_add_test(tests, orphan_keeps_nothing);
    tcase_add_loop_test(tests, created_at_once, ETCDLOCK_FENCE_PROCESS, ETCDLOCK_FENCE_DISK + 1);
    tcase_add_test(tests, hammering_is_fair);
    tcase_add_test(tests, bounded_by_resources);
    tcase_add_test(tests, names_of_every_length);
    tcase_add_test(tests, any_byte_damaged);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
