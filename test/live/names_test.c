/* Names and namespaces: which names there are, what is a lock of its own, and what counts in a queue. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"

/* Names that are refused, with nothing made; what is allowed is exact to the byte. */
START_TEST(refused)
{
    static char long_name[1026];
    static const char *const names[] = {"", "/", "/a", "a/", "a//b", "//", long_name};
    party p = party_open(live_name("a"), 0);
    etcdlock_mutex_t drop_in;
    etcdlock_queue *queue;
    etcdlock_mutex *none;
    memset(long_name, 'n', 1025);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        etcdlock_mutex *mutex = p.mutex;
        ck_assert_int_eq(etcdlock_mutex_new(&mutex, p.session, names[i], NULL), EINVAL);
        ck_assert_ptr_null(mutex);
        ck_assert_int_eq(etcdlock_mutex_init(&drop_in, names[i]), EINVAL);
        ck_assert_int_eq(etcdlock_queue_get(&queue, p.client, names[i]), EINVAL);
        ck_assert_ptr_null(queue);
    }
    ck_assert_int_eq(etcdlock_mutex_new(&none, p.session, NULL, NULL), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_init(&drop_in, NULL), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_init(NULL, "a"), EINVAL);
    ck_assert_int_eq(etcdlock_queue_get(&queue, p.client, NULL), EINVAL);
    ck_assert_int_eq(etcdlock_queue_get(&queue, NULL, "a"), EINVAL);
    ck_assert_int_eq(etcdlock_queue_get(NULL, p.client, "a"), EINVAL);
    party_close(&p);
}
END_TEST

/* Any byte but NUL may stand in a name, and a name may have 1,024 bytes. */
START_TEST(odd_bytes)
{
    char every[600], longest[1025], key[2048];
    snprintf(every, sizeof every, "%s", live_prefix());
    size_t length = strlen(every);
    for (int byte = 1; byte < 256; byte++)
        every[length++] = (char)byte;
    every[length] = '\0';
    memset(longest, 'n', sizeof longest);
    memcpy(longest, live_prefix(), strlen(live_prefix()));
    longest[1024] = '\0';
    const char *names[] = {every,          longest,         live_name("\xff\xfe"),
                           live_name(" "), live_name("\n"), live_name("a/b/c")};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        party p = party_open(names[i], 0), other = party_open(names[i], 0);
        caller waiter;
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
        ck_assert_uint_eq(etcdctl_count(names[i]), 1);
        ck_assert_int_eq(etcdlock_mutex_key(p.mutex, key, sizeof key), 0);
        ck_assert_int_eq(strncmp(key, names[i], strlen(names[i])), 0);
        ck_assert_int_eq(etcdlock_mutex_trylock(other.mutex), EBUSY);
        caller_start(&waiter, other.mutex, -1);
        party_await_queue(&p, names[i], 2);
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
        ck_assert_int_eq(caller_result(&waiter, 5000), 0);
        ck_assert_int_eq(caller_end(&waiter), 0);
        party_close(&p);
        party_close(&other);
    }
}
END_TEST

/* Names that begin alike are separate locks: all can be held at once, in either order, and each excludes. */
START_TEST(separate)
{
    const char *parts[] = {"a", "a/b", "ab", "a/b/c", "a0", "a-", "a/r-1", "a/1-x"};
    enum { N = sizeof parts / sizeof *parts };
    party p = party_open(live_name("a"), 0), other = party_open(live_name("a"), 0);
    etcdlock_mutex *mine[N], *theirs[N];
    for (int i = 0; i < N; i++) {
        mine[i] = party_mutex(&p, live_name(parts[i]), 0);
        theirs[i] = party_mutex(&other, live_name(parts[i]), 0);
    }
    for (int round = 0; round < 4; round++) {
        for (int n = 0; n < N; n++) {
            int i = round % 2 ? N - 1 - n : n;
            ck_assert_int_eq(
                round < 2 ? etcdlock_mutex_lock_for(mine[i], 5000) : etcdlock_mutex_trylock(mine[i]), 0);
            ck_assert_int_eq(etcdlock_mutex_trylock(theirs[i]), EBUSY);
        }
        for (int i = 0; i < N; i++)
            ck_assert_int_eq(etcdlock_mutex_unlock(mine[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(etcdlock_mutex_destroy(mine[i]), 0);
        ck_assert_int_eq(etcdlock_mutex_destroy(theirs[i]), 0);
    }
    party_close(&p);
    party_close(&other);
}
END_TEST

static void put(const char *name, const char *entry, int64_t lease)
{
    char key[512], option[40];
    snprintf(key, sizeof key, "%s/%s", name, entry);
    snprintf(option, sizeof option, "--lease=%llx", (unsigned long long)lease);
    etcdctl("put", option, key, "someone else's", NULL);
}

static void delete_all(const char *name)
{
    etcdctl("del", "--prefix", name, NULL);
}

/* Keys under the lock's folder that are no entries of a lock block neither lock nor trylock. */
START_TEST(strays)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0);
    static const char *const entries[] = {"config", "b/694d8",           "r-", "xyz-1", "",
                                          "-",      "12345678901234567", "f-x"};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        put(name, entries[i], 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(other.mutex), EBUSY);
    put(name, "young", 0); /* between the holder and the waiter */
    ck_assert_int_eq(etcdlock_mutex_lock_for(other.mutex, 300), ETIMEDOUT);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock_for(other.mutex, 5000), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), 0);
    ck_assert_uint_eq(etcdctl_count(name), sizeof entries / sizeof *entries + 1);
    delete_all(name);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* A queue shows holder and waiters by place with what their values say, then the strays. */
START_TEST(snapshot)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0);
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    etcdlock_mutex *labelled;
    etcdlock_queue *queue;
    caller waiter;
    options.label = "the \"second\" \xc3\xa4";
    ck_assert_int_eq(etcdlock_mutex_new(&labelled, other.session, name, &options), 0);
    put(name, "config", 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    caller_start(&waiter, labelled, -1);
    party_await_queue(&p, name, 2);
    put(name, "694d0123", 0); /* a contender that never goes away by itself */
    ck_assert_int_eq(etcdlock_queue_get(&queue, other.client, name), 0);
    ck_assert_uint_eq(etcdlock_queue_size(queue), 4);
    ck_assert_uint_eq(etcdlock_queue_contenders(queue), 3);
    ck_assert_uint_eq(etcdlock_queue_revision(queue), (uint64_t)etcdctl_revision());
    const etcdlock_entry *first = etcdlock_queue_at(queue, 0), *second = etcdlock_queue_at(queue, 1);
    const etcdlock_entry *third = etcdlock_queue_at(queue, 2), *last = etcdlock_queue_at(queue, 3);
    ck_assert_ptr_null(etcdlock_queue_at(queue, 4));
    ck_assert_int_eq(first->kind, ETCDLOCK_ENTRY_CONTENDER);
    ck_assert_uint_eq(first->create_revision, etcdlock_mutex_token(p.mutex));
    ck_assert_int_eq(first->lease, etcdlock_session_lease(p.session));
    ck_assert_int_eq(first->pid, getpid());
    ck_assert_int_eq(first->thread, gettid());
    ck_assert_str_eq(first->program, "names_test");
    ck_assert_str_ne(first->host, "");
    ck_assert_uint_eq(strlen(first->acquisition), 16);
    ck_assert_str_ne(first->acquisition, second->acquisition);
    ck_assert_int_lt(llabs(time(NULL) * 1000LL - first->since_unix_ms), 20000);
    ck_assert_str_eq(second->label, options.label);
    ck_assert_uint_gt(second->create_revision, first->create_revision);
    ck_assert_uint_eq(strlen(second->key), second->key_size);
    ck_assert_int_eq(third->lease, 0);
    ck_assert_int_eq(third->kind, ETCDLOCK_ENTRY_CONTENDER);
    ck_assert_str_eq(third->host, "");
    ck_assert_int_eq(last->kind, ETCDLOCK_ENTRY_STRAY);
    etcdlock_queue_free(queue);
    etcdlock_queue_free(NULL);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, 5000), 0);
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(labelled), 0);
    delete_all(name);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* A contender without a lease holds like any other, until an operator removes it. */
START_TEST(holder_without_lease)
{
    const char *name = live_name("a");
    party p = party_open(name, 0);
    caller waiter;
    put(name, "694d0123", 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), EBUSY);
    caller_start(&waiter, p.mutex, -1);
    party_await_queue(&p, name, 2);
    ck_assert(!caller_is_done(&waiter, 200));
    etcdctl("del", live_name("a/694d0123"), NULL);
    ck_assert_int_eq(caller_result(&waiter, 5000), 0);
    ck_assert_int_eq(caller_end(&waiter), 0);
    party_close(&p);
}
END_TEST

/* A foreign holder's lease that is not renewed lets us in when it expires. */
START_TEST(foreign_lease_expires)
{
    const char *name = live_name("a");
    party p = party_open(name, 0);
    int64_t began_ms = live_now_ms();
    put(name, "694d0123", etcdctl_grant(2));
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 10000), 0);
    ck_assert_int_ge(live_now_ms() - began_ms, 2000);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

static party open_prefixed(const char *prefix, const char *name)
{
    etcdlock_client_options options = live_options();
    party p;
    options.key_prefix = prefix;
    ck_assert_int_eq(etcdlock_client_open(&p.client, &options), 0);
    p.session = party_session(&p, 0);
    p.mutex = party_mutex(&p, name, 0);
    return p;
}

/* A prefix is put before every key as it is: the same name is another lock, and the whole name the same. */
START_TEST(namespaces)
{
    const char *staging = live_name("staging/"), *prod = live_name("prod/");
    party a = open_prefixed(staging, "a"), b = open_prefixed(prod, "a"),
          whole = party_open(live_name("prod/a"), 0);
    char key[256];
    etcdlock_queue *queue;
    ck_assert_int_eq(etcdlock_mutex_trylock(a.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(b.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(whole.mutex), EBUSY);
    ck_assert_int_eq(etcdlock_mutex_key(b.mutex, key, sizeof key), 0);
    ck_assert_int_eq(strncmp(key, prod, strlen(prod)), 0);
    ck_assert_uint_eq(etcdctl_count(prod), 1);
    ck_assert_int_eq(etcdlock_queue_get(&queue, b.client, "a"), 0);
    ck_assert_uint_eq(etcdlock_queue_contenders(queue), 1);
    ck_assert_str_eq(etcdlock_queue_at(queue, 0)->key, key);
    etcdlock_queue_free(queue);
    ck_assert_int_eq(etcdlock_mutex_unlock(b.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(whole.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(b.mutex), EBUSY);
    ck_assert_int_eq(etcdlock_mutex_unlock(whole.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(a.mutex), 0);
    party_close(&a);
    party_close(&b);
    party_close(&whole);
}
END_TEST

/* The queue of a name that was never used is empty. */
START_TEST(empty_queue)
{
    party p = party_open(live_name("a"), 0);
    etcdlock_queue *queue;
    ck_assert_int_eq(etcdlock_queue_get(&queue, p.client, live_name("a")), 0);
    ck_assert_uint_eq(etcdlock_queue_size(queue), 0);
    ck_assert_uint_eq(etcdlock_queue_contenders(queue), 0);
    ck_assert_ptr_null(etcdlock_queue_at(queue, 0));
    etcdlock_queue_free(queue);
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("names", &cases, 30);
    tcase_add_test(cases, refused);
    tcase_add_test(cases, odd_bytes);
    tcase_add_test(cases, separate);
    tcase_add_test(cases, strays);
    tcase_add_test(cases, snapshot);
    tcase_add_test(cases, holder_without_lease);
    tcase_add_test(cases, foreign_lease_expires);
    tcase_add_test(cases, namespaces);
    tcase_add_test(cases, empty_queue);
    return live_run(suite);
}
