/* Times to live: of any size asked for, another one granted, another one answered later. */
#include <errno.h>
#include <stdlib.h>

#include "support/gateway.h"
#include "support/loss.h"
#include "support/raw.h"

/* Values that no lease can have, or that overflow in other units, are refused here (B37). */
START_TEST(absurd_values_are_refused)
{
    static const int64_t absurd[] = {-1,         INT64_MIN,        86401,    INT64_C(1) << 31, 9000000000,
                                     9000000001, INT64_MAX / 1000, INT64_MAX};
    party p = party_open(live_name("a"), 0);
    double messages = gateway_metric("grpc_server_msg_received_total");
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
        etcdlock_session_options options = ETCDLOCK_SESSION_OPTIONS_INIT;
        etcdlock_session *session = p.session;
        options.ttl_s = absurd[i];
        ck_assert_int_eq(etcdlock_session_open(&session, p.client, &options), EINVAL);
        ck_assert_ptr_null(session);
    }
    ck_assert_int_le((int)(gateway_metric("grpc_server_msg_received_total") - messages), 1);
    party_close(&p);
}
END_TEST

/* The environment says the unit, and a fraction of a second is refused rather than rounded (B37). */
START_TEST(units_of_the_environment)
{
    static const struct {
        const char *text;
        int64_t ttl_s; /* 0: refused */
    } table[] = {{"3", 3},      {"3000ms", 3}, {"3s", 3}, {"1m", 60},
                 {"1500ms", 0}, {"0", 0},      {"-3", 0}, {"3000000", 0}};
    party p = party_open(live_name("a"), 0);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        etcdlock_session *session;
        setenv("ETCDLOCK_TTL", table[i].text, 1);
        party q = {0};
        etcdlock_client_options options = live_options();
        int error = etcdlock_client_open(&q.client, &options);
        if (!error) error = etcdlock_session_open(&session, q.client, NULL);
        ck_assert_msg(error == (table[i].ttl_s ? 0 : EINVAL), "%s: %d", table[i].text, error);
        if (error == 0) {
            ck_assert_int_eq(etcdlock_session_ttl_s(session), table[i].ttl_s);
            ck_assert_int_le(etcdlock_session_remaining_ms(session), table[i].ttl_s * 1000);
            ck_assert_int_eq(etcdlock_session_close(session), 0);
        }
        party_close(&q);
    }
    unsetenv("ETCDLOCK_TTL");
    party_close(&p);
}
END_TEST

/* A time to live that etcd raises counts as granted, and the smallest one is kept up (B37). */
START_TEST(small_values_are_raised)
{
    party p = party_open(live_name("a"), 1), two = party_open(live_name("b"), 2);
    ck_assert_int_eq(etcdlock_session_ttl_s(p.session), 2);
    ck_assert_int_eq(etcdlock_session_ttl_s(two.session), 2);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(two.mutex), 0);
    ck_assert_int_le(etcdlock_mutex_remaining_ms(p.mutex), 2000);
    ck_assert_int_gt(etcdlock_mutex_remaining_ms(p.mutex), 1000);
    ck_assert(!live_readable(etcdlock_mutex_lost_fd(p.mutex), 6000));
    ck_assert(!live_readable(etcdlock_mutex_lost_fd(two.mutex), 0));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(two.mutex), 0);
    party_close(&p);
    party_close(&two);
}
END_TEST

/* Puts another lease under the number of the session's. */
static void regrant(const party *p, int64_t ttl_s)
{
    int64_t lease = etcdlock_session_lease(p->session);
    gateway_revoke(lease);
    raw_grant(lease, ttl_s);
}

typedef struct ttl_wish {
    const party *p;
    int64_t ttl_s;
} ttl_wish;

static bool has_ttl(void *arg)
{
    ttl_wish *wish = arg;
    return etcdlock_session_ttl_s(wish->p->session) == wish->ttl_s;
}

static void await_ttl(const party *p, int64_t ttl_s, int64_t ms)
{
    ttl_wish wish = {p, ttl_s};
    ck_assert_msg(live_wait_until(has_ttl, &wish, ms), "the time to live is %lld s",
                  (long long)etcdlock_session_ttl_s(p->session));
}

/* A renewal that is answered with another time to live moves the deadline, up and down (B37). */
START_TEST(renewal_with_another_value)
{
    party p = party_open(live_name("a"), 6);
    regrant(&p, 12);
    await_ttl(&p, 12, 4000);
    ck_assert_int_gt(etcdlock_session_remaining_ms(p.session), 8000);
    ck_assert_int_le(etcdlock_session_remaining_ms(p.session), 12000);
    regrant(&p, 5); /* longer than until the next renewal */
    await_ttl(&p, 5, 6000);
    ck_assert_int_le(etcdlock_session_remaining_ms(p.session), 5000);
    ck_assert(!live_readable(etcdlock_session_lost_fd(p.session), 5000));
    ck_assert_int_eq(etcdlock_session_get_state(p.session), ETCDLOCK_SESSION_OK);
    party_close(&p);
}
END_TEST

/* One of 285 years overflows nothing, and the session is over all the same when the lease is (B37). */
START_TEST(renewal_with_a_huge_value)
{
    party p = party_open(live_name("a"), 6);
    regrant(&p, 9000000000);
    int64_t remaining_ms = etcdlock_session_remaining_ms(p.session);
    ck_assert_int_gt(remaining_ms, 0);
    ck_assert(!live_readable(etcdlock_session_lost_fd(p.session), 3000));
    ck_assert_int_gt(etcdlock_session_ttl_s(p.session), 1000000);
    ck_assert_int_gt(etcdlock_session_remaining_ms(p.session), 1000000000);
    ck_assert_int_eq(etcdlock_session_get_state(p.session), ETCDLOCK_SESSION_OK);
    gateway_revoke(etcdlock_session_lease(p.session));
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), ETCDLOCK_ESESSION);
    party_close_lost(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("ttl", &cases, 40);
    tcase_add_test(cases, absurd_values_are_refused);
    tcase_add_test(cases, units_of_the_environment);
    tcase_add_test(cases, small_values_are_raised);
    tcase_add_test(cases, renewal_with_another_value);
    tcase_add_test(cases, renewal_with_a_huge_value);
    return live_run(suite);
}
