/* No etcd where one should be: nobody listens, somebody else listens, no such name, or it went silent. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/stranger.h"

enum { LIMIT_MS = 600 };

static const char web_answer[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

static void expect_unreachable(const char *endpoints)
{
    etcdlock_client_options options = live_options();
    etcdlock_client *client;
    etcdlock_session *session = (etcdlock_session *)&options;
    etcdlock_queue *queue;
    options.endpoints = endpoints;
    options.command_timeout_ms = LIMIT_MS;
    options.dial_timeout_ms = 250;
    ck_assert_int_eq(etcdlock_client_open(&client, &options), 0);
    int64_t began_ms = live_now_ms();
    int error = etcdlock_session_open(&session, client, NULL);
    live_within(began_ms, LIMIT_MS);
    ck_assert_msg(error == ETCDLOCK_EUNREACHABLE, "%d %s", error, etcdlock_error_message());
    ck_assert_ptr_null(session);
    ck_assert_str_ne(etcdlock_error_message(), "");
    began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_queue_get(&queue, client, "a"), ETCDLOCK_EUNREACHABLE);
    live_within(began_ms, LIMIT_MS);
    ck_assert_ptr_null(queue);
    began_ms = live_now_ms();
    int closed = etcdlock_client_close(client);
    live_within(began_ms, LIMIT_MS + 1000);
    ck_assert_msg(closed == 0 || closed == ETCDLOCK_EUNKNOWN, "%d", closed);
}

/* A port where nobody listens. */
START_TEST(nobody)
{
    expect_unreachable(stranger_nobody());
}
END_TEST

/* A listener that takes the connection and never says a word. */
START_TEST(silent_listener)
{
    stranger s;
    stranger_start(&s, NULL);
    expect_unreachable(s.endpoint);
    stranger_end(&s);
}
END_TEST

/* A web server that knows no HTTP/2. */
START_TEST(web_server)
{
    stranger s;
    stranger_start(&s, web_answer);
    expect_unreachable(s.endpoint);
    stranger_end(&s);
}
END_TEST

/* A name that does not resolve. */
START_TEST(no_such_name)
{
    expect_unreachable("no-such-host.invalid:2379");
}
END_TEST

/* A socket file that is not there. */
START_TEST(no_such_socket)
{
    expect_unreachable("unix:/nonexistent/etcd.sock");
}
END_TEST

/* All of them before the real one: it is found, and the lock works. */
START_TEST(found_in_the_end)
{
    stranger silent, web;
    char endpoints[256];
    etcdlock_client_options options = live_options();
    party p = {0};
    stranger_start(&silent, NULL);
    stranger_start(&web, web_answer);
    snprintf(endpoints, sizeof endpoints, "%s,no-such-host.invalid:2379,%s,%s,%s", stranger_nobody(),
             web.endpoint, silent.endpoint, live_endpoint(0));
    options.endpoints = endpoints;
    options.dial_timeout_ms = 500; /* both the silent one and the name may take it */
    ck_assert_int_eq(etcdlock_client_open(&p.client, &options), 0);
    int64_t began_ms = live_now_ms();
    p.session = party_session(&p, 0);
    p.mutex = party_mutex(&p, live_name("a"), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    live_within(began_ms, 5000);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    stranger_end(&silent);
    stranger_end(&web);
}
END_TEST

static void resume(void)
{
    live_cluster("resume 1");
}

/* etcd goes silent under a session: each call ends in its documented time with its documented error, and
 * once etcd is back nothing of theirs is left. */
START_TEST(gone_silent)
{
    const char *name = live_name("a");
    etcdlock_client_options options = live_options();
    party p = {0};
    struct timespec epoch = {0, 0};
    /* Also the first connection has to be made in that time. */
    int64_t limit_ms = 1500 * (live_slowness() > 8 ? 2 : 1);
    options.command_timeout_ms = limit_ms;
    ck_assert_int_eq(etcdlock_client_open(&p.client, &options), 0);
    p.session = party_session(&p, 30);
    p.mutex = party_mutex(&p, name, 0);
    etcdlock_mutex *held = party_mutex(&p, live_name("b"), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(held), 0);
    live_cluster("pause 1");

    int64_t began_ms = live_now_ms();
    int error = etcdlock_mutex_trylock(p.mutex);
    live_within(began_ms, limit_ms);
    ck_assert_msg(error == ETCDLOCK_EUNKNOWN || error == ETCDLOCK_EUNREACHABLE, "%d", error);
    began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_timedlock(p.mutex, &epoch), ETIMEDOUT);
    live_within(began_ms, limit_ms);
    began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 300), ETIMEDOUT);
    live_within(began_ms, 300);
    ck_assert_int_eq(etcdlock_mutex_ensure(held, 1000), 0);
    began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_ensure(held, etcdlock_mutex_remaining_ms(held) + 100), ETIMEDOUT);
    live_within(began_ms, limit_ms);
    began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_unlock(held), ETCDLOCK_EUNKNOWN);
    live_within(began_ms, limit_ms);
    ck_assert_uint_eq(etcdlock_mutex_token(held), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(held), EPERM);

    resume();
    party_await_queue(&p, live_name("b"), 0);
    party_await_queue(&p, name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(held), 0);
    party_close(&p);
}
END_TEST

/* A lock call without a deadline outlives a silence shorter than the time to live, and is then granted. */
START_TEST(short_silence)
{
    party p = party_open(live_name("a"), 20), other = party_open(live_name("a"), 20);
    caller waiter, late;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&p, live_name("a"), 2);
    live_cluster("pause 1");
    etcdlock_mutex *second = party_mutex(&p, live_name("b"), 0);
    caller_start(&late, second, -1);
    ck_assert(!caller_is_done(&late, 1500));
    ck_assert(!caller_is_done(&waiter, 0));
    resume();
    ck_assert_int_eq(caller_result(&late, 10000), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, 10000), 0);
    ck_assert_int_eq(caller_end(&late), 0);
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(second), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("unreachable", &cases, 30);
    tcase_add_unchecked_fixture(cases, NULL, resume); /* also after a case that failed */
    tcase_add_test(cases, nobody);
    tcase_add_test(cases, silent_listener);
    tcase_add_test(cases, web_server);
    tcase_add_test(cases, no_such_name);
    tcase_add_test(cases, no_such_socket);
    tcase_add_test(cases, found_in_the_end);
    tcase_add_test(cases, gone_silent);
    tcase_add_test(cases, short_silence);
    return live_run(suite);
}
