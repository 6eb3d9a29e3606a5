/* Auth tokens that expire or are forgotten, and permissions that go, under holders and waiters. */
/* cluster: 3 auth ttl=5 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/gateway.h"
#include "support/live.h"
#include "support/proxy.h"

enum { MEMBERS = 3, TTL_S = 20, SOON_MS = 15000, EXPIRY_MS = 6500, CALLERS = 8 };

static proxy proxies[MEMBERS];

static bool has_passed(void *until_ms)
{
    return live_now_ms() >= *(int64_t *)until_ms;
}

/* Longer than a token lives that is not used. */
static void let_token_expire(void)
{
    int64_t until_ms = live_now_ms() + EXPIRY_MS;
    ck_assert(live_wait_until(has_passed, &until_ms, 2 * EXPIRY_MS));
}

/* What the user of the cluster may use. */
static const char *allowed(const char *part)
{
    char name[64];
    snprintf(name, sizeof name, "t/%s%s", live_prefix(), part);
    static char names[8][64];
    static int n;
    return strcpy(names[n++ % 8], name);
}

/* NULL: the members themselves. */
static party open_at(const char *endpoints, const char *name)
{
    party p = {0};
    etcdlock_client_options options = live_options();
    if (endpoints) options.endpoints = endpoints;
    int error = etcdlock_client_open(&p.client, &options);
    ck_assert_msg(error == 0, "%s", etcdlock_error_message());
    p.session = party_session(&p, TTL_S);
    p.mutex = party_mutex(&p, name, 0);
    return p;
}

static void expect_no_keys(void)
{
    ck_assert_uint_eq(etcdctl_count(allowed("")), 0);
}

static int lock_soon(etcdlock_mutex *mutex)
{
    return etcdlock_mutex_lock_for(mutex, SOON_MS);
}

/* ---- proxies ---- */

static const char *through_proxies(void)
{
    static char endpoints[256];
    for (int i = 0; i < MEMBERS; i++)
        proxy_start(&proxies[i], live_endpoint(i));
    snprintf(endpoints, sizeof endpoints, "%s,%s,%s", proxy_endpoint(&proxies[0]),
             proxy_endpoint(&proxies[1]), proxy_endpoint(&proxies[2]));
    return endpoints;
}

static void each_proxy(void (*act)(proxy *p))
{
    for (int i = 0; i < MEMBERS; i++)
        act(&proxies[i]);
}

static void hold(proxy *p)
{
    proxy_hold(p, PROXY_BOTH);
}

/* ---- tokens ---- */

/* How many tokens member 1 has been asked for. */
static int tokens_fetched(void)
{
    return (int)gateway_metric("grpc_server_started_total{grpc_method=\"Authenticate\",grpc_service="
                               "\"etcdserverpb.Auth\",grpc_type=\"unary\"}");
}

/* A holder's token has expired when it unlocks, a waiter's when it is granted (B22): neither notices. */
START_TEST(expires_while_held)
{
    const char *name = allowed("a");
    party p = open_at(NULL, name), other = open_at(NULL, name);
    caller waiter;
    ck_assert_int_eq(lock_soon(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&other, name, 2);
    let_token_expire();
    let_token_expire();
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), token);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, SOON_MS), 0);
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_eq(etcdlock_session_get_state(p.session), ETCDLOCK_SESSION_OK);
    party_close(&p);
    party_close(&other);
    expect_no_keys();
}
END_TEST

/* Many threads that find the token expired fetch one new one for all (B22). */
START_TEST(fetched_once_for_all)
{
    party p = open_at(live_endpoint(0), allowed("own"));
    etcdlock_mutex *mutexes[CALLERS];
    caller callers[CALLERS];
    char part[16];
    for (int i = 0; i < CALLERS; i++) {
        snprintf(part, sizeof part, "%d", i);
        mutexes[i] = party_mutex(&p, allowed(part), 0);
    }
    for (int round = 0; round < 2; round++) {
        let_token_expire();
        int before = tokens_fetched();
        ck_assert_int_gt(before, 0);
        for (int i = 0; i < CALLERS; i++)
            caller_start(&callers[i], mutexes[i], SOON_MS);
        for (int i = 0; i < CALLERS; i++)
            ck_assert_int_eq(caller_result(&callers[i], SOON_MS), 0);
        for (int i = 0; i < CALLERS; i++)
            ck_assert_int_eq(caller_end(&callers[i]), 0);
        ck_assert_int_eq(tokens_fetched(), before + 1);
    }
    for (int i = 0; i < CALLERS; i++)
        ck_assert_int_eq(etcdlock_mutex_destroy(mutexes[i]), 0);
    party_close(&p);
    expect_no_keys();
}
END_TEST

/* Renewals are answered without a look at the token, so they prove nothing: after a time in which nothing but
 * renewals was sent, the first unlock, try and query all succeed (B22). */
START_TEST(renewals_prove_nothing)
{
    const char *name = allowed("a");
    party p = open_at(NULL, name);
    etcdlock_queue *queue;
    ck_assert_int_eq(lock_soon(p.mutex), 0);
    let_token_expire();
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    let_token_expire();
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), 0);
    let_token_expire();
    ck_assert_int_eq(etcdlock_queue_get(&queue, p.client, name), 0);
    ck_assert_uint_eq(etcdlock_queue_contenders(queue), 1);
    etcdlock_queue_free(queue);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    let_token_expire();
    party_close(&p); /* revokes the lease */
    expect_no_keys();
}
END_TEST

static void restart_all(void)
{
    char line[16];
    for (int member = 1; member <= MEMBERS; member++) {
        snprintf(line, sizeof line, "restart %d", member);
        live_cluster(line);
    }
}

/* A member that restarts has forgotten all tokens (B22): with all of them restarted, one after the other, the
 * holder unlocks and the waiter, whose watch has to be made anew with a new token, is granted (B21). */
START_TEST(forgotten_by_restarts)
{
    const char *name = allowed("a");
    party p = open_at(NULL, name), other = open_at(NULL, name);
    caller waiter;
    ck_assert_int_eq(lock_soon(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&p, name, 2);
    restart_all();
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), token);
    ck_assert(!caller_is_done(&waiter, 0));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, SOON_MS), 0);
    ck_assert_int_eq(caller_end(&waiter), 0);
    party_close(&p);
    party_close(&other);
    expect_no_keys();
}
END_TEST

/* A watch stream that has to be opened again when the token is dead (B21): etcd says "created" and "canceled"
 * in one breath. The waiter fetches a token, watches again, and is granted. */
START_TEST(watch_with_dead_token)
{
    const char *name = allowed("a");
    party p = open_at(NULL, name), other = open_at(through_proxies(), name);
    caller waiter;
    ck_assert_int_eq(lock_soon(p.mutex), 0);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&p, name, 2);
    ck_assert(!caller_is_done(&waiter, 200)); /* its watch is in place */
    each_proxy(hold);                         /* or its own probes would keep the token alive */
    let_token_expire();
    each_proxy(proxy_reset);
    each_proxy(proxy_pass);
    ck_assert(!caller_is_done(&waiter, 500));
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, SOON_MS), 0);
    live_within(began_ms, 5000);
    ck_assert_int_eq(caller_end(&waiter), 0);
    party_close(&p);
    party_close(&other);
    each_proxy(proxy_stop);
    expect_no_keys();
}
END_TEST

/* ---- permissions ---- */

static bool is_queue_empty(void *name)
{
    return etcdctl_count(name) == 0;
}

static void grant(const char *what, const char *prefix)
{
    etcdctl("role", "grant-permission", "--prefix", "locker", what, prefix, NULL);
}

/* After a case that failed, too. */
static void restore_permissions(void)
{
    (void)etcdctl_status("user", "delete", "leaver", NULL);
    (void)etcdctl_status("role", "grant-permission", "--prefix", "locker", "readwrite", "t/", NULL);
    (void)etcdctl_status("role", "revoke-permission", "--prefix", "locker", "u/", NULL);
}

/* The right to read goes while one waits (B21): EACCES in seconds, with the connection cut or not. Another
 * waiter of the same client, whose right stays, goes on to wait and is granted. */
START_TEST(permission_lost)
{
    char stays[64];
    const char *goes = allowed("a");
    snprintf(stays, sizeof stays, "u/%sa", live_prefix());
    grant("readwrite", "t/"); /* a case that failed may have left it */
    grant("readwrite", "u/");
    party holder = open_at(NULL, goes), p = open_at(through_proxies(), goes);
    party still = {.client = p.client};
    caller waiter, other_waiter;
    etcdlock_mutex *held = party_mutex(&holder, stays, 0);
    still.session = party_session(&still, TTL_S);
    still.mutex = party_mutex(&still, stays, 0);
    ck_assert_int_eq(lock_soon(holder.mutex), 0);
    ck_assert_int_eq(lock_soon(held), 0);
    caller_start(&waiter, p.mutex, -1);
    caller_start(&other_waiter, still.mutex, -1);
    party_await_queue(&holder, goes, 2);
    party_await_queue(&holder, stays, 2);
    ck_assert(!caller_is_done(&waiter, 200));
    grant("write", "t/");
    int64_t began_ms = live_now_ms();
    if (_i == 1) each_proxy(proxy_reset);
    ck_assert_int_eq(caller_result(&waiter, SOON_MS), EACCES);
    live_within(began_ms, 12000);
    (void)caller_end(&waiter);
    ck_assert(!caller_is_done(&other_waiter, 500));
    ck_assert_int_eq(etcdlock_mutex_unlock(held), 0);
    ck_assert_int_eq(caller_result(&other_waiter, SOON_MS), 0);
    ck_assert_int_eq(caller_end(&other_waiter), 0);
    grant("readwrite", "t/");
    ck_assert_int_eq(etcdlock_mutex_unlock(holder.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(held), 0);
    still.client = NULL;
    party_close(&still);
    (void)etcdlock_mutex_destroy(p.mutex);
    (void)etcdlock_session_close(p.session);
    ck_assert_int_eq(etcdlock_client_close(p.client), 0);
    party_close(&holder);
    each_proxy(proxy_stop);
    restore_permissions();
    expect_no_keys();
    ck_assert_uint_eq(etcdctl_count(stays), 0);
}
END_TEST

/* The right to write goes while one holds (B17): the unlock says so, and since its entry cannot be removed
 * the session is not renewed any more. The entry is gone with its lease though the process lives on; another
 * session of the same client is not concerned. */
START_TEST(right_to_remove_lost)
{
    const char *name = allowed("a");
    grant("readwrite", "t/");
    party p = open_at(NULL, name);
    party other = {.client = p.client};
    other.session = party_session(&other, TTL_S);
    ck_assert_int_eq(lock_soon(p.mutex), 0);
    grant("read", "t/");
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), EACCES);
    ck_assert_uint_eq(etcdctl_count(name), 1);
    ck_assert(live_readable(etcdlock_session_lost_fd(p.session), (TTL_S + 5) * 1000));
    ck_assert(live_wait_until(is_queue_empty, (void *)(uintptr_t)name, (TTL_S + 5) * 1000));
    ck_assert_int_eq(etcdlock_session_get_state(other.session), ETCDLOCK_SESSION_OK);
    grant("readwrite", "t/");
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    ck_assert_int_eq(etcdlock_session_close(p.session), ETCDLOCK_ESESSION);
    p.session = NULL;
    p.mutex = party_mutex(&other, name, 0);
    ck_assert_int_eq(lock_soon(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    other.client = NULL;
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    p.mutex = NULL;
    party_close(&other);
    party_close(&p);
    restore_permissions();
    expect_no_keys();
}
END_TEST

static bool is_alone(void *name)
{
    return etcdctl_count(name) == 1;
}

/* The user is deleted while one of his waits. Renewals need no user, so he would stand in everybody's way for
 * ever: he is told, and his session is renewed no more. */
START_TEST(user_deleted)
{
    const char *name = allowed("a");
    etcdctl("user", "add", "leaver:pw", NULL);
    etcdctl("user", "grant-role", "leaver", "locker", NULL);
    party holder = open_at(NULL, name), p = {0};
    etcdlock_client_options options = live_options();
    options.user = "leaver";
    options.password = "pw";
    ck_assert_int_eq(etcdlock_client_open(&p.client, &options), 0);
    p.session = party_session(&p, TTL_S);
    p.mutex = party_mutex(&p, name, 0);
    caller waiter;
    ck_assert_int_eq(lock_soon(holder.mutex), 0);
    caller_start(&waiter, p.mutex, -1);
    party_await_queue(&holder, name, 2);
    ck_assert(!caller_is_done(&waiter, 200));
    etcdctl("user", "delete", "leaver", NULL);
    ck_assert_int_eq(caller_result(&waiter, SOON_MS), EACCES);
    (void)caller_end(&waiter);
    ck_assert(live_wait_until(is_alone, (void *)(uintptr_t)name, (TTL_S + 10) * 1000));
    ck_assert_int_eq(etcdlock_mutex_ensure(holder.mutex, 1000), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(holder.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    (void)etcdlock_session_close(p.session);
    (void)etcdlock_client_close(p.client);
    party_close(&holder);
    expect_no_keys();
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("auth_token_fault", &cases, 120);
    tcase_add_unchecked_fixture(cases, NULL, restore_permissions);
    tcase_add_test(cases, expires_while_held);
    tcase_add_test(cases, fetched_once_for_all);
    tcase_add_test(cases, renewals_prove_nothing);
    tcase_add_test(cases, forgotten_by_restarts);
    tcase_add_test(cases, watch_with_dead_token);
    tcase_add_loop_test(cases, permission_lost, 0, 2);
    tcase_add_test(cases, right_to_remove_lost);
    tcase_add_test(cases, user_deleted);
    return live_run(suite);
}
