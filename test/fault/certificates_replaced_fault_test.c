/* Certificate files that are replaced under a running client: it goes on, and its new connections use them.
 */
/* cluster: 1 tls */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/authority.h"
#include "support/caller.h"
#include "support/live.h"
#include "support/proxy.h"

enum { DAY_S = 24 * 3600, PATH_ROOM = 256, SOON_MS = 20000, SHORT_S = 4, TTL_S = 6 };

/* Cuts the connections, so that new ones have to be made. */
static proxy px;
/* The member trusts clients of both. */
static authority ours, foreign;
static char folder[64], ca_file[PATH_ROOM], cert_file[PATH_ROOM], key_file[PATH_ROOM];

/* ---- files ---- */

static const char *cluster_file(const char *name)
{
    static char path[2][PATH_ROOM];
    static int n;
    n = (n + 1) % 2;
    snprintf(path[n], PATH_ROOM, "%s/tls/%s", getenv("CLUSTER_DIR"), name);
    return path[n];
}

static void name_files(const char *under)
{
    snprintf(ca_file, sizeof ca_file, "%s%s/ca.pem", folder, under);
    snprintf(cert_file, sizeof cert_file, "%s%s/cert.pem", folder, under);
    snprintf(key_file, sizeof key_file, "%s%s/key.pem", folder, under);
}

static void trust(const authority *one)
{
    authority_write(&one, 1, ca_file);
}

/* A member reads its certificate anew for every handshake. */
static void issue_for_member(const authority *by, const char *address)
{
    authority_issue(by, address, DAY_S, cluster_file("member1.pem"), cluster_file("member1-key.pem"));
}

/* Once for all cases. */
static void trust_both(void)
{
    const authority *both[] = {&ours, &foreign};
    if (!getenv("CLUSTER_DIR")) return;
    authority_load(&ours, cluster_file("ca.pem"), cluster_file("ca-key.pem"));
    authority_make(&foreign, "another authority");
    authority_write(both, 2, cluster_file("ca.pem"));
    live_cluster("restart 1");
}

static void trust_none(void)
{
    authority_end(&ours);
    authority_end(&foreign);
}

static void set_up(void)
{
    strcpy(folder, "/tmp/etcdlock-certificates-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    name_files("");
    trust(&ours);
    issue_for_member(&ours, "127.0.0.1"); /* a case that failed may have left another */
    proxy_start(&px, live_endpoint(0));
}

static void tear_down(void)
{
    char line[PATH_ROOM + 16];
    issue_for_member(&ours, "127.0.0.1");
    proxy_stop(&px);
    snprintf(line, sizeof line, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(line), 0);
}

/* ---- parties ---- */

static etcdlock_client *open_client(void)
{
    etcdlock_client *client;
    etcdlock_client_options options = live_options();
    options.endpoints = proxy_endpoint(&px);
    options.ca_file = ca_file;
    options.cert_file = cert_file;
    options.key_file = key_file;
    int error = etcdlock_client_open(&client, &options);
    ck_assert_msg(error == 0, "%d %s", error, etcdlock_error_message());
    return client;
}

static party open_party(const char *name)
{
    party p = {.client = open_client()};
    p.session = party_session(&p, TTL_S);
    p.mutex = party_mutex(&p, name, 0);
    return p;
}

typedef struct renewal {
    etcdlock_session *session;
    int64_t deadline_ms;
} renewal;

static bool is_renewed(void *arg)
{
    renewal *r = arg;
    int64_t left_ms = etcdlock_session_remaining_ms(r->session);
    return left_ms > 0 && live_now_ms() + left_ms > r->deadline_ms + 200;
}

/* Cuts every connection, and waits until the session has been renewed over a new one. */
static void expect_reconnection(const party *p)
{
    renewal r = {p->session, live_now_ms() + etcdlock_session_remaining_ms(p->session)};
    uint64_t accepted = proxy_accepted(&px);
    proxy_reset(&px);
    ck_assert_msg(live_wait_until(is_renewed, &r, SOON_MS), "not renewed");
    ck_assert_uint_gt(proxy_accepted(&px), accepted);
}

static bool has_passed(void *until_ms)
{
    return live_now_ms() >= *(int64_t *)until_ms;
}

static void await_expiry(int64_t issued_ms)
{
    int64_t until_ms = issued_ms + (SHORT_S + 1) * 1000;
    ck_assert(live_wait_until(has_passed, &until_ms, SOON_MS));
}

/* With a certificate that expires, `replace` gives a good one, and all connections are cut: the holder goes
 * on to hold, its waiter to wait, and both get what they ask for. */
static void outlive_certificate(void (*replace)(void))
{
    const char *name = live_name("a");
    caller waiter;
    int64_t issued_ms = live_now_ms();
    authority_issue(&ours, NULL, SHORT_S, cert_file, key_file);
    party p = open_party(name), other = open_party(name);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&p, name, 2);
    await_expiry(issued_ms);
    replace();
    expect_reconnection(&p);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), token);
    ck_assert(!caller_is_done(&waiter, 0));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, SOON_MS), 0);
    expect_reconnection(&other);
    ck_assert_int_eq(caller_end(&waiter), 0);
    ck_assert_int_eq(etcdlock_session_get_state(p.session), ETCDLOCK_SESSION_OK);
    party_close(&p);
    party_close(&other);
}

static void issue_ours(void)
{
    authority_issue(&ours, NULL, DAY_S, cert_file, key_file);
}

static void change_authority(void)
{
    authority_issue(&foreign, NULL, DAY_S, cert_file, key_file);
    trust(&foreign);
    issue_for_member(&foreign, "127.0.0.1");
}

/* A new certificate of the same authority, the everyday rotation. */
START_TEST(same_authority)
{
    outlive_certificate(issue_ours);
}
END_TEST

/* Client and server move to another authority, each with its new certificate. */
START_TEST(other_authority)
{
    outlive_certificate(change_authority);
}
END_TEST

static void point_to(const char *version)
{
    char beside[PATH_ROOM + 8], link[PATH_ROOM + 8];
    snprintf(beside, sizeof beside, "%s/next", folder);
    snprintf(link, sizeof link, "%s/data", folder);
    ck_assert_int_eq(symlink(version, beside), 0);
    ck_assert_int_eq(rename(beside, link), 0);
}

static void make_version(const char *version)
{
    char path[PATH_ROOM + 8];
    snprintf(path, sizeof path, "%s%s", folder, version);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    name_files(version);
    trust(&ours);
}

static void switch_version(void)
{
    make_version("/2");
    issue_ours();
    point_to("2");
    name_files("/data");
}

/* A link to a folder is pointed at another folder, as Kubernetes does with its secrets. */
START_TEST(linked_folder)
{
    make_version("/1");
    point_to("1");
    name_files("/data");
    outlive_certificate(switch_version);
}
END_TEST

/* ---- what is not used ---- */

static void overwrite(const char *file, const char *text)
{
    FILE *to = fopen(file, "we");
    ck_assert_ptr_nonnull(to);
    ck_assert_int_ge(fputs(text, to), 0);
    ck_assert_int_eq(fclose(to), 0);
}

static void damage(int how)
{
    struct stat status;
    char aside[PATH_ROOM + 8];
    snprintf(aside, sizeof aside, "%s.aside", key_file);
    switch (how) {
    case 0: /* half of it is written yet */
        ck_assert_int_eq(stat(cert_file, &status), 0);
        ck_assert_int_eq(truncate(cert_file, status.st_size / 2), 0);
        break;
    case 1: /* the key is still the old one */
        authority_issue(&ours, NULL, DAY_S, cert_file, aside);
        break;
    case 2:
        overwrite(ca_file, "");
        break;
    case 3:
        ck_assert_int_eq(unlink(cert_file), 0);
        break;
    default:
        overwrite(cert_file, "-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n");
        overwrite(key_file, "nothing");
        break;
    }
}

/* As long as the files are incomplete or do not fit together, the last good ones are used; once they are good
 * again, these are. */
START_TEST(half_written)
{
    const char *name = live_name("a");
    issue_ours();
    party p = open_party(name), other = open_party(name);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    for (int how = 0; how < 5; how++) {
        damage(how);
        expect_reconnection(&p);
        ck_assert_int_eq(etcdlock_mutex_trylock(other.mutex), EBUSY);
    }
    change_authority();
    expect_reconnection(&p);
    ck_assert_int_eq(etcdlock_mutex_trylock(other.mutex), EBUSY);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), token);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

/* A connection that stands is not made anew for new files. */
START_TEST(standing_connection)
{
    issue_ours();
    party p = open_party(live_name("a"));
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 0), EPERM);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 5000), 0);
    uint64_t accepted = proxy_accepted(&px);
    change_authority();
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    }
    ck_assert_uint_eq(proxy_accepted(&px), accepted);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

/* ---- before the first connection ---- */

/* What counts is what the files hold when the first connection is made, not when the client was opened. */
START_TEST(before_first_connection)
{
    authority_issue(&foreign, NULL, -10, cert_file, key_file);
    party p = {.client = open_client()};
    issue_ours();
    p.session = party_session(&p, TTL_S);
    party_close(&p);
}
END_TEST

/* Whatever the files say, the member's name is checked. */
START_TEST(name_is_checked)
{
    etcdlock_session *session;
    issue_ours();
    etcdlock_client *client = open_client();
    change_authority();
    issue_for_member(&foreign, "127.0.0.9");
    int error = etcdlock_session_open(&session, client, NULL);
    issue_for_member(&ours, "127.0.0.1"); /* for the next case, also if this one fails */
    ck_assert_msg(error == ETCDLOCK_EUNREACHABLE, "%d %s", error, etcdlock_error_message());
    ck_assert_ptr_nonnull(strstr(etcdlock_error_message(), "not in peer certificate"));
    ck_assert_int_eq(etcdlock_client_close(client), 0);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("certificates_replaced_fault", &cases, 90);
    tcase_add_unchecked_fixture(cases, trust_both, trust_none);
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, same_authority);
    tcase_add_test(cases, other_authority);
    tcase_add_test(cases, linked_folder);
    tcase_add_test(cases, half_written);
    tcase_add_test(cases, standing_connection);
    tcase_add_test(cases, before_first_connection);
    tcase_add_test(cases, name_is_checked);
    return live_run(suite);
}
