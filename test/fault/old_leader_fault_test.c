/* A leader that stops, is replaced, and comes back with its old idea of the leases. */
/* cluster: 3 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "support/etcdctl.h"
#include "support/fleet.h"
#include "support/gateway.h"
#include "support/loss.h"
#include "support/raw.h"

enum { TTL_S = 5, STOPPED_MS = 8000, ROUNDS = 2 };

static fleet f;

static void command(const char *verb, int member)
{
    char line[64];
    snprintf(line, sizeof line, "%s %d", verb, member);
    live_cluster(line);
}

static void mend(void)
{
    for (int member = 1; member <= 3; member++) {
        char line[80];
        snprintf(line, sizeof line, "resume %d >/dev/null 2>&1 || true", member);
        live_cluster(line);
    }
}

typedef struct load {
    pthread_t thread;
    const char *endpoint;
    char key[64];
    atomic_bool is_over;
    atomic_int writes;
} load;

static void *write_on(void *arg)
{
    load *l = arg;
    while (!l->is_over)
        l->writes += raw_put(l->endpoint, l->key, "x") > 0;
    return NULL;
}

static void start_load(load *l, const char *endpoint)
{
    *l = (load){.endpoint = endpoint};
    snprintf(l->key, sizeof l->key, "%sload", live_prefix());
    ck_assert_int_eq(pthread_create(&l->thread, NULL, write_on, l), 0);
}

static void end_load(load *l)
{
    l->is_over = true;
    ck_assert_int_eq(pthread_join(l->thread, NULL), 0);
    etcdctl("del", l->key, NULL);
}

/* Whoever believes to hold has its entry in the store: an entry that the server took away was noticed. */
static void compare_with_store(void)
{
    etcdctl_key keys[4];
    for (int i = 0; i < FLEET_LOCKS; i++) {
        char folder[80];
        snprintf(folder, sizeof folder, "%s/", f.names[i]);
        size_t n = etcdctl_keys(folder, keys, 4);
        bool is_there = n > 0 && keys[0].create_revision == (int64_t)f.holders[i].token;
        ck_assert_msg(is_there || holder_is_lost(&f.holders[i], 1000),
                      "lock %d is gone, and its holder not told", i);
    }
}

/* A leader that is stopped under load and resumed: whose entry it takes away is told, and no two hold at once
 * (B51). */
START_TEST(stopped_under_load)
{
    load l;
    fleet_start(&f, FLEET_ANY, TTL_S, 1);
    int leader = live_cluster_number("leader");
    const char *other = live_endpoint(leader % 3);
    etcdctl_use(other);
    start_load(&l, other);
    command("pause", leader);
    (void)live_cluster_number("leader"); /* waits for the new one */
    for (int64_t until_ms = live_now_ms() + STOPPED_MS; live_now_ms() < until_ms;)
        compare_with_store();
    command("resume", leader);
    for (int64_t until_ms = live_now_ms() + 2000; live_now_ms() < until_ms;)
        compare_with_store();
    end_load(&l);
    int losses = fleet_losses(&f);
    fleet_end(&f, FLEET_WAITERS);
    printf("%d of %d holders and %d of %d waiters lost, %d writes meanwhile\n", losses, FLEET_LOCKS,
           f.lost_waiters, FLEET_WAITERS, (int)l.writes);
}
END_TEST

/* A hold whose entry was seen to go stays lost, however well the lease is renewed afterwards (B51). */
START_TEST(renewals_do_not_bring_it_back)
{
    const char *name = live_name("a");
    etcdctl_key key;
    party p = party_open(name, 3);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_uint_eq(etcdctl_keys(name, &key, 1), 1);
    gateway_delete(key.key);
    ck_assert(live_readable(etcdlock_mutex_lost_fd(p.mutex), 1000));
    for (int64_t until_ms = live_now_ms() + 4000; live_now_ms() < until_ms; poll(NULL, 0, 5)) {
        ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_remaining_ms(p.mutex), 0);
        ck_assert_int_eq(etcdlock_session_get_state(p.session), ETCDLOCK_SESSION_OK);
    }
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 0), ETCDLOCK_EENTRY);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ETCDLOCK_EENTRY);
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("old_leader", &cases, 90);
    tcase_add_unchecked_fixture(cases, NULL, mend);
    tcase_add_loop_test(cases, stopped_under_load, 0, ROUNDS);
    tcase_add_test(cases, renewals_do_not_bring_it_back);
    return live_run(suite);
}
