/* An etcd whose slow elections raise every time to live. */
/* cluster: 1 -- --election-timeout=5000 */
#include <stdio.h>
#include <string.h>

#include "support/etcdctl.h"
#include "support/loss.h"

/* The deadline and the renewals follow the time to live that was granted, not the one asked for (B37). */
START_TEST(granted_value_counts)
{
    const char *name = live_name("a");
    party p = party_open(name, 2);
    int64_t ttl_s = etcdlock_session_ttl_s(p.session);
    char id[24], granted[40];
    ck_assert_int_ge(ttl_s, 7);
    ck_assert_int_le(ttl_s, 8);
    snprintf(id, sizeof id, "%llx", (unsigned long long)etcdlock_session_lease(p.session));
    snprintf(granted, sizeof granted, "granted with TTL(%llds)", (long long)ttl_s);
    ck_assert_ptr_nonnull(strstr(etcdctl("lease", "timetolive", id, NULL), granted));
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_gt(etcdlock_mutex_remaining_ms(p.mutex), 4000);
    ck_assert_int_le(etcdlock_mutex_remaining_ms(p.mutex), ttl_s * 1000);
    ck_assert(!live_readable(etcdlock_mutex_lost_fd(p.mutex), 10000));
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 4000), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("ttl_raised", &cases, 40);
    tcase_add_test(cases, granted_value_counts);
    return live_run(suite);
}
