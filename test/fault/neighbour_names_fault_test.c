/* Locks whose names are neighbours in etcd's order of keys, and keys that lie between them: none is taken for
 * an entry of another. test/live/names_test.c has the refused names and the strays in a lock's folder. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"

enum { NAMES_MAX_HERE = 24, LONGEST = 1024 };

/* What follows the namespace. '.' is before '/', '0' behind it; 0xFF has no successor. */
static const char *const parts[] = {
    "a",    "a.",    "a0",       "a/b", "a/b/c", "ab",  "a-", "a\xff", "a\xff\xff",
    "\xff", "\xff/", "\xff\xff", "%",   "%s",    "%2f", " ",  "a ",    "\xc3\xa4/\xe2\x82\xac",
    "\x01", "\n",
};
enum { PARTS = sizeof parts / sizeof *parts };

static etcdlock_client *open_in(const char *prefix)
{
    etcdlock_client_options options = live_options();
    etcdlock_client *client;
    options.key_prefix = prefix;
    ck_assert_int_eq(etcdlock_client_open(&client, &options), 0);
    return client;
}

/* A client whose namespace the names stand in alone, so that some have a single byte. */
static party open_in_namespace(const char *prefix)
{
    party p = {.client = open_in(prefix)};
    p.session = party_session(&p, 0);
    return p;
}

/* The names that are allowed, and the longest there is; returns how many. */
static int make_all(const party *p, etcdlock_mutex **mutexes)
{
    static char longest[LONGEST + 1];
    int n = 0;
    memset(longest, '\xff', LONGEST);
    for (int i = 0; i < PARTS; i++) {
        int error = etcdlock_mutex_new(&mutexes[n], p->session, parts[i], NULL);
        if (parts[i][strlen(parts[i]) - 1] == '/') {
            ck_assert_int_eq(error, EINVAL);
        } else {
            ck_assert_msg(error == 0, "part %d: %s", i, etcdlock_error_message());
            n++;
        }
    }
    mutexes[n++] = party_mutex(p, longest, 0);
    return n;
}

static void destroy_all(etcdlock_mutex **mutexes, int n)
{
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(etcdlock_mutex_destroy(mutexes[i]), 0);
}

static void end(party *p)
{
    ck_assert_int_eq(etcdlock_session_close(p->session), 0);
    ck_assert_int_eq(etcdlock_client_close(p->client), 0);
}

/* All are locked one after the other while the others are held, by lock and by trylock; each one excludes its
 * own waiter and lets no other in when it is left (B14). */
START_TEST(all_at_once)
{
    const char *prefix = live_name("/");
    party p = open_in_namespace(prefix), other = open_in_namespace(prefix);
    etcdlock_mutex *mine[NAMES_MAX_HERE], *theirs[NAMES_MAX_HERE];
    static caller waiters[NAMES_MAX_HERE];
    int n = make_all(&p, mine);
    ck_assert_int_eq(make_all(&other, theirs), n);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(i % 2 ? etcdlock_mutex_trylock(mine[i]) : etcdlock_mutex_lock_for(mine[i], 5000), 0);
        ck_assert_int_eq(etcdlock_mutex_trylock(theirs[i]), EBUSY);
        caller_start(&waiters[i], theirs[i], -1);
    }
    for (int i = 0; i < n; i++)
        ck_assert_msg(!caller_is_done(&waiters[i], i == 0 ? 500 : 0), "waiter %d did not wait", i);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(etcdlock_mutex_unlock(mine[i]), 0);
        ck_assert_msg(caller_result(&waiters[i], 5000) == 0, "waiter %d: %d", i, waiters[i].result);
        for (int later = i + 1; later < n; later++)
            ck_assert_msg(!caller_is_done(&waiters[later], 0), "%d left and %d came in", i, later);
    }
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(caller_end(&waiters[i]), 0);
    destroy_all(mine, n);
    destroy_all(theirs, n);
    end(&p);
    end(&other);
}
END_TEST

/* Keys right before and behind a lock's folder, named like the lock itself, and below entries, block nobody,
 * whenever they come; nor do they count as entries (B14). */
START_TEST(keys_between)
{
    static const char *const tails[] = {"",           "/stray",     "0",    ".",        "/",
                                        "0/694d0123", "//694d0123", "\xff", "/\xff\xff"};
    enum { TAILS = sizeof tails / sizeof *tails };
    const char *name = live_name("a");
    party p = party_open(name, 0), other = party_open(name, 0);
    etcdlock_queue *queue;
    char key[256];
    for (int round = 0; round < 2; round++) {
        caller waiter;
        /* In the first round they come between the holder and the waiter, in the second before both. */
        ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), 0);
        for (int i = 0; i < TAILS; i++) {
            snprintf(key, sizeof key, "%s%s", name, tails[i]);
            etcdctl("put", key, "x", NULL);
        }
        ck_assert_int_eq(etcdlock_mutex_trylock(other.mutex), EBUSY);
        caller_start(&waiter, other.mutex, -1);
        party_await_queue(&p, name, 2);
        ck_assert(!caller_is_done(&waiter, 200));
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
        ck_assert_int_eq(caller_result(&waiter, 5000), 0);
        ck_assert_int_eq(caller_end(&waiter), 0);
        ck_assert_int_eq(etcdlock_queue_get(&queue, p.client, name), 0);
        ck_assert_uint_eq(etcdlock_queue_contenders(queue), 0);
        etcdlock_queue_free(queue);
    }
    etcdctl("del", "--prefix", name, NULL);
    party_close(&p);
    party_close(&other);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("neighbour_names", &cases, 60);
    tcase_add_test(cases, all_at_once);
    tcase_add_test(cases, keys_between);
    return live_run(suite);
}
