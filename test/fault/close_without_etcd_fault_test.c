/* Closing a client, a session or the whole program while etcd is away: it ends in its time, with what it held
 * left to expire and renewed no more. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/caller.h"
#include "support/child.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/proxy.h"
#include "support/through.h"

enum { PLACES = 10, TTL_S = 3, COMMAND_MS = 1000, CLOSE_SLACK_MS = 1000, EXIT_MS = 2000 };

typedef enum absence { BLACKHOLE, STOPPED, REFUSED, UNANSWERED, ABSENCES } absence;
static const char *const absence_names[ABSENCES] = {"blackhole", "stopped", "refused", "no SYN-ACK"};

static void vanish(proxy *etcd, absence kind)
{
    switch (kind) {
    case STOPPED:
        live_cluster("pause 1");
        break;
    case REFUSED:
        proxy_refuse_new(etcd);
        proxy_reset(etcd);
        break;
    case UNANSWERED:
        proxy_ignore_new(etcd);
        proxy_reset(etcd);
        break;
    default:
        proxy_blackhole(etcd, PROXY_BOTH);
    }
}

static void resume(void)
{
    live_cluster("resume 1");
}

/* Ten locks that are held, and ten waits for locks that another holds. */
typedef struct scene {
    proxy etcd;
    party rival, p;
    etcdlock_mutex *rivals[PLACES], *held[PLACES], *wanted[PLACES];
    caller waiters[PLACES];
} scene;

static void set_scene(scene *s)
{
    char name[64];
    proxy_start(&s->etcd, live_endpoint(0));
    s->rival = party_open(live_name("a"), 30);
    s->p = party_through(proxy_endpoint(&s->etcd), live_name("b"), TTL_S, COMMAND_MS);
    for (int i = 0; i < PLACES; i++) {
        snprintf(name, sizeof name, "%swanted-%d", live_prefix(), i);
        s->rivals[i] = party_mutex(&s->rival, name, 0);
        s->wanted[i] = party_mutex(&s->p, name, 0);
        ck_assert_int_eq(etcdlock_mutex_lock(s->rivals[i]), 0);
        caller_start(&s->waiters[i], s->wanted[i], -1);
        party_await_queue(&s->rival, name, 2);
        snprintf(name, sizeof name, "%sheld-%d", live_prefix(), i);
        s->held[i] = party_mutex(&s->p, name, 0);
        ck_assert_int_eq(etcdlock_mutex_lock(s->held[i]), 0);
    }
}

static void await_waiters(scene *s)
{
    for (int i = 0; i < PLACES; i++) {
        ck_assert_int_eq(caller_result(&s->waiters[i], 1000), ECANCELED);
        ck_assert_int_eq(caller_end(&s->waiters[i]), 0);
        ck_assert_int_eq(etcdlock_mutex_destroy(s->wanted[i]), 0);
        ck_assert_int_eq(etcdlock_mutex_unlock(s->held[i]), ECANCELED);
        ck_assert_int_eq(etcdlock_mutex_destroy(s->held[i]), 0);
    }
    ck_assert_int_eq(etcdlock_mutex_destroy(s->p.mutex), 0);
}

static bool is_lease_gone(void *lease)
{
    return !etcdctl_has_lease(*(int64_t *)lease);
}

/* etcd is there again, and nobody renews: the lease ends in its time, and the rival is the only one left. A
 * server that was stopped counts on from where it was. */
static void clear_scene(scene *s, int64_t lease, absence kind)
{
    if (kind == STOPPED) resume();
    ck_assert(live_wait_until(is_lease_gone, &lease, TTL_S * 1000 + 4000));
    ck_assert_uint_eq(etcdctl_count(live_prefix()), PLACES);
    for (int i = 0; i < PLACES; i++) {
        ck_assert_int_eq(etcdlock_mutex_unlock(s->rivals[i]), 0);
        ck_assert_int_eq(etcdlock_mutex_destroy(s->rivals[i]), 0);
    }
    party_close(&s->rival);
    proxy_stop(&s->etcd);
}

/* The client is closed with ten locks held and ten waited for: in its time, all calls end with ECANCELED, all
 * threads with it, and the lease, which it could not revoke, is renewed no more (B32). */
START_TEST(closing_client)
{
    static scene s;
    set_scene(&s);
    int64_t lease = etcdlock_session_lease(s.p.session);
    vanish(&s.etcd, (absence)_i);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_client_close(s.p.client), ETCDLOCK_EUNKNOWN);
    printf("client_close, %s: %lld ms\n", absence_names[_i], (long long)(live_now_ms() - began_ms));
    live_within(began_ms, COMMAND_MS + CLOSE_SLACK_MS);
    await_waiters(&s);
    ck_assert_int_eq(etcdlock_session_close(s.p.session), 0);
    clear_scene(&s, lease, (absence)_i);
}
END_TEST

/* The same with the session, and then the client that has nothing left to end (B32). */
START_TEST(closing_session)
{
    static scene s;
    set_scene(&s);
    int64_t lease = etcdlock_session_lease(s.p.session);
    vanish(&s.etcd, (absence)_i);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_session_close(s.p.session), ETCDLOCK_EUNKNOWN);
    printf("session_close, %s: %lld ms\n", absence_names[_i], (long long)(live_now_ms() - began_ms));
    live_within(began_ms, COMMAND_MS);
    await_waiters(&s);
    began_ms = live_now_ms();
    int error = etcdlock_client_close(s.p.client);
    ck_assert_msg(error == 0 || error == ETCDLOCK_EUNKNOWN, "%d", error);
    live_within(began_ms, COMMAND_MS + CLOSE_SLACK_MS);
    clear_scene(&s, lease, (absence)_i);
}
END_TEST

static etcdlock_mutex_t drop_in[PLACES] = {
    ETCDLOCK_MUTEX_INITIALIZER("0"), ETCDLOCK_MUTEX_INITIALIZER("1"), ETCDLOCK_MUTEX_INITIALIZER("2"),
    ETCDLOCK_MUTEX_INITIALIZER("3"), ETCDLOCK_MUTEX_INITIALIZER("4"), ETCDLOCK_MUTEX_INITIALIZER("5"),
    ETCDLOCK_MUTEX_INITIALIZER("6"), ETCDLOCK_MUTEX_INITIALIZER("7"), ETCDLOCK_MUTEX_INITIALIZER("8"),
    ETCDLOCK_MUTEX_INITIALIZER("9"),
};

static void *wait_for_ever(void *mutex)
{
    (void)!etcdlock_mutex_lock(mutex);
    return NULL;
}

/* Holds all of them, has a thread wait for each, and exits when it is told to. */
static void hold_and_exit(child *parent, void *arg)
{
    pthread_t thread;
    (void)arg;
    for (int i = 0; i < PLACES; i++) {
        ck_assert_int_eq(etcdlock_mutex_lock(&drop_in[i]), 0);
        ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_ever, &drop_in[i]), 0);
    }
    child_send(parent, 0);
    child_receive(parent);
    exit(EXIT_SUCCESS);
}

static bool is_nothing_left(void *arg)
{
    (void)arg;
    return etcdctl_count(live_prefix()) == 0 && etcdctl_count_leases() == 0;
}

/* A program with ten static locks held, and a thread waiting for each, exits while etcd is away: it is gone
 * within two seconds, and its lease with its time (B32). */
START_TEST(exiting)
{
    proxy etcd;
    child c;
    proxy_start(&etcd, live_endpoint(0));
    setenv("ETCDCTL_ENDPOINTS", proxy_endpoint(&etcd), 1);
    setenv("ETCDLOCK_PREFIX", live_prefix(), 1);
    setenv("ETCDLOCK_TTL", "3", 1);
    child_start(&c, hold_and_exit, NULL);
    child_receive(&c);
    vanish(&etcd, (absence)_i);
    int64_t began_ms = live_now_ms();
    child_send(&c, 0);
    child_end(&c);
    printf("exit, %s: %lld ms\n", absence_names[_i], (long long)(live_now_ms() - began_ms));
    live_within(began_ms, EXIT_MS);
    if (_i == STOPPED) resume();
    ck_assert(live_wait_until(is_nothing_left, NULL, TTL_S * 1000 + 4000));
    proxy_stop(&etcd);
}
END_TEST

static void *open_session(void *client)
{
    etcdlock_session *session;
    int error = etcdlock_session_open(&session, client, NULL);
    return (void *)(intptr_t)error;
}

/* A client whose endpoint has a name that does not resolve is closed amid the first call (B32). */
START_TEST(no_such_name)
{
    etcdlock_client_options options = live_options();
    etcdlock_client *client;
    pthread_t thread;
    void *error;
    options.endpoints = "no-such-host.invalid:2379";
    options.command_timeout_ms = 10000;
    ck_assert_int_eq(etcdlock_client_open(&client, &options), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, open_session, client), 0);
    int64_t until_ms = live_now_ms() + 500;
    while (live_now_ms() < until_ms)
        ck_assert_int_eq(pthread_tryjoin_np(thread, &error), EBUSY);
    int64_t began_ms = live_now_ms();
    int result = etcdlock_client_close(client);
    printf("client_close, no such name: %lld ms\n", (long long)(live_now_ms() - began_ms));
    live_within(began_ms, CLOSE_SLACK_MS);
    ck_assert_msg(result == 0 || result == ETCDLOCK_EUNKNOWN, "%d", result);
    ck_assert_int_eq(pthread_join(thread, &error), 0);
    ck_assert_int_eq((int)(intptr_t)error, ECANCELED);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("close_without_etcd", &cases, 60);
    tcase_add_unchecked_fixture(cases, NULL, resume); /* also after a case that failed */
    tcase_add_loop_test(cases, closing_client, 0, ABSENCES);
    tcase_add_loop_test(cases, closing_session, 0, STOPPED + 1);
    tcase_add_loop_test(cases, exiting, 0, ABSENCES);
    tcase_add_test(cases, no_such_name);
    return live_run(suite);
}
