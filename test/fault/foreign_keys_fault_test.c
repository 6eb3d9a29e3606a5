/* Keys that others write into the queue of a lock: over an entry, which takes its lease away, or of their
 * own, which nobody removes. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "support/caller.h"
#include "support/child.h"
#include "support/etcdctl.h"
#include "support/gateway.h"
#include "support/live.h"

enum { TTL_S = 2 };

static void hold(child *parent, void *name)
{
    party p = party_open(name, TTL_S);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    child_send(parent, (int64_t)etcdlock_mutex_token(p.mutex));
    child_receive(parent);
}

static void kill_child(child *c)
{
    ck_assert_int_eq(kill(c->pid, SIGKILL), 0);
    ck_assert_int_eq(child_status(c), SIGKILL);
}

/* The one entry of a queue. */
static etcdctl_key only_key(const char *name)
{
    etcdctl_key keys[2];
    ck_assert_uint_eq(etcdctl_keys(name, keys, 2), 1);
    return keys[0];
}

/* Whatever the library is told to write into its entry, the entry keeps its lease and is written once: the
 * holder killed, the lock is free with its lease (B41). */
START_TEST(own_writes)
{
    const char *name = live_name("a");
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    etcdlock_mutex *mutex;
    child c;
    child_start(&c, hold, (void *)(uintptr_t)name);
    party p = party_open(name, 0), labelled = party_open(name, 0);
    options.label = "who";
    ck_assert_int_eq(etcdlock_mutex_new(&mutex, labelled.session, name, &options), 0);
    child_receive(&c);
    kill_child(&c);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, (TTL_S + 4) * 1000), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_ensure(mutex, 5000), 0);
    etcdctl_key key = only_key(name);
    ck_assert_int_eq(key.lease, etcdlock_session_lease(labelled.session));
    ck_assert_int_eq(key.mod_revision, key.create_revision);
    ck_assert_uint_eq((uint64_t)key.create_revision, etcdlock_mutex_token(mutex));
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(mutex), 0);
    party_close(&p);
    party_close(&labelled);
}
END_TEST

/* Somebody writes over the holder's entry, and it loses its lease: the holder still holds with its token, the
 * others still wait, and unlock lets them in (B41). */
START_TEST(holder_overwritten)
{
    const char *name = live_name("a");
    party p = party_open(name, TTL_S), other = party_open(name, 0);
    caller waiter;
    char key[256];
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&p, name, 2);
    ck_assert_int_eq(etcdlock_mutex_key(p.mutex, key, sizeof key), 0);
    etcdctl("put", key, "x", NULL);
    ck_assert(!caller_is_done(&waiter, TTL_S * 1000 + 500));
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), token);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 500), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, 5000), 0);
    ck_assert_uint_gt(waiter.token, token);
    ck_assert_int_eq(caller_end(&waiter), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* The same with a waiter's entry: it waits on, gets its turn, and leaves nothing (B41). */
START_TEST(waiter_overwritten)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, TTL_S), last = party_open(name, 0);
    caller waiter, behind;
    etcdctl_key keys[3];
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&p, name, 2);
    caller_start(&behind, last.mutex, -1);
    party_await_queue(&p, name, 3);
    ck_assert_uint_eq(etcdctl_keys(name, keys, 3), 3);
    etcdctl("put", keys[1].key, "x", NULL);
    ck_assert(!caller_is_done(&waiter, TTL_S * 1000 + 500));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, 5000), 0);
    ck_assert_int_eq((int64_t)waiter.token, keys[1].create_revision);
    ck_assert(!caller_is_done(&behind, 300));
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_eq(caller_result(&behind, 5000), 0);
    ck_assert_int_eq(caller_end(&behind), 0);
    party_close(&p);
    party_close(&other);
    party_close(&last);
}
END_TEST

/* The first entry of the queue, as somebody who waits would report it. */
static void expect_head_without_lease(const party *p, const char *name, const char *key)
{
    etcdlock_queue *queue;
    ck_assert_int_eq(etcdlock_queue_get(&queue, p->client, name), 0);
    const etcdlock_entry *first = etcdlock_queue_at(queue, 0);
    ck_assert_ptr_nonnull(first);
    ck_assert_int_eq(first->kind, ETCDLOCK_ENTRY_CONTENDER);
    ck_assert_int_eq(first->lease, 0);
    ck_assert_str_eq(first->key, key);
    etcdlock_queue_free(queue);
}

/* The holder's entry has lost its lease and the holder is killed: nothing is there any more that would end
 * the entry. Waits end at their deadline, the query names it, and its removal lets the next in (B41). */
START_TEST(overwritten_holder_killed)
{
    const char *name = live_name("a");
    child c;
    child_start(&c, hold, (void *)(uintptr_t)name);
    child_receive(&c);
    party p = party_open(name, 0);
    etcdctl_key key = only_key(name);
    etcdctl("put", key.key, "x", NULL);
    kill_child(&c);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, TTL_S * 1000 + 2000), ETIMEDOUT);
    expect_head_without_lease(&p, name, key.key);
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), EBUSY);
    etcdctl("del", key.key, NULL);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 5000), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

/* Junk below the lock's name, before and amid a queue of three: all three pass in order (B42). */
START_TEST(junk)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), others[2] = {party_open(name, 0), party_open(name, 0)};
    caller waiters[2];
    gateway_put(live_name("a/junk"), "x", 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    for (int i = 0; i < 2; i++) {
        char key[256];
        snprintf(key, sizeof key, "%s/junk-%d", name, i);
        gateway_put(key, "x", 0);
        caller_start(&waiters[i], others[i].mutex, -1);
        party_await_queue(&p, name, (size_t)i + 2);
    }
    gateway_put(live_name("a/junk"), "again", 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiters[0], 5000), 0);
    ck_assert(!caller_is_done(&waiters[1], 300));
    gateway_delete(live_name("a/junk"));
    ck_assert_int_eq(caller_end(&waiters[0]), 0);
    ck_assert_int_eq(caller_result(&waiters[1], 5000), 0);
    ck_assert_int_eq(caller_end(&waiters[1]), 0);
    etcdctl("del", "--prefix", live_name("a/junk"), NULL);
    party_close(&p);
    for (int i = 0; i < 2; i++)
        party_close(&others[i]);
}
END_TEST

static int64_t cpu_ms(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

/* An entry of the right shape that never goes away, at the head of three: the timed waits end at their time,
 * the query names it, and neither the program nor etcd has work with it meanwhile (B42). */
START_TEST(immortal_head)
{
    enum { WAITERS = 3, LIMIT_MS = 3000, SETTLED_MS = 500 };
    const char *name = live_name("a"), *key = live_name("a/694d0123");
    party parties[WAITERS];
    caller waiters[WAITERS];
    gateway_put(key, "x", 0);
    for (int i = 0; i < WAITERS; i++)
        parties[i] = party_open(name, 60); /* hardly a renewal falls into the time */
    int64_t began_ms = live_now_ms();
    for (int i = 0; i < WAITERS; i++)
        caller_start(&waiters[i], parties[i].mutex, LIMIT_MS);
    party_await_queue(&parties[0], name, WAITERS + 1);
    ck_assert(!caller_is_done(&waiters[0], SETTLED_MS)); /* the watches are in place */
    double requests = gateway_metric("grpc_server_handled_total");
    int64_t used_ms = cpu_ms();
    ck_assert(!caller_is_done(&waiters[0], LIMIT_MS - SETTLED_MS - 500));
    used_ms = cpu_ms() - used_ms;
    requests = gateway_metric("grpc_server_handled_total") - requests;
    printf("3 waiters behind an immortal entry for 2 s: %lld ms of CPU, %.0f requests\n", (long long)used_ms,
           requests);
    ck_assert_int_lt(used_ms, 200);
    ck_assert_int_lt((int)requests, 12);
    for (int i = 0; i < WAITERS; i++) {
        ck_assert_int_eq(caller_result(&waiters[i], 10000), ETIMEDOUT);
        ck_assert_int_ge(waiters[i].returned_ms - began_ms, LIMIT_MS);
    }
    live_within(began_ms, LIMIT_MS + 500);
    expect_head_without_lease(&parties[0], name, key);
    ck_assert_uint_eq(gateway_count(name), 1);
    gateway_delete(key);
    for (int i = 0; i < WAITERS; i++) {
        caller_end(&waiters[i]);
        party_close(&parties[i]);
    }
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("foreign_keys", &cases, 60);
    tcase_add_test(cases, own_writes);
    tcase_add_test(cases, holder_overwritten);
    tcase_add_test(cases, waiter_overwritten);
    tcase_add_test(cases, overwritten_holder_killed);
    tcase_add_test(cases, junk);
    tcase_add_test(cases, immortal_head);
    return live_run(suite);
}
