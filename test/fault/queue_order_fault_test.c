/* Foreign contenders whose names sort in another order than they came: who is before whom goes by revision.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/gateway.h"
#include "support/live.h"

enum { FOREIGN = 5, ROUNDS = 300, LEASE_TTL_S = 300 };

/* In the order of the queue. As keys they sort 1, 100, 7f..., ff, ffff...b3. */
static const int64_t leases[FOREIGN] = {0xff, 0x100, 0x7fffffffffffff01, -77, 1};

static char keys[FOREIGN][256];

static void grant_all(const char *name)
{
    for (int i = 0; i < FOREIGN; i++) {
        gateway_grant(leases[i], LEASE_TTL_S);
        snprintf(keys[i], sizeof keys[i], "%s/%llx", name, (unsigned long long)leases[i]);
    }
}

static void revoke_all(void)
{
    for (int i = 0; i < FOREIGN; i++)
        gateway_revoke(leases[i]);
}

static void await_count(const char *name, size_t n)
{
    int64_t until_ms = live_now_ms() + 10000;
    while (gateway_count(name) != n)
        ck_assert_msg(live_now_ms() < until_ms, "never %zu in the queue", n);
}

static void shuffle(int *order, unsigned *seed)
{
    for (int i = 0; i < FOREIGN; i++)
        order[i] = i;
    for (int i = FOREIGN - 1; i > 0; i--) {
        int other = rand_r(seed) % (i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

/* So that the next deletion finds the waiter at any point of dealing with the last one. */
static void pause_at_random(unsigned *seed)
{
    struct timespec pause = {.tv_nsec = (long)(rand_r(seed) % 4) * 1500000};
    nanosleep(&pause, NULL);
}

/* Deletes the five in a random order; when the last deletion was sent. */
static int64_t delete_all(unsigned *seed)
{
    int order[FOREIGN];
    int64_t last_ms = 0;
    shuffle(order, seed);
    for (int i = 0; i < FOREIGN; i++) {
        last_ms = live_now_ms();
        gateway_delete(keys[order[i]]);
        if (i < FOREIGN - 1) pause_at_random(seed);
    }
    return last_ms;
}

/* Five contenders of another make are ahead and leave in any order, also from the middle: the waiter enters
 * when all are gone, not before and not later than a second after (B15). */
START_TEST(any_order)
{
    const char *name = live_name("a");
    party p = party_open(name, 0), behind = party_open(name, 0);
    unsigned seed = 1;
    int64_t slowest_ms = 0;
    grant_all(name);
    for (int round = 0; round < ROUNDS; round++) {
        caller waiter, next;
        for (int i = 0; i < FOREIGN; i++)
            gateway_put(keys[i], "foreign", leases[i]);
        caller_start(&waiter, p.mutex, -1);
        await_count(name, FOREIGN + 1);
        caller_start(&next, behind.mutex, -1);
        await_count(name, FOREIGN + 2);
        int64_t last_ms = delete_all(&seed);
        ck_assert_int_eq(caller_result(&waiter, 5000), 0);
        int64_t waited_ms = waiter.returned_ms - last_ms;
        ck_assert_msg(waited_ms >= 0, "round %d: in before the last of them had left", round);
        if (waited_ms > slowest_ms) slowest_ms = waited_ms;
        ck_assert_uint_eq(gateway_count(name), 2);
        ck_assert(!caller_is_done(&next, 0));
        ck_assert_int_eq(caller_end(&waiter), 0);
        ck_assert_int_eq(caller_result(&next, 5000), 0);
        ck_assert_uint_gt(next.token, waiter.token);
        ck_assert_int_eq(caller_end(&next), 0);
    }
    printf("queue order: %d rounds, the slowest entry %lld ms after the last departure\n", ROUNDS,
           (long long)slowest_ms);
    live_within(live_now_ms() - slowest_ms, 1000);
    revoke_all();
    party_close(&p);
    party_close(&behind);
}
END_TEST

/* The oldest stays and those between it and the waiter go one by one: the waiter does not move (B15). */
START_TEST(oldest_stays)
{
    const char *name = live_name("a");
    party p = party_open(name, 0);
    caller waiter;
    grant_all(name);
    for (int i = 0; i < FOREIGN; i++)
        gateway_put(keys[i], "foreign", leases[i]);
    caller_start(&waiter, p.mutex, -1);
    await_count(name, FOREIGN + 1);
    for (int i = FOREIGN - 1; i > 0; i--) {
        gateway_revoke(leases[i]);
        ck_assert(!caller_is_done(&waiter, 300));
    }
    gateway_revoke(leases[0]);
    ck_assert_int_eq(caller_result(&waiter, 5000), 0);
    ck_assert_int_eq(caller_end(&waiter), 0);
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("queue_order", &cases, 120);
    tcase_add_test(cases, any_order);
    tcase_add_test(cases, oldest_stays);
    return live_run(suite);
}
