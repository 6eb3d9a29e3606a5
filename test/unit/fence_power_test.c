/* The guard in a file, on a disk that forgets: processes that die at any byte, syncs that fail, and power
 * cuts. What was admitted is remembered after each of them; seeds are replayed with SEED=n. */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcdlock/fence.h"
#include "fence/disk_model.h"
#include "fence/store.h"
#include "support/runner.h"

enum {
    RESOURCES = 5,
    HANDLES = 2,
    STEPS = 60,
};

/* What may be remembered of a resource: at least the token that was last admitted, at most what was tried. */
typedef struct bounds {
    char name[1025];
    uint64_t least;
    uint64_t most;
} bounds;

static bounds resources[RESOURCES];
static etcdlock_fence *handles[HANDLES];
static etcdlock_fence_durability durability;
static uint64_t seed;
static unsigned n_cuts, n_deaths;

static void tear_down(void)
{
    disk_model_stop();
    store_remove();
}

static void open_handle(int i)
{
    int error = store_try("fence", durability, &handles[i]);
    ck_assert_msg(error == 0, "seed %llu: error %d: %s", (unsigned long long)seed, error,
                  etcdlock_fence_error_message());
}

static void close_handles(void)
{
    for (int i = 0; i < HANDLES; i++)
        store_close(handles[i]);
}

static void open_handles(void)
{
    for (int i = 0; i < HANDLES; i++)
        open_handle(i);
}

static void set_up_run(void)
{
    memset(resources, 0, sizeof(resources));
    for (int i = 0; i < RESOURCES; i++) {
        /* So long that they do not fit in one pair of pages together. */
        int length = i ? 1000 : 3;
        snprintf(resources[i].name, sizeof(resources[i].name), "%0*d", length, i);
    }
    open_handles();
    disk_model_start("fence", seed);
}

static void judge(void)
{
    for (int i = 0; i < RESOURCES; i++) {
        bounds *r = &resources[i];
        uint64_t highest = store_highest(handles[0], r->name);
        ck_assert_msg(r->least <= highest && highest <= r->most,
                      "seed %llu: resource %d has %llu, not %llu to %llu", (unsigned long long)seed, i,
                      (unsigned long long)highest, (unsigned long long)r->least, (unsigned long long)r->most);
        if (highest > 1) ck_assert_int_eq(etcdlock_fence_check(handles[0], r->name, highest - 1), ESTALE);
        if (highest == 0) continue;
        ck_assert_int_eq(etcdlock_fence_check(handles[1], r->name, highest), 0);
        r->least = highest;
    }
}

static void check_one(etcdlock_fence *handle, bounds *r)
{
    uint64_t token = r->most / 2 + disk_model_draw((unsigned)(r->most / 2) + 10) + 1;
    uint64_t tried = r->most > token ? r->most : token;
    int error = etcdlock_fence_check(handle, r->name, token);
    ck_assert_msg(error == 0 || error == ESTALE || error == EIO, "seed %llu: error %d: %s",
                  (unsigned long long)seed, error, etcdlock_fence_error_message());
    if (error == ESTALE) ck_assert_uint_lt(token, r->most);
    if (error == 0) {
        ck_assert_msg(token >= r->least, "seed %llu: %llu was admitted after %llu", (unsigned long long)seed,
                      (unsigned long long)token, (unsigned long long)r->least);
        r->least = token;
    }
    r->most = tried;
}

static void reset_one(etcdlock_fence *handle, bounds *r)
{
    int error = etcdlock_fence_reset(handle, r->name);
    ck_assert(error == 0 || error == ENOENT || error == EIO);
    /* One that failed may have been done or not. */
    r->least = 0;
    if (error == 0) r->most = 0;
}

static void step(bool may_cut)
{
    int i = (int)disk_model_draw(HANDLES);
    bounds *r = &resources[disk_model_draw(RESOURCES)];
    bool dies = disk_model_draw(6) == 0;
    if (dies) disk_model_die_after(disk_model_draw(disk_model_draw(3) ? 2500 : 12000));
    /* A new resource takes two syncs, its cell's and the header's, and a third if the header must be settled.
     */
    disk_model_fail_sync(disk_model_draw(3) ? 0 : 1 + disk_model_draw(3));
    if (disk_model_draw(30) == 0)
        reset_one(handles[i], r);
    else
        check_one(handles[i], r);
    disk_model_fail_sync(0);
    if (dies) {
        store_close(handles[i]);
        disk_model_die_after(-1);
        n_deaths++;
    }
    bool cut = may_cut && disk_model_draw(dies ? 2 : 8) == 0;
    if (cut) {
        store_close(handles[1 - i]);
        if (!dies) store_close(handles[i]);
        disk_model_cut_power();
        n_cuts++;
        open_handles();
        judge();
    } else if (dies) {
        open_handle(i);
    }
}

static void run_seeds(unsigned n, bool may_cut)
{
    const char *chosen = getenv("SEED");
    n_cuts = n_deaths = 0;
    for (unsigned i = 0; i < n; i++) {
        seed = chosen ? strtoull(chosen, NULL, 10) : i + 1;
        set_up_run();
        for (int j = 0; j < STEPS; j++)
            step(may_cut);
        disk_model_stop();
        judge();
        close_handles();
        remove(store_path("fence"));
    }
    ck_assert_uint_gt(n_deaths, n);
}

/* With DISK, nothing that was admitted is forgotten over any mixture of them, and the file is never damaged.
 */
START_TEST(disk_outlives_power_cuts)
{
    durability = ETCDLOCK_FENCE_DISK;
    run_seeds(600, true);
    ck_assert_uint_gt(n_cuts, 3000);
}
END_TEST

/* With PROCESS, the same without the power cuts. */
START_TEST(process_outlives_deaths)
{
    durability = ETCDLOCK_FENCE_PROCESS;
    run_seeds(400, false);
}
END_TEST

/* DISK costs one sync for a token that is higher than all before and none for one that equals the highest;
 * PROCESS never syncs. */
START_TEST(syncs_are_counted)
{
    durability = ETCDLOCK_FENCE_DISK;
    set_up_run();
    ck_assert_int_eq(etcdlock_fence_check(handles[0], "r", 7), 0);
    unsigned before = disk_model_syncs();
    ck_assert_int_eq(etcdlock_fence_check(handles[0], "r", 8), 0);
    ck_assert_uint_eq(disk_model_syncs(), before + 1);
    ck_assert_int_eq(etcdlock_fence_check(handles[1], "r", 9), 0);
    ck_assert_uint_ge(disk_model_syncs(), before + 2);
    before = disk_model_syncs();
    ck_assert_int_eq(etcdlock_fence_check(handles[1], "r", 9), 0);
    ck_assert_int_eq(etcdlock_fence_check(handles[0], "r", 9), 0);
    ck_assert_int_eq(etcdlock_fence_check(handles[0], "r", 8), ESTALE);
    ck_assert_uint_eq(disk_model_syncs(), before);
    close_handles();
    disk_model_stop();
    remove(store_path("fence"));
    durability = ETCDLOCK_FENCE_PROCESS;
    set_up_run();
    ck_assert_int_eq(etcdlock_fence_check(handles[0], "r", 7), 0);
    ck_assert_int_eq(etcdlock_fence_check(handles[0], "r", 8), 0);
    ck_assert_uint_eq(disk_model_syncs(), 0);
    close_handles();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fence_power");
    TCase *tests = tcase_create("fence_power");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, NULL, tear_down);
    tcase_add_test(tests, disk_outlives_power_cuts);
    tcase_add_test(tests, process_outlives_deaths);
    tcase_add_test(tests, syncs_are_counted);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
