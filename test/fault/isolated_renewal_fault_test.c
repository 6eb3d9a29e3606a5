/* The member by which leases are renewed is cut off from the other members, and still there for its clients.
 */
/* cluster: 3 netns */
#include <poll.h>
#include <stdio.h>

#include "support/etcdctl.h"
#include "support/fleet.h"

enum { TTL_S = 6, CUT_MS = 9000 };

static fleet f;

static void command(const char *verb, int member)
{
    char line[64];
    snprintf(line, sizeof line, "%s %d", verb, member + 1);
    live_cluster(line);
}

static void mend(void)
{
    for (int member = 1; member <= 3; member++) {
        char line[80];
        snprintf(line, sizeof line, "heal %d >/dev/null 2>&1 || true", member);
        live_cluster(line);
    }
}

/* Such a member answers a renewal after seven seconds, longer than the lease lives: hardly a holder loses by
 * it, and those that do are told before the next ones are in (B07 c). */
START_TEST(renewals_go_to_another)
{
    int leader = live_cluster_number("leader") - 1, member = (leader + _i) % 3;
    fleet_start(&f, member, TTL_S, 1);
    etcdctl_use(live_endpoint((member + 1) % 3));
    command("isolate", member);
    for (int64_t until_ms = live_now_ms() + CUT_MS; live_now_ms() < until_ms; poll(NULL, 0, 10))
        ck_assert(fleet_heirs(&f) <= fleet_losses(&f));
    command("heal", member);
    int losses = fleet_losses(&f);
    printf("%s cut off: %d of %d holders lost\n", _i ? "a follower" : "the leader", losses, FLEET_LOCKS);
    ck_assert_int_le(losses, FLEET_LOCKS / 10);
    fleet_end(&f, FLEET_WAITERS / 10);
    etcdctl_use(NULL);
    live_await_health();
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("isolated_renewal", &cases, 90);
    tcase_add_unchecked_fixture(cases, NULL, mend);
    tcase_add_loop_test(cases, renewals_go_to_another, 0, 2);
    return live_run(suite);
}
