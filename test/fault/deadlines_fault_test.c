/* Every function of the public API against an etcd that nobody can talk to: nobody listens, nothing gets
 * through, the member is stopped, somebody takes connections and never speaks. Each call is made in a scene
 * of its own, right after the fault, and returns within its documented bound with a documented result. */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/caller.h"
#include "support/ending.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/proxy.h"
#include "support/through.h"

enum { COMMAND_MS = 600, TTL_S = 3, LIMIT_MS = 200, CLOSE_SLACK_MS = 1000, MAX_CODES = 4 };

typedef enum fault { NOBODY_LISTENS, BLACKHOLE, STOPPED, NEVER_SPEAKS, FAULTS } fault;
static const char *const fault_names[FAULTS] = {"nobody", "blackhole", "stopped", "silent"};

/* A client with a session, one mutex that is held, one that is free, and a snapshot of a queue. */
typedef struct scene {
    proxy etcd;
    fault fault;
    party p; /* its mutex is the free one */
    etcdlock_mutex *held, *held_by_handle, *held_after_death;
    etcdlock_queue *queue;
    int64_t lease;
} scene;

typedef struct row {
    const char *function;
    int64_t bound_ms;
    int (*call)(scene *s);
    int codes[MAX_CODES]; /* what it may return; all 0: nothing but 0 */
} row;

/* ---- the scene ----------------------------------------------------------------------------------------- */

static void set_scene(scene *s, fault kind)
{
    *s = (scene){.fault = kind};
    proxy_start(&s->etcd, live_endpoint(0));
    s->p = party_through(kind == STOPPED ? live_endpoint(0) : proxy_endpoint(&s->etcd), live_name("a"), TTL_S,
                         COMMAND_MS);
    s->lease = etcdlock_session_lease(s->p.session);
    s->held = party_mutex(&s->p, live_name("b"), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(s->held), 0);
    s->held_by_handle = party_mutex(&s->p, live_name("c"), ETCDLOCK_HANDLE_OWNED);
    ck_assert_int_eq(etcdlock_mutex_lock(s->held_by_handle), 0);
    /* Nobody can read it, so it tells of a death. */
    etcdctl("put", live_name("d.robust"), "?", NULL);
    s->held_after_death = party_mutex(&s->p, live_name("d"), ETCDLOCK_ROBUST);
    ck_assert_int_eq(etcdlock_mutex_lock(s->held_after_death), EOWNERDEAD);
    ck_assert_int_eq(etcdlock_queue_get(&s->queue, s->p.client, live_name("b")), 0);
}

static void strike(scene *s)
{
    if (s->fault == STOPPED) {
        live_cluster("pause 1");
        return;
    }
    if (s->fault == NOBODY_LISTENS) {
        proxy_refuse_new(&s->etcd);
    } else {
        proxy_blackhole(&s->etcd, PROXY_BOTH);
    }
    if (s->fault != BLACKHOLE) proxy_reset(&s->etcd);
}

static void resume(void)
{
    live_cluster("resume 1");
}

/* How the handles end is not the question here: each result is right for some row. */
static void clear_scene(scene *s)
{
    if (s->fault == STOPPED) resume();
    proxy_pass(&s->etcd);
    proxy_accept_new(&s->etcd);
    proxy_reset(&s->etcd);
    if (s->p.client) (void)etcdlock_client_close(s->p.client);
    (void)etcdlock_mutex_unlock(s->held);
    (void)etcdlock_mutex_unlock(s->held_by_handle);
    (void)etcdlock_mutex_unlock(s->held_after_death);
    ck_assert_int_eq(etcdlock_mutex_destroy(s->held), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(s->held_by_handle), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(s->held_after_death), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(s->p.mutex), 0);
    if (s->p.session) (void)etcdlock_session_close(s->p.session);
    etcdlock_queue_free(s->queue);
    proxy_stop(&s->etcd);
    (void)etcdctl_revoke(s->lease);
    /* Markers outlive their locks, and a write of unknown outcome may have been done. */
    etcdctl("del", live_name("d.robust"), NULL);
    etcdctl("del", live_name("key"), NULL);
}

/* ---- the calls ----------------------------------------------------------------------------------------- */

static int client_open(scene *s)
{
    etcdlock_client_options options = live_options();
    etcdlock_client *client;
    options.endpoints = s->fault == STOPPED ? live_endpoint(0) : proxy_endpoint(&s->etcd);
    int error = etcdlock_client_open(&client, &options);
    if (!error) (void)etcdlock_client_close(client);
    return error;
}

static int client_close(scene *s)
{
    int error = etcdlock_client_close(s->p.client);
    s->p.client = NULL;
    return error;
}

static int options_resolve(scene *s)
{
    etcdlock_client_options options = live_options();
    (void)s;
    return etcdlock_client_options_resolve(&options);
}

static int texts(scene *s)
{
    (void)s;
    return etcdlock_version() && etcdlock_error_message() && etcdlock_strerror(ETCDLOCK_EUNKNOWN) ? 0 : -1;
}

static int session_open(scene *s)
{
    etcdlock_session *session;
    int error = etcdlock_session_open(&session, s->p.client, NULL);
    ck_assert_ptr_null(session);
    return error;
}

static int session_close(scene *s)
{
    int error = etcdlock_session_close(s->p.session);
    s->p.session = NULL;
    return error;
}

static int session_look(scene *s)
{
    etcdlock_session *session = s->p.session;
    bool fine = etcdlock_session_get_state(session) == ETCDLOCK_SESSION_OK &&
                etcdlock_session_remaining_ms(session) > 0 && etcdlock_session_ttl_s(session) == TTL_S &&
                etcdlock_session_lease(session) == s->lease && etcdlock_session_lost_fd(session) >= 0;
    return fine ? 0 : -1;
}

static int mutex_make(scene *s)
{
    etcdlock_mutex *mutex;
    int error = etcdlock_mutex_new(&mutex, s->p.session, live_name("a"), NULL);
    return error ? error : etcdlock_mutex_destroy(mutex);
}

static int mutex_init(scene *s)
{
    etcdlock_mutex_t mutex;
    (void)s;
    int error = etcdlock_mutex_init(&mutex, "never used");
    return error ? error : etcdlock_mutex_destroy(&mutex);
}

static int mutex_look(scene *s)
{
    char key[256];
    bool fine = etcdlock_mutex_token(s->held) > 0 && etcdlock_mutex_remaining_ms(s->held) > 0 &&
                etcdlock_mutex_key(s->held, key, sizeof key) == 0 && etcdlock_mutex_lost_fd(s->held) >= 0;
    return fine ? 0 : -1;
}

static int mutex_lock(scene *s)
{
    return etcdlock_mutex_lock(s->p.mutex);
}

static int mutex_trylock(scene *s)
{
    return etcdlock_mutex_trylock(s->p.mutex);
}

static int mutex_lock_for(scene *s)
{
    return etcdlock_mutex_lock_for(s->p.mutex, LIMIT_MS);
}

static struct timespec in_a_while(clockid_t clock)
{
    struct timespec until;
    clock_gettime(clock, &until);
    until.tv_nsec += LIMIT_MS * 1000000;
    if (until.tv_nsec < 1000000000) return until;
    until.tv_nsec -= 1000000000;
    until.tv_sec++;
    return until;
}

static int mutex_timedlock(scene *s)
{
    struct timespec until = in_a_while(CLOCK_REALTIME);
    return etcdlock_mutex_timedlock(s->p.mutex, &until);
}

static int mutex_clocklock(scene *s)
{
    struct timespec until = in_a_while(CLOCK_MONOTONIC);
    return etcdlock_mutex_clocklock(s->p.mutex, CLOCK_MONOTONIC, &until);
}

static int mutex_past_deadline(scene *s)
{
    return etcdlock_mutex_lock_for(s->p.mutex, 0);
}

static int mutex_unlock(scene *s)
{
    return etcdlock_mutex_unlock(s->held);
}

static int mutex_ensure(scene *s)
{
    return etcdlock_mutex_ensure(s->held, 1);
}

/* More than is left, and less than there can be. */
static int mutex_ensure_renewed(scene *s)
{
    return etcdlock_mutex_ensure(s->held, etcdlock_mutex_remaining_ms(s->held) + 1);
}

static int mutex_cancel(scene *s)
{
    caller waiter;
    caller_start(&waiter, s->p.mutex, -1);
    ck_assert(!caller_is_done(&waiter, 100));
    int64_t began_ms = live_now_ms();
    int error = etcdlock_mutex_cancel(s->p.mutex);
    ck_assert_int_eq(caller_result(&waiter, 5000), ECANCELED);
    live_within(began_ms, 0);
    (void)caller_end(&waiter);
    return error;
}

/* ---- asynchronous: the bound holds for the callback, and beginning takes no time ---- */

typedef int begin_function(etcdlock_mutex *mutex, etcdlock_callback *callback, void *arg);

static int await(etcdlock_mutex *mutex, begin_function *begin)
{
    end e = {0};
    int64_t began_ms = live_now_ms();
    int error = begin(mutex, end_take, &e);
    live_within(began_ms, 0);
    return error ? error : end_await(&e, 10000);
}

static int by_callback(scene *s, begin_function *begin)
{
    etcdlock_mutex *mutex = party_mutex(&s->p, live_name("a"), ETCDLOCK_HANDLE_OWNED);
    int error = await(mutex, begin);
    ck_assert_int_eq(etcdlock_mutex_destroy(mutex), 0);
    return error;
}

static int begin_lock_for(etcdlock_mutex *mutex, etcdlock_callback *callback, void *arg)
{
    return etcdlock_mutex_lock_for_async(mutex, LIMIT_MS, callback, arg);
}

static int mutex_lock_async(scene *s)
{
    return by_callback(s, etcdlock_mutex_lock_async);
}

static int mutex_trylock_async(scene *s)
{
    return by_callback(s, etcdlock_mutex_trylock_async);
}

static int mutex_lock_for_async(scene *s)
{
    return by_callback(s, begin_lock_for);
}

static int mutex_unlock_async(scene *s)
{
    return await(s->held_by_handle, etcdlock_mutex_unlock_async);
}

static int client_fd(scene *s)
{
    int fd = etcdlock_client_fd(s->p.client);
    return fd >= 0 ? etcdlock_client_dispatch(s->p.client) : -1;
}

/* ---- what a hold can do ---- */

static int mutex_put(scene *s)
{
    return etcdlock_mutex_put(s->held, live_name("key"), "x", 1);
}

static int mutex_get(scene *s)
{
    etcdlock_value *value;
    int error = etcdlock_mutex_get(s->held, live_name("key"), &value);
    ck_assert_ptr_null(value);
    etcdlock_value_free(value);
    return error;
}

static int mutex_delete(scene *s)
{
    return etcdlock_mutex_delete(s->held, live_name("key"));
}

static int mutex_txn(scene *s)
{
    etcdlock_txn txn = ETCDLOCK_TXN_INIT;
    return etcdlock_mutex_txn(s->held, &txn, NULL);
}

static int mutex_consistent(scene *s)
{
    return etcdlock_mutex_consistent(s->held_after_death);
}

static int mutex_dead_owner(scene *s)
{
    etcdlock_owner *owner;
    int error = etcdlock_mutex_dead_owner(s->held_after_death, &owner);
    etcdlock_owner_free(owner);
    return error;
}

static int queue_get(scene *s)
{
    etcdlock_queue *queue;
    int error = etcdlock_queue_get(&queue, s->p.client, live_name("b"));
    ck_assert_ptr_null(queue);
    return error;
}

static int queue_look(scene *s)
{
    bool fine = etcdlock_queue_size(s->queue) == 1 && etcdlock_queue_contenders(s->queue) == 1 &&
                etcdlock_queue_revision(s->queue) > 0 && etcdlock_queue_at(s->queue, 0) != NULL;
    etcdlock_queue_free(s->queue);
    s->queue = NULL;
    return fine ? 0 : -1;
}

/* A row may stand for several functions that do not block. */
static const row rows[] = {
    {"client_open", 0, client_open, {0}},
    {"client_close", COMMAND_MS + CLOSE_SLACK_MS, client_close, {ETCDLOCK_EUNKNOWN}},
    {"client_options_resolve", 0, options_resolve, {0}},
    {"version error_message strerror", 0, texts, {0}},
    {"session_open", COMMAND_MS, session_open, {ETCDLOCK_EUNREACHABLE, ETCDLOCK_EUNKNOWN}},
    {"session_close", COMMAND_MS, session_close, {ETCDLOCK_EUNKNOWN}},
    {"session_get_state session_remaining_ms session_ttl_s session_lease session_lost_fd",
     0,
     session_look,
     {0}},
    {"mutex_new mutex_destroy", 0, mutex_make, {0}},
    {"mutex_init", 0, mutex_init, {0}},
    {"mutex_token mutex_remaining_ms mutex_key mutex_lost_fd", 0, mutex_look, {0}},
    {"mutex_lock", TTL_S * 1000, mutex_lock, {ETCDLOCK_ESESSION}},
    {"mutex_trylock", COMMAND_MS, mutex_trylock, {ETCDLOCK_EUNREACHABLE, ETCDLOCK_EUNKNOWN}},
    {"mutex_lock_for", LIMIT_MS, mutex_lock_for, {ETIMEDOUT}},
    {"mutex_timedlock", LIMIT_MS, mutex_timedlock, {ETIMEDOUT}},
    {"mutex_clocklock", LIMIT_MS, mutex_clocklock, {ETIMEDOUT}},
    {"mutex_lock_for", COMMAND_MS, mutex_past_deadline, {ETIMEDOUT}},
    {"mutex_unlock", COMMAND_MS, mutex_unlock, {ETCDLOCK_EUNKNOWN}},
    {"mutex_ensure", 0, mutex_ensure, {0}},
    {"mutex_ensure", COMMAND_MS, mutex_ensure_renewed, {ETIMEDOUT}},
    {"mutex_cancel", 100 + 300, mutex_cancel, {0}},
    {"mutex_lock_async", TTL_S * 1000, mutex_lock_async, {ETCDLOCK_ESESSION}},
    {"mutex_trylock_async", COMMAND_MS, mutex_trylock_async, {ETCDLOCK_EUNREACHABLE, ETCDLOCK_EUNKNOWN}},
    {"mutex_lock_for_async", LIMIT_MS, mutex_lock_for_async, {ETIMEDOUT}},
    {"mutex_unlock_async", COMMAND_MS, mutex_unlock_async, {ETCDLOCK_EUNKNOWN}},
    {"client_fd client_dispatch", 0, client_fd, {0}},
    {"mutex_put", COMMAND_MS, mutex_put, {ETCDLOCK_EUNREACHABLE, ETCDLOCK_EUNKNOWN}},
    {"mutex_get value_free", COMMAND_MS, mutex_get, {ETCDLOCK_EUNREACHABLE}},
    {"mutex_delete", COMMAND_MS, mutex_delete, {ETCDLOCK_EUNREACHABLE, ETCDLOCK_EUNKNOWN}},
    {"mutex_txn", COMMAND_MS, mutex_txn, {ETCDLOCK_EUNREACHABLE, ETCDLOCK_EUNKNOWN}},
    {"mutex_consistent", COMMAND_MS, mutex_consistent, {ETCDLOCK_EUNREACHABLE, ETCDLOCK_EUNKNOWN}},
    {"mutex_dead_owner owner_free", 0, mutex_dead_owner, {0}},
    {"queue_get", COMMAND_MS, queue_get, {ETCDLOCK_EUNREACHABLE}},
    {"queue_size queue_contenders queue_revision queue_at queue_free", 0, queue_look, {0}},
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool may_return(const row *r, int result)
{
    for (int i = 0; i < MAX_CODES; i++) {
        if (r->codes[i] == result && (result || i == 0)) return true;
    }
    return false;
}

static bool are_leases_gone(void *arg)
{
    (void)arg;
    return etcdctl_count_leases() == 0 && etcdctl_count(live_prefix()) == 0;
}

/* Every function, under one of the four faults (issue: deadlines everywhere; B32, B33). */
START_TEST(every_function)
{
    static scene s;
    for (int i = 0; i < ROWS; i++) {
        set_scene(&s, (fault)_i);
        strike(&s);
        int64_t began_ms = live_now_ms();
        int result = rows[i].call(&s);
        int64_t took_ms = live_now_ms() - began_ms;
        printf("%-10s %-20.20s %5lld ms of %4lld: %d\n", fault_names[_i], rows[i].function,
               (long long)took_ms, (long long)rows[i].bound_ms, result);
        fflush(stdout); /* a failing case leaves without it */
        ck_assert_msg(may_return(&rows[i], result), "%s, %s: %d %s", fault_names[_i], rows[i].function,
                      result, result > 0 ? etcdlock_error_message() : "");
        live_within(began_ms, rows[i].bound_ms);
        clear_scene(&s);
    }
    /* What was asked of a stopped member is done when it goes on, and expires. */
    ck_assert(live_wait_until(are_leases_gone, NULL, 30000));
}
END_TEST

/* ---- no function is forgotten ------------------------------------------------------------------------- */

static bool has_row(const char *function, size_t size)
{
    for (int i = 0; i < ROWS; i++) {
        for (const char *at = rows[i].function; at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL) {
            if (strncmp(at, function, size) == 0 && (at[size] == ' ' || !at[size])) return true;
        }
    }
    return false;
}

/* Of the declarations in a header, each from the export mark to the parenthesis. Returns how many. */
static int check_header(const char *path)
{
    static char text[65536];
    static const char mark[] = "\nETCDLOCK_API ", prefix[] = "etcdlock_";
    FILE *file = fopen(path, "re");
    int n = 0;
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (const char *at = strstr(text, mark); at; at = strstr(at + 1, mark)) {
        const char *stop = strchr(at, '('), *name = stop;
        ck_assert_ptr_nonnull(stop);
        while (name > at && strchr(" *\n", name[-1]) == NULL)
            name--;
        ck_assert_int_eq(strncmp(name, prefix, sizeof prefix - 1), 0);
        name += sizeof prefix - 1;
        ck_assert_msg(has_row(name, (size_t)(stop - name)), "%.*s has no row here", (int)(stop - name), name);
        n++;
    }
    return n;
}

/* Each function that a public header declares has a row above. */
START_TEST(complete)
{
    glob_t headers;
    int n = 0;
    ck_assert_int_eq(glob("include/etcdlock/*.h", 0, NULL, &headers), 0);
    for (size_t i = 0; i < headers.gl_pathc; i++)
        if (!strstr(headers.gl_pathv[i], "/fence.h")) /* a library of its own, which knows no etcd */
            n += check_header(headers.gl_pathv[i]);
    globfree(&headers);
    ck_assert_int_gt(n, 30);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("deadlines", &cases, 120);
    tcase_add_unchecked_fixture(cases, NULL, resume); /* also after a case that failed */
    tcase_add_loop_test(cases, every_function, 0, FAULTS);
    TCase *others = tcase_create("others");
    tcase_set_timeout(others, 60);
    tcase_add_test(others, complete);
    suite_add_tcase(suite, others);
    return live_run(suite);
}
