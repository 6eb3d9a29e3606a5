/* Guarded writes whose answers are lost or whose requests arrive late: each is applied once or not at all, in
 * order, and never after the lock was lost. */
/* cluster: 1 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "support/etcdctl.h"
#include "support/live.h"
#include "support/loss.h"
#include "support/proxy.h"
#include "support/through.h"
#include "support/written.h"

static proxy px, second; /* two ways to the one etcd */

static void begin(void)
{
    proxy_start(&px, live_endpoint(0));
    proxy_start(&second, live_endpoint(0));
}

static void finish(void)
{
    proxy_stop(&px);
    proxy_stop(&second);
}

static party open_by_both_ways(const char *name)
{
    char endpoints[160];
    snprintf(endpoints, sizeof endpoints, "%s,%s", proxy_endpoint(&px), proxy_endpoint(&second));
    return party_through(endpoints, name, 30, 0);
}

/* The way that the party uses, as one more write shows: the other one carries no more than pings meanwhile.
 */
static proxy *way_of(const party *p, const char *key)
{
    uint64_t first = proxy_bytes(&px, PROXY_TO_SERVER), other = proxy_bytes(&second, PROXY_TO_SERVER);
    ck_assert_int_eq(put_text(p->mutex, key, "which way"), 0);
    first = proxy_bytes(&px, PROXY_TO_SERVER) - first;
    other = proxy_bytes(&second, PROXY_TO_SERVER) - other;
    return first > other ? &px : &second;
}

typedef struct writer {
    pthread_t thread;
    etcdlock_mutex *mutex;
    const char *key;
    bool is_delete;
    int result;
} writer;

static void *write_once(void *arg)
{
    writer *w = arg;
    w->result = w->is_delete ? etcdlock_mutex_delete(w->mutex, w->key) : put_text(w->mutex, w->key, "x");
    return NULL;
}

static void writer_start(writer *w, etcdlock_mutex *mutex, const char *key, bool is_delete)
{
    *w = (writer){.mutex = mutex, .key = key, .is_delete = is_delete};
    ck_assert_int_eq(pthread_create(&w->thread, NULL, write_once, w), 0);
}

static int writer_end(writer *w)
{
    ck_assert_int_eq(pthread_join(w->thread, NULL), 0);
    return w->result;
}

static bool has_changed(void *arg)
{
    return etcdctl_revision() != *(int64_t *)arg;
}

/* The answer to a write is lost after etcd has carried it out: the caller is told that it is done, and it was
 * done once; so for a delete, of which the repetition alone could not tell that there was a key. */
START_TEST(answer_lost)
{
    const char *key = live_name("data");
    party p = party_through(proxy_endpoint(&px), live_name("a"), 30, 0);
    etcdlock_mutex *mutex = party_mutex(&p, live_name("b"), ETCDLOCK_HANDLE_OWNED);
    writer w;
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
    for (int is_delete = 0; is_delete < 2; is_delete++) {
        int64_t before = etcdctl_revision();
        proxy_drop_replies(&px);
        writer_start(&w, mutex, key, is_delete);
        ck_assert(live_wait_until(has_changed, &before, 5000));
        ck_assert_uint_eq(etcdctl_count(key), (size_t)!is_delete);
        proxy_pass(&px);
        ck_assert_int_eq(writer_end(&w), 0);
        ck_assert_int_eq(etcdctl_revision(), before + 1);
    }
    ck_assert_int_eq(etcdlock_mutex_delete(mutex, key), ENOENT);
    ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(mutex), 0);
    party_close(&p);
}
END_TEST

/* The request of a write arrives only when the same hold has repeated it by another way and written once
 * more: it changes nothing. */
START_TEST(comes_late)
{
    const char *key = live_name("data");
    party p = open_by_both_ways(live_name("a"));
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
        proxy *way = way_of(&p, key);
        proxy_hold(way, PROXY_TO_SERVER);
        ck_assert_int_eq(put_text(p.mutex, key, "first"), 0);
        ck_assert_int_eq(put_text(p.mutex, key, "second"), 0);
        uint64_t arrived = proxy_bytes(way, PROXY_TO_SERVER);
        int64_t revision = etcdctl_revision();
        proxy_pass(way);
        ck_assert_int_eq(put_text(p.mutex, live_name("other"), "x"), 0);
        poll(NULL, 0, 200);
        ck_assert_uint_gt(proxy_bytes(way, PROXY_TO_SERVER), arrived + 100);
        expect_stored(key, "second");
        /* A refused transaction reads, and moves nothing. */
        ck_assert_int_eq(etcdctl_revision(), revision + 1);
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    }
    etcdctl("del", "--prefix", live_prefix(), NULL);
    party_close(&p);
}
END_TEST

/* The request of a write is stuck until its session is over and the next holder has written: it is refused by
 * etcd, and its caller was not told that it was done. */
START_TEST(comes_after_the_end)
{
    const char *name = live_name("a"), *key = live_name("data");
    party p = party_through(proxy_endpoint(&px), name, 2, 0), next = party_open(name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(put_text(p.mutex, key, "old"), 0);
    uint64_t arrived = proxy_bytes(&px, PROXY_TO_SERVER);
    proxy_hold(&px, PROXY_TO_SERVER);
    int error = put_text(p.mutex, key, "late"); /* ends with the session */
    ck_assert_msg(error == ETCDLOCK_EUNKNOWN, "%d %s", error, etcdlock_error_message());
    ck_assert_int_eq(etcdlock_mutex_lock(next.mutex), 0);
    ck_assert_int_eq(put_text(next.mutex, key, "new"), 0);
    proxy_pass(&px);
    poll(NULL, 0, 500);
    ck_assert_uint_gt(proxy_bytes(&px, PROXY_TO_SERVER), arrived + 100);
    expect_stored(key, "new");
    assert_loss(put_text(p.mutex, key, "again"));
    expect_stored(key, "new");
    assert_loss(etcdlock_mutex_unlock(p.mutex));
    ck_assert_int_eq(etcdlock_mutex_delete(next.mutex, key), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(next.mutex), 0);
    party_close(&next);
    party_close_lost(&p);
}
END_TEST

/* No answer within command_timeout_ms is "unknown"; what a read shows then is final, and writing goes on. */
START_TEST(unknown_is_settled_by_a_read)
{
    const char *key = live_name("data");
    party p = party_through(proxy_endpoint(&px), live_name("a"), 30, 1000);
    etcdlock_value *value;
    for (int is_applied = 0; is_applied < 2; is_applied++) {
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
        ck_assert_int_eq(put_text(p.mutex, key, "before"), 0);
        if (is_applied) {
            proxy_drop_replies(&px);
        } else {
            proxy_drop(&px, PROXY_BOTH);
        }
        int64_t began_ms = live_now_ms();
        ck_assert_int_eq(put_text(p.mutex, key, "unknown"), ETCDLOCK_EUNKNOWN);
        live_within(began_ms, 1000);
        proxy_pass(&px);
        ck_assert_int_eq(etcdlock_mutex_get(p.mutex, key, &value), 0);
        ck_assert_str_eq(value->data, is_applied ? "unknown" : "before");
        etcdlock_value_free(value);
        int64_t revision = etcdctl_revision();
        ck_assert_int_eq(put_text(p.mutex, key, "after"), 0);
        ck_assert_int_eq(etcdctl_revision(), revision + 1);
        ck_assert_int_eq(etcdlock_mutex_delete(p.mutex, key), 0);
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    }
    party_close(&p);
}
END_TEST

static bool is_cut_off(void *arg)
{
    (void)arg;
    return proxy_connections(&px) == 0;
}

typedef struct attempt {
    etcdlock_mutex *mutex;
    const char *key;
} attempt;

static bool can_write(void *arg)
{
    const attempt *a = arg;
    return put_text(a->mutex, a->key, "x") == 0;
}

/* Nobody listens: nothing happened, and it is said so; the hold goes on when etcd is
 * back. */
START_TEST(unreachable)
{
    const char *key = live_name("data");
    party p = party_through(proxy_endpoint(&px), live_name("a"), 30, 1000);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    proxy_refuse_new(&px);
    proxy_reset(&px);
    ck_assert(live_wait_until(is_cut_off, NULL, 2000));
    int64_t before = etcdctl_revision();
    int error = put_text(p.mutex, key, "x");
    ck_assert_msg(error == ETCDLOCK_EUNREACHABLE, "%d %s", error, etcdlock_error_message());
    ck_assert_int_eq(etcdctl_revision(), before);
    proxy_pass(&px);
    attempt a = {p.mutex, key};
    ck_assert(live_wait_until(can_write, &a, 10000)); /* gRPC pauses before it connects again */
    ck_assert_int_eq(etcdlock_mutex_delete(p.mutex, key), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("guard_fault", &cases, 60);
    tcase_add_checked_fixture(cases, begin, finish);
    tcase_add_test(cases, answer_lost);
    tcase_add_test(cases, comes_late);
    tcase_add_test(cases, comes_after_the_end);
    tcase_add_test(cases, unknown_is_settled_by_a_read);
    tcase_add_test(cases, unreachable);
    return live_run(suite);
}
