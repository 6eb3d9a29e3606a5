/* A member that is cut off from its peers while its clients still reach it: its watch streams and connections
 * stay open, and nothing comes over them. */
/* cluster: 3 netns */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/proxy.h"

/* Long enough to outlive the elections that a member brings which comes back. */
enum { MEMBERS = 3, TTL_S = 10, OPENINGS_MAX = 60 };

/* Which endpoint a client is at shows in the connections. */
static proxy proxies[MEMBERS];

static void command(const char *verb, int member)
{
    char line[40];
    snprintf(line, sizeof line, "%s %d", verb, member);
    live_cluster(line);
}

static void start_proxies(void)
{
    for (int i = 0; i < MEMBERS; i++)
        proxy_start(&proxies[i], live_endpoint(i));
}

static void stop_proxies(void)
{
    for (int i = 0; i < MEMBERS; i++)
        proxy_stop(&proxies[i]);
}

/* After a case that failed, too. */
static void heal_all(void)
{
    for (int member = 1; member <= MEMBERS; member++)
        command("heal", member);
}

static bool is_cluster_whole(void *arg)
{
    (void)arg;
    return system("ETCDCTL_API=3 etcdctl endpoint health --cluster >/dev/null 2>&1") == 0;
}

/* The next case counts on a whole cluster; a member that was away may need a new election first. */
static void heal(int member)
{
    command("heal", member);
    etcdctl_use(NULL);
    ck_assert(live_wait_until(is_cluster_whole, NULL, 30000));
}

/* The endpoints of the other two. */
static const char *others_of(int member)
{
    static char endpoints[256];
    snprintf(endpoints, sizeof endpoints, "%s,%s", live_endpoint(member % MEMBERS),
             live_endpoint((member + 1) % MEMBERS));
    return endpoints;
}

/* Shown where a case fails: a session that is lost says why. */
static void say(etcdlock_log_level level, const char *message, void *arg)
{
    (void)level;
    printf("%lld %s: %s\n", (long long)live_now_ms(), (const char *)arg, message);
    fflush(stdout);
}

static party open_with(const char *endpoints, const char *name)
{
    party p;
    etcdlock_client_options options = live_options();
    options.endpoints = endpoints;
    options.log = say;
    options.log_arg = (void *)(uintptr_t)name;
    options.log_level = ETCDLOCK_LOG_INFO;
    ck_assert_int_eq(etcdlock_client_open(&p.client, &options), 0);
    p.session = party_session(&p, TTL_S);
    p.mutex = party_mutex(&p, name, 0);
    return p;
}

/* A party that knows all members and has chosen this one. */
static party open_at(int member, const char *name)
{
    char endpoints[256];
    snprintf(endpoints, sizeof endpoints, "%s,%s,%s", proxy_endpoint(&proxies[0]),
             proxy_endpoint(&proxies[1]), proxy_endpoint(&proxies[2]));
    for (int i = 0; i < OPENINGS_MAX; i++) {
        uint64_t before = proxy_accepted(&proxies[member - 1]);
        party p = open_with(endpoints, name);
        if (proxy_accepted(&proxies[member - 1]) > before) return p;
        party_close(&p);
    }
    ck_abort_msg("member %d is never chosen", member);
}

static int choose_member(bool is_leader)
{
    int leader = live_cluster_number("leader");
    return is_leader ? leader : leader % MEMBERS + 1;
}

/* The member that a waiter watches is cut off, follower or leader, and the holder leaves through the others:
 * the waiter gets the lock within 10 s with its session unharmed (B06). */
START_TEST(waiter)
{
    const char *name = live_name("a");
    int member = choose_member(_i == 1);
    start_proxies();
    party p = open_with(others_of(member), name), other = open_at(member, name);
    caller waiting;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    caller_start(&waiting, other.mutex, -1);
    party_await_queue(&p, name, 2);
    ck_assert(!caller_is_done(&waiting, 300)); /* its watches are in place */
    etcdctl_use(others_of(member));
    command("isolate", member);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    int64_t unlocked_ms = live_now_ms();
    ck_assert_int_eq(caller_result(&waiting, 30000), 0);
    live_within(began_ms, 10000);
    printf("isolated %s: unlock took %lld ms, the waiter was in %lld ms later\n",
           _i == 1 ? "leader" : "follower", (long long)(unlocked_ms - began_ms),
           (long long)(waiting.returned_ms - unlocked_ms));
    ck_assert_int_eq(etcdlock_session_get_state(other.session), ETCDLOCK_SESSION_OK);
    ck_assert_int_eq(caller_end(&waiting), 0);
    heal(member);
    party_close(&p);
    party_close(&other);
    stop_proxies();
}
END_TEST

/* The member is cut off for longer than the time to live while nothing happens to the lock: the waiter waits
 * on, its session is renewed elsewhere, and it is in within a second of the holder's leaving (B06). */
START_TEST(waiter_for_long)
{
    const char *name = live_name("a");
    int member = choose_member(_i == 1);
    start_proxies();
    party p = open_with(others_of(member), name), other = open_at(member, name);
    caller waiting;
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    caller_start(&waiting, other.mutex, -1);
    party_await_queue(&p, name, 2);
    etcdctl_use(others_of(member));
    command("isolate", member);
    ck_assert(!caller_is_done(&waiting, TTL_S * 1000 + 2000));
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiting, 10000), 0);
    live_within(began_ms, 1000);
    ck_assert_int_eq(caller_end(&waiting), 0);
    heal(member);
    party_close(&p);
    party_close(&other);
    stop_proxies();
}
END_TEST

/* The member that a holder uses is cut off for longer than the time to live: "no leader" is a reason to go to
 * another one, not the loss of the lock; and it unlocks there, at once, to the one who waits (B06). */
START_TEST(holder)
{
    const char *name = live_name("a");
    int member = choose_member(_i == 1);
    start_proxies();
    party other = open_at(member, name), p = open_with(others_of(member), name);
    caller waiting;
    ck_assert_int_eq(etcdlock_mutex_lock(other.mutex), 0);
    uint64_t token = etcdlock_mutex_token(other.mutex);
    caller_start(&waiting, p.mutex, -1);
    party_await_queue(&p, name, 2);
    etcdctl_use(others_of(member));
    command("isolate", member);
    int64_t least_ms = INT64_MAX;
    for (int64_t until_ms = live_now_ms() + TTL_S * 1000 + 2000; live_now_ms() < until_ms;) {
        ck_assert(!caller_is_done(&waiting, 50));
        ck_assert_uint_eq(etcdlock_mutex_token(other.mutex), token);
        int64_t left_ms = etcdlock_mutex_remaining_ms(other.mutex);
        if (left_ms < least_ms) least_ms = left_ms;
    }
    printf("isolated %s: the holder had never less than %lld ms left\n", _i == 1 ? "leader" : "follower",
           (long long)least_ms);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), 0);
    ck_assert_int_eq(caller_result(&waiting, 10000), 0);
    live_within(began_ms, 5000);
    ck_assert_int_eq(caller_end(&waiting), 0);
    heal(member);
    party_close(&p);
    party_close(&other);
    stop_proxies();
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("isolated_member", &cases, 90);
    tcase_add_unchecked_fixture(cases, NULL, heal_all);
    tcase_add_loop_test(cases, waiter, 0, 2);
    tcase_add_loop_test(cases, waiter_for_long, 0, 2);
    tcase_add_loop_test(cases, holder, 0, 2);
    return live_run(suite);
}
