/* Each writing request is answered with each error code, carried out and not, by a simulated etcd: a real one
 * cannot be made to. What the library takes each for is the table in doc/outcomes.md. */
/* cluster: none */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/client.h"
#include "core/options.h"
#include "etcdlock.h"
#include "support/runner.h"
#include "support/sim.h"

enum { TTL_S = 600, PATIENCE_MS = 5000, POLL_MS = 2 };

/* The simulator gives no reason of etcd's own with a spoilt answer, as if a proxy on the way had made it. */
static const el_code codes[] = {
    EL_CANCELLED, EL_UNKNOWN,  EL_DEADLINE_EXCEEDED, EL_RESOURCE_EXHAUSTED, EL_FAILED_PRECONDITION,
    EL_ABORTED,   EL_INTERNAL, EL_UNAVAILABLE,       EL_UNAUTHENTICATED};

enum { CODES = sizeof codes / sizeof codes[0], RUNS = 2 * CODES };

/* One client of a simulated etcd in real time. */
typedef struct stage {
    sim *etcd;
    el_transport *transport;
    etcdlock_client *client;
    etcdlock_session *session;
    etcdlock_mutex *mutex;
    el_code code; /* of this run */
    bool is_served;
} stage;

static void free_options(void *owner)
{
    el_options_free(owner);
    el_free(owner);
}

static void open_client(stage *s, const char *user)
{
    etcdlock_client_options code = ETCDLOCK_CLIENT_OPTIONS_INIT;
    el_client_settings settings = {.dial_timeout_ns = 2 * EL_S,
                                   .command_timeout_ns = 5 * EL_S,
                                   .user = user,
                                   .password = user,
                                   .is_threaded = true};
    el_failure failure;
    code.endpoints = "127.0.0.1:1";
    el_options *options = el_alloc(sizeof(*options));
    ck_assert_int_eq(el_options_resolve(options, &code, &failure), 0);
    s->transport = sim_client_new(s->etcd);
    ck_assert_int_eq(el_client_new(&s->client, s->transport, &settings), 0);
    s->client->owner = options;
    s->client->free_owner = free_options;
}

static int open_session(stage *s)
{
    etcdlock_session_options options = ETCDLOCK_SESSION_OPTIONS_INIT;
    options.ttl_s = TTL_S; /* so long that no renewal is in the way */
    return etcdlock_session_open(&s->session, s->client, &options);
}

static stage set_up(int run, const char *user)
{
    sim_options options = {.seed = 5, .members = 1, .realtime = true};
    stage s = {.etcd = sim_new(&options), .code = codes[run / 2], .is_served = run % 2};
    if (user) sim_set_auth(s.etcd, user, user);
    open_client(&s, user);
    return s;
}

static stage set_up_session(int run, const char *user)
{
    stage s = set_up(run, user);
    ck_assert_int_eq(open_session(&s), 0);
    ck_assert_int_eq(etcdlock_mutex_new(&s.mutex, s.session, "a", NULL), 0);
    return s;
}

static void spoil_next(stage *s)
{
    sim_fail_call_after(s->transport, 0, s->code, s->is_served);
}

/* What the caller is told in the end. A code that leaves it open is looked into, and the request repeated,
 * until it is known; only what asking again cannot change comes out. */
static int expected(el_code code)
{
    if (code == EL_FAILED_PRECONDITION) return ETCDLOCK_EPROTOCOL;
    return code == EL_UNAUTHENTICATED ? EACCES : 0;
}

static void expect_keys(stage *s, size_t n)
{
    sim_key_info key;
    size_t there = sim_keys(s->etcd, "a/", &key, 1);
    for (int ms = 0; there != n && ms < PATIENCE_MS; ms += POLL_MS) {
        poll(NULL, 0, POLL_MS);
        there = sim_keys(s->etcd, "a/", &key, 1);
    }
    ck_assert_msg(there == n, "code %d, %s: %zu keys, not %zu", (int)s->code,
                  s->is_served ? "carried out" : "not carried out", there, n);
}

static void expect_leases(stage *s, size_t n)
{
    for (int ms = 0; sim_leases_alive(s->etcd) != n && ms < PATIENCE_MS; ms += POLL_MS)
        poll(NULL, 0, POLL_MS);
    ck_assert_msg(sim_leases_alive(s->etcd) == n, "code %d, %s: %zu leases, not %zu", (int)s->code,
                  s->is_served ? "carried out" : "not carried out", sim_leases_alive(s->etcd), n);
}

static void tear_down(stage *s)
{
    ck_assert_int_eq(etcdlock_mutex_destroy(s->mutex), 0);
    if (s->session) ck_assert_int_eq(etcdlock_session_close(s->session), 0);
    expect_keys(s, 0);
    expect_leases(s, 0);
    ck_assert_int_eq(etcdlock_client_close(s->client), 0);
    sim_free(s->etcd);
    ck_assert_int_eq(el_alloc_alive(), 0);
}

static void expect_usable(stage *s)
{
    ck_assert_int_eq(etcdlock_mutex_lock(s->mutex), 0);
    expect_keys(s, 1);
    ck_assert_int_eq(etcdlock_mutex_unlock(s->mutex), 0);
    expect_keys(s, 0);
}

/* (B35) The transaction that enters: held by exactly one entry, written once, or an error and none. */
START_TEST(enter)
{
    stage s = set_up_session(_i, NULL);
    int64_t revision = sim_revision(s.etcd);
    spoil_next(&s);
    int error = etcdlock_mutex_lock(s.mutex);
    ck_assert_int_eq(error, expected(s.code));
    if (error == 0) {
        expect_keys(&s, 1);
        ck_assert_int_eq(sim_revision(s.etcd), revision + 1);
        ck_assert_uint_eq(etcdlock_mutex_token(s.mutex), (uint64_t)revision + 1);
        ck_assert_int_eq(etcdlock_mutex_unlock(s.mutex), 0);
    }
    expect_keys(&s, 0);
    expect_usable(&s);
    tear_down(&s);
}
END_TEST

/* (B35) The transaction that tries: the same. */
START_TEST(try_to_enter)
{
    stage s = set_up_session(_i, NULL);
    int64_t revision = sim_revision(s.etcd);
    spoil_next(&s);
    int error = etcdlock_mutex_trylock(s.mutex);
    ck_assert_int_eq(error, expected(s.code));
    if (error == 0) {
        expect_keys(&s, 1);
        ck_assert_int_eq(sim_revision(s.etcd), revision + 1);
        ck_assert_int_eq(etcdlock_mutex_unlock(s.mutex), 0);
    }
    expect_keys(&s, 0);
    expect_usable(&s);
    tear_down(&s);
}
END_TEST

/* (B35) The transaction that deletes: the entry is gone after one delete, if not by this request then by a
 * later one; never is more deleted. */
START_TEST(leave)
{
    stage s = set_up_session(_i, NULL);
    ck_assert_int_eq(etcdlock_mutex_lock(s.mutex), 0);
    int64_t revision = sim_revision(s.etcd);
    spoil_next(&s);
    ck_assert_int_eq(etcdlock_mutex_unlock(s.mutex), expected(s.code));
    expect_keys(&s, 0);
    ck_assert_int_eq(sim_revision(s.etcd), revision + 1);
    expect_usable(&s);
    tear_down(&s);
}
END_TEST

/* (B35) The grant: one lease, used, or an error and none left. */
START_TEST(grant)
{
    stage s = set_up(_i, NULL);
    spoil_next(&s);
    int error = open_session(&s);
    ck_assert_int_eq(error, expected(s.code));
    if (error) {
        ck_assert_ptr_null(s.session);
        expect_leases(&s, 0);
        ck_assert_int_eq(open_session(&s), 0);
    }
    expect_leases(&s, 1);
    ck_assert_int_eq(etcdlock_mutex_new(&s.mutex, s.session, "a", NULL), 0);
    expect_usable(&s);
    tear_down(&s);
}
END_TEST

/* (B35) The revocation: the lease is gone, or the caller hears that this is not known. */
START_TEST(revoke)
{
    stage s = set_up_session(_i, NULL);
    int error = expected(s.code);
    spoil_next(&s);
    ck_assert_int_eq(etcdlock_session_close(s.session), error ? ETCDLOCK_EUNKNOWN : 0);
    s.session = NULL;
    expect_leases(&s, error && !s.is_served);
    if (error && !s.is_served) {
        sim_heal(s.etcd);
        ck_assert_int_eq(etcdlock_mutex_destroy(s.mutex), 0);
        ck_assert_int_eq(etcdlock_client_close(s.client), 0);
        sim_free(s.etcd);
        return;
    }
    tear_down(&s);
}
END_TEST

/* (B35) A refused token, carried out all the same or not, is replaced once, and the request asked again. */
START_TEST(token_refused)
{
    stage s = set_up_session(RUNS - 2 + _i, "u");
    ck_assert_int_eq(s.code, EL_UNAUTHENTICATED);
    int64_t revision = sim_revision(s.etcd);
    spoil_next(&s);
    ck_assert_int_eq(etcdlock_mutex_lock(s.mutex), 0);
    ck_assert_int_eq(sim_revision(s.etcd), revision + 1);
    spoil_next(&s);
    ck_assert_int_eq(etcdlock_mutex_unlock(s.mutex), 0);
    ck_assert_int_eq(sim_revision(s.etcd), revision + 2);
    spoil_next(&s);
    tear_down(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("outcome_fault");
    TCase *all = tcase_create("outcome_fault");
    tcase_set_timeout(all, 30);
    tcase_add_loop_test(all, enter, 0, RUNS);
    tcase_add_loop_test(all, try_to_enter, 0, RUNS);
    tcase_add_loop_test(all, leave, 0, RUNS);
    tcase_add_loop_test(all, grant, 0, RUNS);
    tcase_add_loop_test(all, revoke, 0, RUNS);
    tcase_add_loop_test(all, token_refused, 0, 2);
    suite_add_tcase(suite, all);
    return runner_run(suite);
}
