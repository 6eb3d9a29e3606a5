/* The guard in a file under SIGKILLs at random points, shortly; `make test-fence-crash` does it at length. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fence/crash.h"
#include "fence/disk.h"
#include "fence/store.h"
#include "support/runner.h"

static void tear_down(void)
{
    store_remove();
}

static bool run(unsigned kills, crash_report *report)
{
    const char *chosen = getenv("SEED");
    crash_plan plan = {
        .kills = kills, .seed = chosen ? strtoull(chosen, NULL, 10) : 1, .folder = store_folder()};
    return crash_run(&plan, report);
}

/* Nothing is forgotten, nothing is refused wrongly, no two write at once. */
START_TEST(outlives_kills)
{
    crash_report report;
    bool kept = run(400, &report);
    ck_assert_msg(kept, "%s", report.broken);
    ck_assert_uint_ge(report.kills, 400);
    ck_assert_uint_gt(report.in_call, 40);
    ck_assert_uint_gt(report.refused, 100);
    ck_assert_uint_gt(report.kept, 100);
}
END_TEST

static ssize_t forgetful_write(int fd, const void *bytes, size_t size, off_t offset)
{
    static unsigned n;
    return size < 100 && ++n % 64 < 4 ? (ssize_t)size : pwrite(fd, bytes, size, offset);
}

/* The judge is no fool: a guard whose disk drops a write now and then is found out. */
START_TEST(judge_notices)
{
    crash_report report;
    el_fence_disk.write_at = forgetful_write;
    ck_assert(!run(400, &report));
    ck_assert_str_ne(report.broken, "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fence_crash");
    TCase *tests = tcase_create("fence_crash");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, NULL, tear_down);
    tcase_add_test(tests, outlives_kills);
    tcase_add_test(tests, judge_notices);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
