/* lib/core/backoff.c: exponential with full jitter, bounded, never overflowing. */
#include "core/backoff.h"

#include <check.h>
#include <limits.h>

#include "support/runner.h"

/* The longest pause that some random number gives. */
static int64_t longest(unsigned attempts, int64_t base_ns, int64_t limit_ns, int64_t ceiling_ns)
{
    ck_assert_int_eq(el_backoff_ns(attempts, base_ns, limit_ns, 0), 0);
    ck_assert_int_eq(el_backoff_ns(attempts, base_ns, limit_ns, (uint64_t)ceiling_ns + 1), 0);
    return el_backoff_ns(attempts, base_ns, limit_ns, (uint64_t)ceiling_ns);
}

/* The ceiling starts at the base, doubles with each failure, and stops at the limit. */
START_TEST(ceiling_doubles)
{
    static const int64_t ceilings_ns[] = {100, 200, 400, 800, 1000, 1000, 1000};
    for (unsigned i = 0; i < sizeof(ceilings_ns) / sizeof(ceilings_ns[0]); i++)
        ck_assert_int_eq(longest(i, 100, 1000, ceilings_ns[i]), ceilings_ns[i]);
    ck_assert_int_eq(longest(0, 5000, 1000, 1000), 1000);
    ck_assert_int_eq(longest(3, 7, 7, 7), 7);
}
END_TEST

/* Every pause from nothing to the ceiling is as likely as any other. */
START_TEST(full_jitter)
{
    unsigned hits[401] = {0};
    for (uint64_t random = 0; random < 401 * 3; random++) {
        int64_t pause_ns = el_backoff_ns(2, 100, 1000, random);
        ck_assert(pause_ns >= 0 && pause_ns <= 400);
        hits[pause_ns]++;
    }
    for (unsigned i = 0; i <= 400; i++)
        ck_assert_uint_eq(hits[i], 3);
}
END_TEST

/* Neither many failures nor great limits nor great random numbers leave the bounds. */
START_TEST(no_overflow)
{
    static const int64_t limits_ns[] = {1,        1000, 5 * EL_S, 86400 * EL_S, INT64_MAX / 2, INT64_MAX - 1,
                                        INT64_MAX};
    static const unsigned attempts[] = {0, 1, 31, 62, 63, 64, 65, 1000, UINT_MAX};
    for (unsigned i = 0; i < sizeof(limits_ns) / sizeof(limits_ns[0]); i++) {
        for (unsigned k = 0; k < sizeof(attempts) / sizeof(attempts[0]); k++) {
            int64_t pause_ns = el_backoff_ns(attempts[k], EL_MS, limits_ns[i], UINT64_MAX);
            ck_assert(pause_ns >= 0 && pause_ns <= limits_ns[i]);
            pause_ns = el_backoff_ns(attempts[k], 1, limits_ns[i], INT64_MAX);
            ck_assert(pause_ns >= 0 && pause_ns <= limits_ns[i]);
        }
    }
    ck_assert_int_eq(el_backoff_ns(UINT_MAX, 3, INT64_MAX, INT64_MAX), INT64_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backoff");
    TCase *tests = tcase_create("backoff");
    tcase_add_test(tests, ceiling_doubles);
    tcase_add_test(tests, full_jitter);
    tcase_add_test(tests, no_overflow);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
