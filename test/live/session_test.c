/* Sessions on one member: opening, renewing, suspension, loss and closing. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"

/* What a state callback has been told. */
typedef struct told {
    etcdlock_client *client;
    atomic_int n;
    atomic_int states[32];
    atomic_int close_result; /* of the close from inside, plus 1 */
    bool closes_itself;
    party *opens_another;
} told;

static void note_state(etcdlock_session *session, etcdlock_session_state state, void *arg)
{
    told *t = arg;
    t->states[t->n] = (int)state;
    t->n++;
    /* What is told may be over by now, except a loss, which is final. */
    if (state == ETCDLOCK_SESSION_LOST)
        ck_assert_int_eq(etcdlock_session_get_state(session), ETCDLOCK_SESSION_LOST);
    if (!t->closes_itself || state != ETCDLOCK_SESSION_LOST) return;
    ck_assert_int_eq(etcdlock_client_close(t->client), EDEADLK);
    int result = etcdlock_session_close(session);
    if (t->opens_another) t->opens_another->session = party_session(t->opens_another, 10);
    t->close_result = result + 1;
}

static bool was_told(void *arg)
{
    return ((told *)arg)->n > 0;
}

static bool was_told_twice(void *arg)
{
    return ((told *)arg)->n > 1;
}

static bool was_told_of_loss(void *arg)
{
    told *t = arg;
    int n = t->n;
    return n > 0 && t->states[n - 1] == ETCDLOCK_SESSION_LOST;
}

static bool has_closed(void *arg)
{
    return ((told *)arg)->close_result != 0;
}

/* A client and a session that tells t of its changes; no mutex. */
static party open_told(told *t, int64_t ttl_s)
{
    party p = {0};
    etcdlock_client_options client_options = live_options();
    etcdlock_session_options options = ETCDLOCK_SESSION_OPTIONS_INIT;
    options.ttl_s = ttl_s;
    options.on_state = note_state;
    options.on_state_arg = t;
    ck_assert_int_eq(etcdlock_client_open(&p.client, &client_options), 0);
    t->client = p.client;
    ck_assert_int_eq(etcdlock_session_open(&p.session, p.client, &options), 0);
    return p;
}

/* An open session is a lease in etcd with the time to live asked for; closing it revokes the lease. */
START_TEST(open_and_close)
{
    party p = party_open(live_name("a"), 7);
    int64_t lease = etcdlock_session_lease(p.session);
    ck_assert_int_gt(lease, 0);
    ck_assert(etcdctl_has_lease(lease));
    ck_assert_int_eq(etcdlock_session_ttl_s(p.session), 7);
    ck_assert_int_eq(etcdlock_session_get_state(p.session), ETCDLOCK_SESSION_OK);
    ck_assert_int_gt(etcdlock_session_remaining_ms(p.session), 4000);
    ck_assert_int_lt(etcdlock_session_remaining_ms(p.session), 7000);
    ck_assert(!live_readable(etcdlock_session_lost_fd(p.session), 0));
    ck_assert_int_eq(etcdlock_session_lost_fd(p.session), etcdlock_session_lost_fd(p.session));
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    ck_assert_int_eq(etcdlock_session_close(p.session), 0);
    ck_assert(!etcdctl_has_lease(lease));
    ck_assert_int_eq(etcdlock_session_close(NULL), 0);
    p.session = NULL;
    p.mutex = NULL;
    party_close(&p);
}
END_TEST

static bool has_over_a_second(void *session)
{
    return etcdlock_session_remaining_ms(session) > 1000;
}

/* etcd 3.4 raises a time to live of 1 s to 2 s, and the session counts with what was granted. */
START_TEST(raised)
{
    party p = party_open(live_name("a"), 1);
    ck_assert_int_eq(etcdlock_session_ttl_s(p.session), 2);
    /* More than a session of the 1 s that was asked for could have. */
    ck_assert(live_wait_until(has_over_a_second, p.session, 10000));
    party_close(&p);
}
END_TEST

/* Options out of range are EINVAL, name the option and leave no lease. */
START_TEST(bad_options)
{
    party p = party_open(live_name("a"), 0);
    char label[258];
    etcdlock_session *session;
    etcdlock_session_options ok = ETCDLOCK_SESSION_OPTIONS_INIT, bad[6];
    size_t leases = etcdctl_count_leases();
    memset(label, 'x', sizeof label);
    label[257] = '\0';
    for (int i = 0; i < 6; i++)
        bad[i] = ok;
    bad[0].ttl_s = -1;
    bad[1].ttl_s = 86401;
    bad[2].ttl_s = INT64_MIN;
    bad[3].margin_ms = -1;
    bad[4].label = label;
    bad[5].size = 1;
    for (int i = 0; i < 6; i++) {
        session = p.session;
        ck_assert_msg(etcdlock_session_open(&session, p.client, &bad[i]) == EINVAL, "options %d", i);
        ck_assert_ptr_null(session);
        ck_assert_str_ne(etcdlock_error_message(), "");
    }
    ck_assert_ptr_nonnull(strstr(etcdlock_error_message(), "size"));
    ck_assert_int_eq(etcdlock_session_open(NULL, p.client, &ok), EINVAL);
    session = p.session;
    ck_assert_int_eq(etcdlock_session_open(&session, NULL, &ok), EINVAL);
    ck_assert_ptr_null(session);
    ck_assert_uint_eq(etcdctl_count_leases(), leases);
    ck_assert_int_eq(etcdlock_session_get_state(NULL), ETCDLOCK_SESSION_LOST);
    ck_assert_int_eq(etcdlock_session_remaining_ms(NULL), 0);
    ck_assert_int_eq(etcdlock_session_lost_fd(NULL), -1);
    party_close(&p);
}
END_TEST

/* A margin of half of the time to live or more is EINVAL, and the lease is not left. */
START_TEST(margin_too_large)
{
    party p = party_open(live_name("a"), 0);
    etcdlock_session *session;
    etcdlock_session_options options = ETCDLOCK_SESSION_OPTIONS_INIT;
    options.ttl_s = 4;
    options.margin_ms = 1999;
    ck_assert_int_eq(etcdlock_session_open(&session, p.client, &options), 0);
    ck_assert_int_le(etcdlock_session_remaining_ms(session), 2001);
    ck_assert_int_eq(etcdlock_session_close(session), 0);
    options.margin_ms = 2000;
    ck_assert_int_eq(etcdlock_session_open(&session, p.client, &options), EINVAL);
    ck_assert_ptr_null(session);
    party_close(&p);
}
END_TEST

/* A session is renewed again and again, far beyond its time to live. */
START_TEST(renewed)
{
    party p = party_open(live_name("a"), 4);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    live_await_renewals(p.session, p.mutex, 5);
    ck_assert_int_eq(etcdlock_session_get_state(p.session), ETCDLOCK_SESSION_OK);
    ck_assert_uint_ne(etcdlock_mutex_token(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

/* A revoked lease is noticed by the next renewal: state, callback, descriptor and close say so. */
START_TEST(revoked)
{
    told t = {0};
    party p = open_told(&t, 3);
    p.mutex = party_mutex(&p, live_name("a"), 0);
    int fd = etcdlock_session_lost_fd(p.session);
    ck_assert(etcdctl_revoke(etcdlock_session_lease(p.session)));
    ck_assert(live_readable(fd, 10000));
    ck_assert(live_wait_until(was_told_of_loss, &t, 10000));
    ck_assert_int_eq(etcdlock_session_get_state(p.session), ETCDLOCK_SESSION_LOST);
    ck_assert_int_eq(etcdlock_session_remaining_ms(p.session), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), ETCDLOCK_ESESSION);
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), ETCDLOCK_ESESSION);
    ck_assert_int_eq(etcdlock_session_close(p.session), ETCDLOCK_ESESSION);
    ck_assert(was_told_of_loss(&t)); /* and of nothing afterwards */
    p.session = NULL;
    party_close(&p);
}
END_TEST

/* The descriptor of a session that is lost already is readable at once. */
START_TEST(late_descriptor)
{
    told t = {0};
    party p = open_told(&t, 2);
    ck_assert(etcdctl_revoke(etcdlock_session_lease(p.session)));
    ck_assert(live_wait_until(was_told_of_loss, &t, 10000));
    ck_assert(live_readable(etcdlock_session_lost_fd(p.session), 0));
    ck_assert_int_eq(etcdlock_session_close(p.session), ETCDLOCK_ESESSION);
    p.session = NULL;
    party_close(&p);
}
END_TEST

/* The callback may close its own session and open the next one; closing the client there is EDEADLK. */
START_TEST(callback_closes)
{
    told t = {.closes_itself = true};
    party p = open_told(&t, 10);
    party next = {.client = p.client};
    t.opens_another = &next;
    ck_assert(etcdctl_revoke(etcdlock_session_lease(p.session)));
    ck_assert(live_wait_until(has_closed, &t, 12000));
    ck_assert_int_eq(t.close_result, ETCDLOCK_ESESSION + 1);
    ck_assert_int_eq(etcdlock_session_get_state(next.session), ETCDLOCK_SESSION_OK);
    ck_assert(was_told_of_loss(&t));
    party_close(&next);
}
END_TEST

/* After close has returned the callback is not called any more, not even about the closing. */
START_TEST(no_callback_after_close)
{
    told t = {0};
    party p = open_told(&t, 10);
    ck_assert(etcdctl_revoke(etcdlock_session_lease(p.session)));
    int result = etcdlock_session_close(p.session);
    int n = t.n;
    ck_assert_msg(result == 0 || result == ETCDLOCK_ESESSION, "%d", result);
    p.session = NULL;
    party_close(&p);
    ck_assert_int_eq(t.n, n);
}
END_TEST

/* While etcd says nothing, the session is suspended at half of its time to live; when it answers again in
 * time all is well, and what was held was held all the time. */
START_TEST(suspended)
{
    told t = {0};
    party p = open_told(&t, 6);
    p.mutex = party_mutex(&p, live_name("a"), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    live_cluster("pause 1");
    ck_assert(live_wait_until(was_told, &t, 6500));
    ck_assert_int_eq(t.states[0], ETCDLOCK_SESSION_SUSPENDED);
    ck_assert_int_gt(etcdlock_session_remaining_ms(p.session), 0);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), token);
    live_cluster("resume 1");
    ck_assert(live_wait_until(was_told_twice, &t, 5000));
    ck_assert_int_eq(t.states[1], ETCDLOCK_SESSION_OK);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), token);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

static void resume(void)
{
    live_cluster("resume 1");
}

/* When etcd stays silent, the session is lost at its deadline, before etcd could give the lock away; waiting
 * calls end with it, and closing is bounded though nobody answers. */
START_TEST(lost_in_silence)
{
    told t = {0};
    party p = open_told(&t, 2);
    const char *name = live_name("a");
    p.mutex = party_mutex(&p, name, 0);
    etcdlock_mutex *second = party_mutex(&p, name, 0);
    caller waiter;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    int fd = etcdlock_mutex_lost_fd(p.mutex);
    caller_start(&waiter, second, -1);
    party_await_queue(&p, name, 2);
    live_cluster("pause 1");
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(caller_result(&waiter, 10000), ETCDLOCK_ESESSION);
    live_within(began_ms, 2000);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), 0);
    ck_assert(live_readable(fd, 10000));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ETCDLOCK_ESESSION);
    ck_assert(live_wait_until(was_told_of_loss, &t, 10000));
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(second), 0);
    began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_session_close(p.session), ETCDLOCK_ESESSION);
    live_within(began_ms, 2000);
    resume();
    p.session = NULL;
    party_close(&p);
}
END_TEST

static bool is_nothing_left(void *arg)
{
    (void)arg;
    return etcdctl_count(live_prefix()) == 0;
}

/* Closing a session while etcd is silent ends within its time to live, and says that the lease is left. */
START_TEST(close_in_silence)
{
    party p = party_open(live_name("a"), 4);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    live_cluster("pause 1");
    int64_t began_ms = live_now_ms();
    int result = etcdlock_session_close(p.session);
    live_within(began_ms, 4000);
    ck_assert_int_eq(result, ETCDLOCK_EUNKNOWN);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ECANCELED);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    resume();
    /* The revocation that reached the stopped process's socket may be carried out, or the lease expires. */
    int end = etcdlock_client_close(p.client);
    ck_assert_msg(end == 0 || end == ETCDLOCK_EUNKNOWN, "%d", end);
    ck_assert(live_wait_until(is_nothing_left, NULL, 6000));
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("session", &cases, 30);
    tcase_add_unchecked_fixture(cases, NULL, resume); /* also after a case that failed */
    tcase_add_test(cases, open_and_close);
    tcase_add_test(cases, raised);
    tcase_add_test(cases, bad_options);
    tcase_add_test(cases, margin_too_large);
    tcase_add_test(cases, renewed);
    tcase_add_test(cases, revoked);
    tcase_add_test(cases, late_descriptor);
    tcase_add_test(cases, callback_closes);
    tcase_add_test(cases, no_callback_after_close);
    tcase_add_test(cases, suspended);
    tcase_add_test(cases, lost_in_silence);
    tcase_add_test(cases, close_in_silence);
    return live_run(suite);
}
