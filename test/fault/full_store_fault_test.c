/* An etcd that runs out of space under holders and waiters, and is given some again.
 * test/live/full_store_test has each call's error. */
/* cluster: 1 -- --quota-backend-bytes=4194304 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/gateway.h"
#include "support/live.h"

enum { TTL_S = 2, HOLD_MS = 10000, FILLERS_MAX = 400, REFUSED_MS = 1000 };

static void fill(void)
{
    static char value[60001];
    char key[64];
    memset(value, 'v', sizeof value - 1);
    for (int i = 0; i < FILLERS_MAX; i++) {
        snprintf(key, sizeof key, "full-%d", i);
        if (etcdctl_status("put", key, value, NULL)) return;
    }
    ck_abort_msg("etcd takes everything");
}

/* As an operator does it, without a restart. */
static void make_space(void)
{
    char revision[32];
    etcdctl("del", "--prefix", "full-", NULL);
    snprintf(revision, sizeof revision, "%lld", (long long)etcdctl_revision());
    etcdctl("compact", revision, NULL);
    etcdctl("defrag", NULL);
    etcdctl("alarm", "disarm", NULL);
}

/* Refused at once, each with a few requests. */
static void expect_refusals(const party *p, const char *name)
{
    etcdlock_session *session;
    etcdlock_mutex *mutex = party_mutex(p, name, 0);
    double requests = gateway_metric("grpc_server_handled_total");
    int64_t began_ms = live_now_ms();
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(etcdlock_mutex_lock(mutex), ENOSPC);
        ck_assert_int_eq(etcdlock_mutex_trylock(mutex), ENOSPC);
        ck_assert_int_eq(etcdlock_mutex_lock_for(mutex, 30000), ENOSPC);
        ck_assert_int_eq(etcdlock_session_open(&session, p->client, NULL), ENOSPC);
    }
    live_within(began_ms, REFUSED_MS);
    requests = gateway_metric("grpc_server_handled_total") - requests;
    printf("20 calls refused in %lld ms, with %.0f requests\n", (long long)(live_now_ms() - began_ms),
           requests);
    ck_assert_int_lt((int)requests, 20 * 4); /* renewals of both sessions are among them */
    ck_assert_int_eq(etcdlock_mutex_destroy(mutex), 0);
}

/* What is held stays held for five times the time to live, and is unlocked; a waiter that was in the queue
 * gets its turn; new entries and sessions are refused at once and asked for once; after the alarm is disarmed
 * all is well, with the same handles (B54). */
START_TEST(full)
{
    const char *name = live_name("a");
    party p = party_open(name, TTL_S), other = party_open(name, TTL_S);
    caller waiter;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&p, name, 2);
    fill();
    expect_refusals(&p, live_name("b"));
    for (int64_t until_ms = live_now_ms() + HOLD_MS; live_now_ms() < until_ms;) {
        ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), token);
        ck_assert_int_eq(etcdlock_session_get_state(p.session), ETCDLOCK_SESSION_OK);
        usleep(50000);
    }
    ck_assert(!caller_is_done(&waiter, 0));
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, 5000), 0);
    live_within(began_ms, 1000);
    make_space();
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    etcdlock_session *session = party_session(&p, 0);
    ck_assert_int_eq(etcdlock_session_close(session), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("full_store", &cases, 90);
    tcase_add_test(cases, full);
    return live_run(suite);
}
