/* Ordinary changes of the leader under many holders and waiters: nobody loses anything by them. */
/* cluster: 3 */
#include <inttypes.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/fleet.h"

enum { TTL_S = 10, KILLS = 6, MOVES = 10 };

static fleet f;

static void command(const char *verb, int member)
{
    char line[64];
    snprintf(line, sizeof line, "%s %d", verb, member);
    live_cluster(line);
}

/* After a case that failed, too. */
static void mend(void)
{
    for (int member = 1; member <= 3; member++) {
        char line[80];
        snprintf(line, sizeof line, "resume %d >/dev/null 2>&1 || true", member);
        live_cluster(line);
        snprintf(line, sizeof line, "restart %d >/dev/null 2>&1 || true", member);
        live_cluster(line);
    }
}

/* A leader that is killed and restarted, again and again, costs no holder its lock and no waiter its place
 * (B26). */
START_TEST(leader_killed_again_and_again)
{
    fleet_start(&f, FLEET_ANY, TTL_S, 2);
    for (int i = 0; i < KILLS; i++) {
        int leader = live_cluster_number("leader");
        etcdctl_use(live_endpoint(leader % 3));
        command("kill", leader);
        (void)live_cluster_number("leader"); /* waits for the new one */
        fleet_watch(&f, 500);
        command("restart", leader);
        fleet_watch(&f, 500);
    }
    fleet_end(&f, 0);
    etcdctl_use(NULL);
    live_await_health();
}
END_TEST

/* Has the leader hand over to the next member. */
static void move_leader(void)
{
    int leader = live_cluster_number("leader");
    char id[24];
    etcdctl_use(live_endpoint(leader % 3));
    const char *found = strstr(etcdctl("endpoint", "status", "-w", "fields", NULL), "\"MemberID\" : ");
    ck_assert_ptr_nonnull(found);
    snprintf(id, sizeof id, "%" PRIx64, (uint64_t)strtoull(found + strlen("\"MemberID\" : "), NULL, 10));
    etcdctl_use(live_endpoint(leader - 1));
    etcdctl("move-leader", id, NULL);
    etcdctl_use(NULL);
}

/* Nor does a leadership that is handed around (B26). */
START_TEST(leadership_handed_around)
{
    fleet_start(&f, FLEET_ANY, TTL_S, 2);
    for (int i = 0; i < MOVES; i++) {
        move_leader();
        fleet_watch(&f, 300);
    }
    fleet_end(&f, 0);
}
END_TEST

/* A leader that stops without a word takes with it what the others pass on to it, and says nothing to those
 * who ask it: their unlocks succeed all the same, within the time of a call (B33). */
START_TEST(leader_stopped_under_unlocks)
{
    enum { HOLDERS = 6 };
    party parties[HOLDERS];
    caller holders[HOLDERS];
    for (int i = 0; i < HOLDERS; i++) {
        char part[16];
        snprintf(part, sizeof part, "of-%d", i);
        parties[i] = party_open(live_name(part), 30); /* by whichever member */
        caller_start(&holders[i], parties[i].mutex, -1);
        ck_assert_int_eq(caller_result(&holders[i], 5000), 0);
    }
    int leader = live_cluster_number("leader");
    command("pause", leader);
    for (int i = 0; i < HOLDERS; i++)
        sem_post(&holders[i].may_unlock);
    for (int i = 0; i < HOLDERS; i++)
        ck_assert_int_eq(caller_end(&holders[i]), 0);
    command("resume", leader);
    live_await_health();
    for (int i = 0; i < HOLDERS; i++)
        party_close(&parties[i]);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("leader_change", &cases, 120);
    tcase_add_unchecked_fixture(cases, NULL, mend);
    tcase_add_test(cases, leader_killed_again_and_again);
    tcase_add_test(cases, leadership_handed_around);
    tcase_add_loop_test(cases, leader_stopped_under_unlocks, 0, 3);
    return live_run(suite);
}
