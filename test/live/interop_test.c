/* `etcdctl lock` and we in one queue: exclusion both ways, and the order of a mixed queue. */
#include <errno.h>
#include <string.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"

/* etcdctl holds: trylock is EBUSY, lock waits, and gets in when etcdctl has gone. */
START_TEST(etcdctl_first)
{
    const char *name = live_name("a");
    party p = party_open(name, 0);
    etcdctl_holder holder;
    caller waiter;
    etcdlock_queue *queue;
    etcdctl_lock(&holder, name);
    ck_assert(etcdctl_holds(&holder, 10000));
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), EBUSY);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 200), ETIMEDOUT);
    caller_start(&waiter, p.mutex, -1);
    party_await_queue(&p, name, 2);
    ck_assert_int_eq(etcdlock_queue_get(&queue, p.client, name), 0);
    ck_assert_str_eq(etcdlock_queue_at(queue, 0)->key, holder.key);
    ck_assert_int_eq(etcdlock_queue_at(queue, 0)->kind, ETCDLOCK_ENTRY_CONTENDER);
    ck_assert_int_ne(etcdlock_queue_at(queue, 0)->lease, 0);
    ck_assert_str_eq(etcdlock_queue_at(queue, 0)->program, "");
    etcdlock_queue_free(queue);
    ck_assert(!caller_is_done(&waiter, 200));
    etcdctl_unlock(&holder);
    ck_assert_int_eq(caller_result(&waiter, 5000), 0);
    ck_assert_int_eq(caller_end(&waiter), 0);
    party_close(&p);
}
END_TEST

/* We hold: etcdctl waits until we unlock. */
START_TEST(we_first)
{
    const char *name = live_name("a");
    party p = party_open(name, 0);
    etcdctl_holder holder;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    etcdctl_lock(&holder, name);
    party_await_queue(&p, name, 2);
    ck_assert(!etcdctl_holds(&holder, 300));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert(etcdctl_holds(&holder, 5000));
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), EBUSY);
    etcdctl_unlock(&holder);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 5000), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

/* In a queue of ours and theirs by turns everybody gets in by place, alone. */
START_TEST(mixed_queue)
{
    enum { PAIRS = 3 };
    const char *name = live_name("a");
    party p = party_open(name, 0), ours[PAIRS];
    caller callers[PAIRS];
    etcdctl_holder theirs[PAIRS];
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    for (int i = 0; i < PAIRS; i++) {
        etcdctl_lock(&theirs[i], name);
        party_await_queue(&p, name, (size_t)(2 * i) + 2);
        ours[i] = party_open(name, 0);
        caller_start(&callers[i], ours[i].mutex, -1);
        party_await_queue(&p, name, (size_t)(2 * i) + 3);
    }
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    for (int i = 0; i < PAIRS; i++) {
        ck_assert(etcdctl_holds(&theirs[i], 5000));
        ck_assert(!caller_is_done(&callers[i], 50));
        etcdctl_unlock(&theirs[i]);
        ck_assert_int_eq(caller_result(&callers[i], 5000), 0);
        if (i + 1 < PAIRS) ck_assert(!etcdctl_holds(&theirs[i + 1], 50));
        ck_assert_int_eq(caller_end(&callers[i]), 0);
    }
    for (int i = 0; i < PAIRS; i++)
        party_close(&ours[i]);
    party_close(&p);
}
END_TEST

/* A client with a namespace meets etcdctl under the whole name. */
START_TEST(namespace)
{
    etcdlock_client_options options = live_options();
    party p;
    etcdctl_holder holder;
    options.key_prefix = live_name("prod/");
    ck_assert_int_eq(etcdlock_client_open(&p.client, &options), 0);
    p.session = party_session(&p, 0);
    p.mutex = party_mutex(&p, "a", 0);
    etcdctl_lock(&holder, live_name("prod/a"));
    ck_assert(etcdctl_holds(&holder, 10000));
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), EBUSY);
    etcdctl_unlock(&holder);
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("interop", &cases, 40);
    tcase_add_test(cases, etcdctl_first);
    tcase_add_test(cases, we_first);
    tcase_add_test(cases, mixed_queue);
    tcase_add_test(cases, namespace);
    return live_run(suite);
}
