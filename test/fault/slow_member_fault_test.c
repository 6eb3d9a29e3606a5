/* The member by which leases are renewed falls silent, in one way or another, for longer than they live. */
/* cluster: 3 */
#include <stdio.h>

#include "support/etcdctl.h"
#include "support/fleet.h"

enum { TTL_S = 6, SILENT_MS = 7500 };

static void command(const char *verb, int member)
{
    char line[64];
    snprintf(line, sizeof line, "%s %d", verb, member + 1);
    live_cluster(line);
}

/* After a case that failed, too. */
static void mend(void)
{
    for (int member = 1; member <= 3; member++) {
        char line[80];
        snprintf(line, sizeof line, "resume %d >/dev/null 2>&1 || true", member);
        live_cluster(line);
    }
}

static fleet f;

/* A member that is stopped costs no holder its lease, be it the leader or not (B07 a). */
START_TEST(stopped)
{
    int leader = live_cluster_number("leader") - 1, member = (leader + _i) % 3;
    fleet_start(&f, member, TTL_S, 1);
    etcdctl_use(live_endpoint((member + 1) % 3));
    command("pause", member);
    fleet_watch(&f, SILENT_MS);
    command("resume", member);
    fleet_watch(&f, 500);
    fleet_end(&f, 0);
}
END_TEST

/* Nor does one to which the way is a black hole (B07 b). */
START_TEST(behind_a_black_hole)
{
    fleet_start(&f, _i, TTL_S, 1);
    proxy_blackhole(&f.ways[_i], PROXY_BOTH);
    fleet_watch(&f, SILENT_MS);
    proxy_pass(&f.ways[_i]);
    fleet_end(&f, 0);
}
END_TEST

/* Nor one whose answers get lost, though it hears every request (B07 b). */
START_TEST(answers_are_lost)
{
    fleet_start(&f, _i, TTL_S, 1);
    proxy_drop_replies(&f.ways[_i]);
    fleet_watch(&f, SILENT_MS);
    proxy_pass(&f.ways[_i]);
    fleet_end(&f, 0);
}
END_TEST

/* Nor one that is five seconds away, nearly as long as the lease lives (B07 d). */
START_TEST(far_away)
{
    fleet_start(&f, _i, TTL_S, 1);
    proxy_delay(&f.ways[_i], PROXY_BOTH, 2500);
    fleet_watch(&f, SILENT_MS);
    proxy_delay(&f.ways[_i], PROXY_BOTH, 0);
    fleet_end(&f, 0);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("slow_member", &cases, 90);
    tcase_add_unchecked_fixture(cases, NULL, mend);
    tcase_add_loop_test(cases, stopped, 0, 2);
    tcase_add_loop_test(cases, behind_a_black_hole, 0, 1);
    tcase_add_loop_test(cases, answers_are_lost, 1, 2);
    tcase_add_loop_test(cases, far_away, 2, 3);
    return live_run(suite);
}
