/* Large answers over TLS, through the very client that holds and waits (B58). */
/* cluster: 1 tls */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"

/* What etcdctl takes on its command line is less than 128 KiB. */
enum { KEYS = 60, VALUE_SIZE = 120000, READERS = 2, ROUNDS = 12, TTL_S = 5, SOON_MS = 15000 };

typedef struct reader {
    pthread_t thread;
    etcdlock_client *client;
    const char *name;
    int failures;
} reader;

static atomic_bool is_over;
static atomic_int reads;

static void *read_queue(void *arg)
{
    reader *r = arg;
    while (!atomic_load(&is_over)) {
        etcdlock_queue *queue;
        int error = etcdlock_queue_get(&queue, r->client, r->name);
        if (error || etcdlock_queue_size(queue) != KEYS) r->failures++;
        etcdlock_queue_free(queue);
        atomic_fetch_add(&reads, 1);
    }
    return NULL;
}

static void write_bulk(const char *name)
{
    static char value[VALUE_SIZE + 1];
    char key[128];
    memset(value, 'x', VALUE_SIZE);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "%s/stray%d", name, i);
        etcdctl("put", key, value, NULL);
    }
}

static bool has_read(void *before)
{
    return atomic_load(&reads) >= *(int *)before + 2;
}

/* Threads of a client read some megabytes again and again, as fast as they can. The session of that client is
 * renewed in good time all the while, and its waiter is granted within a second. */
START_TEST(of_the_same_client)
{
    const char *bulk = live_name("bulk"), *name = live_name("a");
    party p = party_open(name, TTL_S), other = party_open(name, TTL_S);
    reader readers[READERS];
    int64_t lowest_ms = INT64_MAX, slowest_ms = 0;
    write_bulk(bulk);
    for (int i = 0; i < READERS; i++) {
        readers[i] = (reader){.client = p.client, .name = bulk};
        ck_assert_int_eq(pthread_create(&readers[i].thread, NULL, read_queue, &readers[i]), 0);
    }
    int64_t began_ms = live_now_ms();
    for (int round = 0; round < ROUNDS; round++) {
        caller waiter;
        int before = atomic_load(&reads);
        ck_assert_int_eq(etcdlock_mutex_lock(other.mutex), 0);
        caller_start(&waiter, p.mutex, -1);
        party_await_queue(&other, name, 2);
        ck_assert(live_wait_until(has_read, &before, SOON_MS));
        int64_t left_ms = etcdlock_session_remaining_ms(p.session);
        if (left_ms < lowest_ms) lowest_ms = left_ms;
        ck_assert_int_eq(etcdlock_session_get_state(p.session), ETCDLOCK_SESSION_OK);
        int64_t unlocked_ms = live_now_ms();
        ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), 0);
        ck_assert_int_eq(caller_result(&waiter, SOON_MS), 0);
        if (waiter.returned_ms - unlocked_ms > slowest_ms) slowest_ms = waiter.returned_ms - unlocked_ms;
        ck_assert_int_eq(caller_end(&waiter), 0);
    }
    int64_t took_ms = live_now_ms() - began_ms;
    atomic_store(&is_over, true);
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i].thread, NULL);
        ck_assert_int_eq(readers[i].failures, 0);
    }
    printf("%.0f MB/s; granted within %lld ms; never less than %lld ms left\n",
           (double)atomic_load(&reads) * KEYS * VALUE_SIZE / 1e3 / (double)took_ms, (long long)slowest_ms,
           (long long)lowest_ms);
    fflush(stdout);
    live_within(live_now_ms() - slowest_ms, 1000);
    ck_assert_int_ge(lowest_ms, TTL_S * 1000 / 2);
    etcdctl("del", "--prefix", bulk, NULL);
    party_close(&p);
    party_close(&other);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("bulk_traffic_fault", &cases, 120);
    tcase_add_test(cases, of_the_same_client);
    return live_run(suite);
}
