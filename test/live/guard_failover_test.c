/* Guarded writes to three members of which one after the other dies: no write is lost, none is applied twice,
 * and their order is that of the calls. */
/* cluster: 3 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/etcdctl.h"
#include "support/live.h"

static void command(const char *verb, int member)
{
    char line[80];
    snprintf(line, sizeof line, "%s %d", verb, member);
    live_cluster(line);
}

/* After a case that failed, too. */
static void mend(void)
{
    for (int member = 1; member <= 3; member++) {
        char line[80];
        snprintf(line, sizeof line, "restart %d >/dev/null 2>&1 || true", member);
        live_cluster(line);
    }
}

/* Adds one to the number in a key, by a comparison with what was read, until it is told to stop. */
typedef struct counter {
    pthread_t thread;
    etcdlock_mutex *mutex;
    const char *key;
    atomic_bool may_stop;
    atomic_int done; /* additions that were told to be done */
    int unknown;     /* answered by nobody */
    int odd;         /* another error, or a comparison that did not hold */
} counter;

static uint64_t read_number(counter *c, long *number)
{
    etcdlock_value *value;
    int error = etcdlock_mutex_get(c->mutex, c->key, &value);
    *number = 0;
    if (error == ENOENT) return 0;
    if (error) return UINT64_MAX;
    uint64_t revision = value->mod_revision;
    *number = atol(value->data);
    etcdlock_value_free(value);
    return revision;
}

static void add_one(counter *c)
{
    char text[24];
    long number;
    uint64_t revision = read_number(c, &number);
    if (revision == UINT64_MAX) return;
    snprintf(text, sizeof text, "%ld", number + 1);
    etcdlock_compare compare = {.kind = ETCDLOCK_MOD_REVISION_IS, .key = c->key, .mod_revision = revision};
    etcdlock_operation put = {.kind = ETCDLOCK_PUT, .key = c->key, .value = text, .value_size = strlen(text)};
    etcdlock_txn txn = ETCDLOCK_TXN_INIT;
    etcdlock_txn_result result = ETCDLOCK_TXN_RESULT_INIT;
    txn.compares = &compare;
    txn.success = &put;
    txn.n_compares = txn.n_success = 1;
    int error = etcdlock_mutex_txn(c->mutex, &txn, &result);
    if (error == 0 && result.succeeded)
        c->done++;
    else if (error == ETCDLOCK_EUNKNOWN)
        c->unknown++;
    else if (error != ETCDLOCK_EUNREACHABLE)
        c->odd = error ? error : -1;
}

static void *count(void *arg)
{
    counter *c = arg;
    ck_assert_int_eq(etcdlock_mutex_lock(c->mutex), 0);
    while (!c->may_stop)
        add_one(c);
    ck_assert_int_eq(etcdlock_mutex_unlock(c->mutex), 0);
    return NULL;
}

typedef struct progress {
    counter *c;
    int done;
} progress;

static bool has_come_on(void *arg)
{
    progress *p = arg;
    return p->c->done >= p->done;
}

/* Every member dies once, the leader among them, under a holder that counts: what is in the key is what the
 * calls said. */
START_TEST(members_die_under_a_writer)
{
    party p = party_open(live_name("a"), 20);
    counter c = {.mutex = p.mutex, .key = live_name("data")};
    ck_assert_int_eq(pthread_create(&c.thread, NULL, count, &c), 0);
    for (int member = 1; member <= 3; member++) {
        progress some = {&c, c.done + 20};
        ck_assert(live_wait_until(has_come_on, &some, 20000));
        command("kill", member);
        some.done = c.done + 20;
        ck_assert(live_wait_until(has_come_on, &some, 20000));
        command("restart", member);
        live_await_health();
    }
    c.may_stop = true;
    ck_assert_int_eq(pthread_join(c.thread, NULL), 0);
    ck_assert_int_eq(c.odd, 0);
    int number = atoi(etcdctl("get", c.key, "--print-value-only", NULL));
    ck_assert_int_ge(number, c.done);
    ck_assert_int_le(number, c.done + c.unknown);
    ck_assert_uint_eq(etcdctl_count(live_name("a")), 0);
    etcdctl("del", c.key, NULL);
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("guard_failover", &cases, 120);
    tcase_add_unchecked_fixture(cases, NULL, mend);
    tcase_add_test(cases, members_die_under_a_writer);
    return live_run(suite);
}
