/* The drop-in form where nobody listens: how long its first calls take. */
/* cluster: none */
#include <stdlib.h>

#include "support/caller.h"
#include "support/live.h"
#include "support/runner.h"
#include "support/stranger.h"

enum { COMMAND_MS = 600, LIMIT_MS = 200 };

/* Static mutexes whose first call many threads make at once with nobody there: the attempt that one of them
 * makes for all takes its time once, not once for each. */
START_TEST(first_calls)
{
    enum { THREADS = 8 };
    static etcdlock_mutex_t mutex = ETCDLOCK_MUTEX_INITIALIZER("never locked");
    caller callers[THREADS];
    setenv("ETCDCTL_ENDPOINTS", stranger_nobody(), 1);
    setenv("ETCDCTL_COMMAND_TIMEOUT", "600ms", 1);
    int64_t began_ms = live_now_ms();
    for (int i = 0; i < THREADS; i++)
        caller_start(&callers[i], &mutex, i % 2 ? LIMIT_MS : -1);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_ne(caller_result(&callers[i], 30000), 0);
    live_within(began_ms, COMMAND_MS);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(caller_end(&callers[i]), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dropin_deadline");
    TCase *cases = tcase_create("dropin_deadline");
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, first_calls);
    suite_add_tcase(suite, cases);
    return runner_run(suite);
}
