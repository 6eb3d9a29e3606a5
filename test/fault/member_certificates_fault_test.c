/* Three members, each with a certificate for its own address and no other: any that lives serves (B48). */
/* cluster: 3 tls */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/authority.h"
#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/through.h"

enum { MEMBERS = 3, SOON_MS = 15000, DAY_S = 24 * 3600, PATH_ROOM = 256 };

static void command(const char *verb, int member)
{
    char line[40];
    snprintf(line, sizeof line, "%s %d", verb, member);
    live_cluster(line);
}

/* A member reads its certificate anew for every handshake. */
static void issue_for(int member, const char *address)
{
    authority ours;
    char files[4][PATH_ROOM];
    const char *folder = getenv("CLUSTER_DIR");
    snprintf(files[0], PATH_ROOM, "%s/tls/ca.pem", folder);
    snprintf(files[1], PATH_ROOM, "%s/tls/ca-key.pem", folder);
    snprintf(files[2], PATH_ROOM, "%s/tls/member%d.pem", folder, member);
    snprintf(files[3], PATH_ROOM, "%s/tls/member%d-key.pem", folder, member);
    authority_load(&ours, files[0], files[1]);
    authority_issue(&ours, address, DAY_S, files[2], files[3]);
    authority_end(&ours);
}

/* One address of the three, and alone: its name is checked against its own certificate. */
START_TEST(each_alone)
{
    const char *name = live_name("a");
    party parties[MEMBERS];
    uint64_t last = 0;
    for (int i = 0; i < MEMBERS; i++)
        parties[i] = party_through(live_endpoint(i), name, 0, 0);
    for (int i = 0; i < 2 * MEMBERS; i++) {
        etcdlock_mutex *mutex = parties[i % MEMBERS].mutex;
        ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
        ck_assert_uint_gt(etcdlock_mutex_token(mutex), last);
        last = etcdlock_mutex_token(mutex);
        ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
    }
    for (int i = 0; i < MEMBERS; i++)
        party_close(&parties[i]);
}
END_TEST

/* etcdctl is not to ask the one that is dead. */
static void ask_others(int member)
{
    static char endpoints[256];
    snprintf(endpoints, sizeof endpoints, "%s,%s", live_endpoint(member % MEMBERS),
             live_endpoint((member + 1) % MEMBERS));
    etcdctl_use(endpoints);
}

/* Each member is killed in turn, one of them the one in use: the holder goes on to hold, the waiter is
 * granted, and a client that comes now gets in as well. */
START_TEST(killed_in_turn)
{
    const char *name = live_name("a");
    party p = party_open(name, 10), other = party_open(name, 10);
    for (int member = 1; member <= MEMBERS; member++) {
        caller waiter;
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
        caller_start(&waiter, other.mutex, -1);
        party_await_queue(&p, name, 2);
        ask_others(member);
        command("kill", member);
        (void)live_cluster_number("leader");
        int64_t began_ms = live_now_ms();
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
        ck_assert_int_eq(caller_result(&waiter, SOON_MS), 0);
        live_within(began_ms, 8000);
        ck_assert_int_eq(caller_end(&waiter), 0);
        began_ms = live_now_ms();
        party late = party_open(name, 10);
        live_within(began_ms, 5000);
        ck_assert_int_eq(etcdlock_mutex_lock(late.mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_unlock(late.mutex), 0);
        party_close(&late);
        command("restart", member);
        ck_assert_int_eq(etcdlock_session_get_state(p.session), ETCDLOCK_SESSION_OK);
        ck_assert_int_eq(etcdlock_session_get_state(other.session), ETCDLOCK_SESSION_OK);
    }
    etcdctl_use(NULL);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* The names are checked one by one: a member with the certificate of another is refused, alone, and is left
 * for the others where there are others. */
START_TEST(certificate_of_another)
{
    etcdlock_client_options options = live_options();
    etcdlock_client *client;
    etcdlock_session *session;
    char message[400];
    options.endpoints = live_endpoint(0);
    options.command_timeout_ms = 1500;
    issue_for(1, "127.0.0.2");
    ck_assert_int_eq(etcdlock_client_open(&client, &options), 0);
    int64_t began_ms = live_now_ms();
    int error = etcdlock_session_open(&session, client, NULL);
    int64_t ended_ms = live_now_ms();
    snprintf(message, sizeof message, "%s", etcdlock_error_message());
    int closing = etcdlock_client_close(client);
    int64_t slowest_ms = 0;
    for (int i = 0; i < 9; i++) { /* each begins at a random one */
        int64_t start_ms = live_now_ms();
        party p = party_open(live_name("a"), 0);
        int64_t took_ms = live_now_ms() - start_ms;
        if (took_ms > slowest_ms) slowest_ms = took_ms;
        party_close(&p);
    }
    issue_for(1, "127.0.0.1");
    ck_assert_int_eq(error, ETCDLOCK_EUNREACHABLE);
    ck_assert_int_eq(closing, 0);
    ck_assert_msg(strstr(message, "not in peer certificate") != NULL, "%s", message);
    ck_assert_int_le(ended_ms - began_ms, 3000);
    ck_assert_int_le(slowest_ms, 3000);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("member_certificates_fault", &cases, 90);
    tcase_add_test(cases, each_alone);
    tcase_add_test(cases, killed_in_turn);
    tcase_add_test(cases, certificate_of_another);
    return live_run(suite);
}
