/* The fault proxy does to a connection what its header says: plain sockets against an echo, then an etcd. */
/* cluster: 1 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/child.h"
#include "support/echo.h"
#include "support/live.h"
#include "support/proxy.h"
#include "support/stranger.h"

enum { SILENCE_MS = 150, SOON_MS = 2000 };

static echo server;
static proxy px;

static void begin(void)
{
    live_set_up();
    echo_start(&server);
    proxy_start(&px, server.endpoint);
}

static void finish(void)
{
    proxy_stop(&px);
    echo_stop(&server);
    live_tear_down();
}

static int dial(void)
{
    int fd = echo_dial(proxy_endpoint(&px));
    ck_assert_msg(fd >= 0, "dial: %s", strerror(errno));
    return fd;
}

static void expect_silence(int fd)
{
    ck_assert_str_eq(echo_hear(fd, 1, SILENCE_MS), "");
}

static void expect_echo(int fd, const char *text)
{
    echo_say(fd, text);
    echo_expect(fd, text);
}

static bool is_none_left(void *arg)
{
    (void)arg;
    return proxy_connections(&px) == 0;
}

static bool has_server_lost(void *arg)
{
    return server.ended + server.reset >= *(int *)arg;
}

static void await_lost(int n)
{
    ck_assert(live_wait_until(has_server_lost, &n, SOON_MS));
}

static bool has_server_heard(void *arg)
{
    return server.received >= *(int *)arg;
}

static void await_heard(int n)
{
    ck_assert(live_wait_until(has_server_heard, &n, SOON_MS));
}

/* ---- cases
 * -------------------------------------------------------------------------------------------------- */

/* Nothing wrong: bytes, counts, and the client's end reaches the server. */
START_TEST(passes)
{
    int fd = dial();
    expect_echo(fd, "hello");
    ck_assert_uint_eq(proxy_bytes(&px, PROXY_TO_SERVER), 5);
    ck_assert_uint_eq(proxy_bytes(&px, PROXY_TO_CLIENT), 5);
    ck_assert_uint_eq(proxy_connections(&px), 1);
    close(fd);
    await_lost(1);
    ck_assert_int_eq(server.ended, 1);
    ck_assert(live_wait_until(is_none_left, NULL, SOON_MS));
    ck_assert_uint_eq(proxy_accepted(&px), 1);
}
END_TEST

/* Four megabytes through small buffers come out whole. */
START_TEST(passes_much)
{
    enum { ROUNDS = 4096 };
    char out[1024], in[1024];
    int fd = dial(), sent = 0, received = 0;
    size_t at = 0, wrong = 0;
    while (received < ROUNDS * 1024) {
        struct pollfd ready = {.fd = fd, .events = POLLIN | (sent < ROUNDS * 1024 ? POLLOUT : 0)};
        ck_assert_int_eq(poll(&ready, 1, SOON_MS), 1);
        if (ready.revents & POLLIN) {
            ssize_t n = recv(fd, in, sizeof in, 0);
            ck_assert_int_gt(n, 0);
            for (ssize_t i = 0; i < n; i++, at++)
                wrong += in[i] != (char)(at * 7 + at / 1000);
            received += (int)n;
        } else if (ready.revents & POLLOUT) {
            for (size_t i = 0; i < sizeof out; i++) {
                size_t place = (size_t)sent + i;
                out[i] = (char)(place * 7 + place / 1000);
            }
            ssize_t n = send(fd, out, sizeof out, MSG_NOSIGNAL);
            ck_assert_int_gt(n, 0);
            sent += (int)n;
        }
    }
    close(fd);
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

/* Held bytes arrive later, in order, those of connections made meanwhile too; a held end also. */
START_TEST(holds)
{
    int old = dial();
    expect_echo(old, "a");
    proxy_hold(&px, PROXY_BOTH);
    int made = dial(), ended = dial();
    echo_say(old, "b");
    echo_say(made, "c");
    echo_say(ended, "d");
    close(ended);
    expect_silence(old);
    expect_silence(made);
    echo_say(old, "e");
    ck_assert_int_eq(server.received, 1);
    proxy_release(&px, PROXY_BOTH);
    echo_expect(old, "be");
    echo_expect(made, "c");
    await_lost(1);
    ck_assert_int_eq(server.received, 5);
    proxy_hold(&px, PROXY_TO_CLIENT);
    echo_say(old, "f");
    await_heard(6);
    expect_silence(old);
    proxy_pass(&px);
    echo_expect(old, "f");
    close(old);
    close(made);
}
END_TEST

/* What fell into the hole stays there, and who fell in stays silent; an idle connection works again. */
START_TEST(blackhole)
{
    int idle = dial(), busy = dial();
    expect_echo(idle, "a");
    expect_echo(busy, "b");
    proxy_blackhole(&px, PROXY_BOTH);
    int made = dial(), quiet = dial();
    echo_say(busy, "lost");
    echo_say(made, "lost");
    expect_silence(busy);
    expect_silence(made);
    expect_silence(idle);
    proxy_pass(&px);
    echo_say(busy, "more");
    echo_say(made, "more");
    expect_silence(busy);
    expect_silence(made);
    expect_echo(idle, "c");
    expect_echo(quiet, "d");
    ck_assert_int_eq(server.received, 4);
    ck_assert_uint_eq(proxy_swallowed(&px, PROXY_TO_SERVER), 16);
    proxy_reset(&px);
    echo_expect(busy, "!");
    echo_expect(idle, "!");
    close(idle);
    close(busy);
    close(made);
    close(quiet);
}
END_TEST

/* Neither side learns of the other's end inside the hole. */
START_TEST(blackhole_hides_ends)
{
    int fd = dial();
    expect_echo(fd, "a");
    proxy_blackhole(&px, PROXY_BOTH);
    close(fd);
    poll(NULL, 0, SILENCE_MS);
    ck_assert_int_eq(server.ended + server.reset, 0);
    ck_assert_uint_eq(proxy_connections(&px), 0);
}
END_TEST

/* The request is done and its answer never comes; then a reset, and new connections are well. */
START_TEST(drops_replies)
{
    int idle = dial(), fd = dial();
    expect_echo(idle, "a");
    proxy_drop_replies(&px);
    echo_say(fd, "done");
    await_heard(5);
    expect_silence(fd);
    ck_assert_uint_eq(proxy_swallowed(&px, PROXY_TO_CLIENT), 4);
    proxy_pass(&px);
    echo_expect(fd, "!");
    expect_echo(idle, "b");
    close(fd);
    fd = dial();
    expect_echo(fd, "again");
    close(fd);
    close(idle);
}
END_TEST

/* RST on both sides, even while a forked child holds copies of the sockets. */
static void hold_on(child *parent, void *arg)
{
    (void)arg;
    child_receive(parent);
    _exit(0);
}

START_TEST(resets)
{
    child c;
    int one = dial(), two = dial();
    expect_echo(one, "a");
    expect_echo(two, "b");
    child_start(&c, hold_on, NULL);
    proxy_reset(&px);
    echo_expect(one, "!");
    echo_expect(two, "!");
    await_lost(2);
    ck_assert_int_eq(server.reset, 2);
    proxy_reset_new(&px);
    int fd = echo_dial(proxy_endpoint(&px));
    if (fd >= 0) {
        echo_expect(fd, "!");
        close(fd);
    }
    proxy_accept_new(&px);
    fd = dial();
    expect_echo(fd, "c");
    child_send(&c, 0);
    child_end(&c);
    close(fd);
    close(one);
    close(two);
}
END_TEST

/* A reset by one side reaches the other. */
START_TEST(passes_resets_on)
{
    struct linger none = {.l_onoff = 1};
    int fd = dial();
    expect_echo(fd, "a");
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none), 0);
    close(fd);
    await_lost(1);
    ck_assert_int_eq(server.reset, 1);
}
END_TEST

/* Refusing and ignoring concern new connections only, and end. */
START_TEST(refuses_and_ignores)
{
    int old = dial();
    expect_echo(old, "a");
    proxy_refuse_new(&px);
    ck_assert_int_eq(echo_dial(proxy_endpoint(&px)), -1);
    ck_assert_int_eq(errno, ECONNREFUSED);
    proxy_ignore_new(&px);
    ck_assert_int_eq(echo_dial(proxy_endpoint(&px)), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    proxy_refuse_new(&px);
    ck_assert_int_eq(echo_dial(proxy_endpoint(&px)), -1);
    ck_assert_int_eq(errno, ECONNREFUSED);
    expect_echo(old, "b");
    proxy_pass(&px);
    int fd = dial();
    expect_echo(fd, "c");
    ck_assert_uint_eq(proxy_accepted(&px), 2);
    close(fd);
    close(old);
}
END_TEST

/* Each way has a delay of its own; the order stays. */
START_TEST(delays)
{
    int fd = dial();
    proxy_delay(&px, PROXY_TO_SERVER, 100);
    proxy_delay(&px, PROXY_TO_CLIENT, 200);
    int64_t began_ms = live_now_ms();
    echo_say(fd, "a");
    await_heard(1);
    int64_t half_ms = live_now_ms() - began_ms;
    ck_assert_msg(half_ms >= 100, "%d ms", (int)half_ms);
    echo_say(fd, "b");
    proxy_delay(&px, PROXY_BOTH, 0);
    echo_say(fd, "c");
    echo_expect(fd, "abc");
    ck_assert_int_ge(live_now_ms() - began_ms, 300);
    began_ms = live_now_ms();
    expect_echo(fd, "d");
    live_within(began_ms, 50);
    close(fd);
}
END_TEST

/* The client hears the end; what it says still reaches the server. */
START_TEST(half_closes)
{
    int fd = dial();
    expect_echo(fd, "a");
    proxy_half_close(&px);
    echo_expect(fd, "|");
    echo_say(fd, "bc");
    await_heard(3);
    int made = dial();
    echo_expect(made, "|");
    echo_say(made, "d");
    await_heard(4);
    close(fd);
    close(made);
    await_lost(2);
    ck_assert(live_wait_until(is_none_left, NULL, SOON_MS));
}
END_TEST

/* Exactly so many bytes, then the end. */
START_TEST(cuts)
{
    int fd = dial();
    expect_echo(fd, "12345");
    proxy_cut_after(&px, 3);
    int made = dial();
    echo_say(fd, "abcdef");
    echo_expect(fd, "abc|");
    echo_say(made, "gh");
    echo_expect(made, "gh");
    echo_say(made, "ij");
    echo_expect(made, "i|");
    await_lost(2);
    proxy_cut_after(&px, -1);
    close(fd);
    fd = dial();
    expect_echo(fd, "whole again");
    close(fd);
    close(made);
}
END_TEST

/* A message comes in pieces, all of it. */
START_TEST(chunks)
{
    enum { BYTES = 100 };
    char text[BYTES + 1];
    int fd = dial();
    memset(text, 'x', BYTES);
    text[BYTES] = '\0';
    proxy_chunk(&px, PROXY_BOTH, 1);
    expect_echo(fd, text);
    proxy_chunk(&px, PROXY_TO_CLIENT, 7);
    expect_echo(fd, text);
    proxy_pass(&px);
    expect_echo(fd, text);
    close(fd);
}
END_TEST

/* A server that is not there: accepted, then reset. */
START_TEST(no_server)
{
    proxy lonely;
    proxy_start(&lonely, stranger_nobody());
    int fd = echo_dial(proxy_endpoint(&lonely));
    if (fd >= 0) {
        echo_expect(fd, "!");
        close(fd);
    } else {
        ck_assert_int_eq(errno, ECONNRESET);
    }
    proxy_stop(&lonely);
}
END_TEST

/* Stopping with everything under way leaves nothing (the fixture looks). */
START_TEST(stops_at_any_time)
{
    int fds[8];
    proxy_delay(&px, PROXY_TO_CLIENT, 60000);
    for (int i = 0; i < 8; i++) {
        fds[i] = dial();
        echo_say(fds[i], "abc");
    }
    proxy_hold(&px, PROXY_TO_SERVER);
    echo_say(fds[0], "d");
    proxy_ignore_new(&px);
    proxy_stop(&px);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    proxy_start(&px, server.endpoint);
}
END_TEST

/* A client of etcd behind it locks, survives a cut and answers in bytes, and is told of an outage in time. */
START_TEST(etcd_client)
{
    proxy etcd;
    const char *name = live_name("proxied");
    etcdlock_client_options options = live_options();
    party p = {0};
    proxy_start(&etcd, live_endpoint(0));
    options.endpoints = proxy_endpoint(&etcd);
    options.command_timeout_ms = 3000;
    ck_assert_int_eq(etcdlock_client_open(&p.client, &options), 0);
    p.session = party_session(&p, 10);
    p.mutex = party_mutex(&p, name, 0);
    proxy_chunk(&etcd, PROXY_BOTH, 1);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    proxy_chunk(&etcd, PROXY_BOTH, 0);
    proxy_reset(&etcd);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    proxy_hold(&etcd, PROXY_BOTH);
    int64_t began_ms = live_now_ms();
    ck_assert_int_ne(etcdlock_mutex_lock_for(p.mutex, 500), 0);
    live_within(began_ms, 4000);
    proxy_pass(&etcd);
    ck_assert_uint_gt(proxy_bytes(&etcd, PROXY_TO_CLIENT), 0);
    party_close(&p);
    proxy_stop(&etcd);
}
END_TEST

int main(void)
{
    TCase *sockets, *etcd;
    Suite *suite = live_suite("proxy", &etcd, 30);
    tcase_add_test(etcd, etcd_client);
    sockets = tcase_create("sockets");
    tcase_set_timeout(sockets, 20);
    tcase_add_checked_fixture(sockets, begin, finish);
    tcase_add_test(sockets, passes);
    tcase_add_test(sockets, passes_much);
    tcase_add_test(sockets, holds);
    tcase_add_test(sockets, blackhole);
    tcase_add_test(sockets, blackhole_hides_ends);
    tcase_add_test(sockets, drops_replies);
    tcase_add_test(sockets, resets);
    tcase_add_test(sockets, passes_resets_on);
    tcase_add_test(sockets, refuses_and_ignores);
    tcase_add_test(sockets, delays);
    tcase_add_test(sockets, half_closes);
    tcase_add_test(sockets, cuts);
    tcase_add_test(sockets, chunks);
    tcase_add_test(sockets, no_server);
    tcase_add_test(sockets, stops_at_any_time);
    suite_add_tcase(suite, sockets);
    return live_run(suite);
}
