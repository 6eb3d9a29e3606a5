/* TLS that cannot come about: each call says so within its time, and says why. */
/* cluster: 1 tls */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/authority.h"
#include "support/live.h"
#include "support/stranger.h"

enum { COMMAND_MS = 1500, DAY_S = 24 * 3600, PATH_ROOM = 256 };

/* ---- files ---- */

static char folder[] = "/tmp/etcdlock-tls-XXXXXX";
static authority ours, foreign;

static const char *path_of(const char *name)
{
    static char paths[8][PATH_ROOM];
    static int n;
    char *path = paths[n++ % 8];
    snprintf(path, PATH_ROOM, "%s/%s", folder, name);
    return path;
}

/* A file of the cluster's own certificates. */
static const char *cluster_file(const char *name)
{
    static char path[2][PATH_ROOM];
    static int n;
    n = (n + 1) % 2;
    snprintf(path[n], PATH_ROOM, "%s/tls/%s", getenv("CLUSTER_DIR"), name);
    return path[n];
}

static void set_up(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    authority_load(&ours, cluster_file("ca.pem"), cluster_file("ca-key.pem"));
    authority_make(&foreign, "another authority");
}

static void tear_down(void)
{
    char line[PATH_ROOM + 16];
    authority_end(&ours);
    authority_end(&foreign);
    snprintf(line, sizeof line, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(line), 0);
}

/* ---- attempts ---- */

static etcdlock_client_options options_at(const char *endpoints)
{
    etcdlock_client_options options = live_options();
    options.endpoints = endpoints;
    options.command_timeout_ms = COMMAND_MS;
    return options;
}

static etcdlock_client_options options_https(void)
{
    static char endpoint[PATH_ROOM];
    snprintf(endpoint, sizeof endpoint, "https://%s", live_endpoint(0));
    etcdlock_client_options options = options_at(endpoint);
    /* A handshake that has all authorities of the system to load takes AddressSanitizer a second by itself.
     */
    options.command_timeout_ms *= live_slowness();
    return options;
}

static void restore_member(void)
{
    authority_issue(&ours, "127.0.0.1", DAY_S, cluster_file("member1.pem"), cluster_file("member1-key.pem"));
}

/* The session is refused in time, as unreachable, and the message holds one of the words. */
static void expect_refused(const etcdlock_client_options *options, const char *word, const char *or_word)
{
    etcdlock_client *client;
    etcdlock_session *session;
    ck_assert_msg(etcdlock_client_open(&client, options) == 0, "%s", etcdlock_error_message());
    int64_t began_ms = live_now_ms();
    int error = etcdlock_session_open(&session, client, NULL);
    const char *message = etcdlock_error_message();
    restore_member(); /* the next case needs it, also if this one fails */
    live_within(began_ms, options->command_timeout_ms);
    ck_assert_msg(error == ETCDLOCK_EUNREACHABLE, "%d %s", error, message);
    ck_assert_ptr_null(session);
    ck_assert_msg(strstr(message, word) || strstr(message, or_word), "%s", message);
    began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_client_close(client), 0);
    live_within(began_ms, options->command_timeout_ms + 1000);
}

static void expect_accepted(const etcdlock_client_options *options)
{
    party p = {0};
    ck_assert_msg(etcdlock_client_open(&p.client, options) == 0, "%s", etcdlock_error_message());
    p.session = party_session(&p, 0);
    party_close(&p);
}

/* Without a ca_file the system's authorities count, and the test's own is none of them. */
START_TEST(not_of_the_system)
{
    etcdlock_client_options options = options_https();
    options.ca_file = "";
    expect_refused(&options, "certificate verify failed", "CERTIFICATE_VERIFY_FAILED");
}
END_TEST

/* Made one of them, as gRPC lets one do, it is trusted. */
START_TEST(of_the_system)
{
    etcdlock_client_options options = options_https();
    setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", options.ca_file, 1);
    options.ca_file = "";
    expect_accepted(&options);
}
END_TEST

/* A server of another authority than the named one. */
START_TEST(unknown_authority)
{
    const authority *trusted[] = {&foreign};
    etcdlock_client_options options = options_https();
    authority_write(trusted, 1, path_of("ca.pem"));
    options.ca_file = path_of("ca.pem");
    expect_refused(&options, "certificate verify failed", "CERTIFICATE_VERIFY_FAILED");
}
END_TEST

/* The certificate names 127.0.0.1 and nothing else. */
START_TEST(wrong_name)
{
    char endpoint[PATH_ROOM];
    snprintf(endpoint, sizeof endpoint, "localhost%s", strchr(live_endpoint(0), ':'));
    etcdlock_client_options options = options_at(endpoint);
    expect_refused(&options, "localhost", "localhost");
}
END_TEST

/* A member whose certificate has expired. */
START_TEST(expired_server)
{
    etcdlock_client_options options = options_https();
    authority_issue(&ours, "127.0.0.1", -10, cluster_file("member1.pem"), cluster_file("member1-key.pem"));
    expect_refused(&options, "certificate verify failed", "CERTIFICATE_VERIFY_FAILED");
}
END_TEST

/* A client certificate that has expired, that the server does not know, or none at all. */
START_TEST(client_refused)
{
    etcdlock_client_options options = options_https();
    const char *cert_file = path_of("cert.pem"), *key_file = path_of("key.pem");
    authority_issue(_i == 1 ? &foreign : &ours, NULL, _i == 0 ? -10 : DAY_S, cert_file, key_file);
    options.cert_file = _i == 2 ? "" : cert_file;
    options.key_file = _i == 2 ? "" : key_file;
    expect_refused(&options, "is the client certificate", "certificate required");
}
END_TEST

/* Plain text to a member that wants TLS. */
START_TEST(plain_to_tls)
{
    etcdlock_client_options options = options_at(live_endpoint(0));
    options.ca_file = options.cert_file = options.key_file = "";
    expect_refused(&options, "does it want TLS", "does it want TLS");
}
END_TEST

/* TLS to one that speaks plain text, says nothing, or listens no more. */
START_TEST(tls_to_plain)
{
    stranger s;
    stranger_start(&s, _i == 0 ? "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" : NULL);
    etcdlock_client_options options = options_at(_i == 2 ? stranger_nobody() : s.endpoint);
    static const char *const words[] = {"wrong version number", "eadline", "onnect"};
    expect_refused(&options, words[_i], "WRONG_VERSION_NUMBER");
    stranger_end(&s);
}
END_TEST

int main(void)
{
    TCase *cases;
    /* The library would read them, too. */
    static const char *const variables[] = {"ETCDCTL_ENDPOINTS", "ETCDCTL_CACERT", "ETCDCTL_CERT",
                                            "ETCDCTL_KEY"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    Suite *suite = live_suite("tls_refused_fault", &cases, 30);
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, not_of_the_system);
    tcase_add_test(cases, of_the_system);
    tcase_add_test(cases, unknown_authority);
    tcase_add_test(cases, wrong_name);
    tcase_add_test(cases, expired_server);
    tcase_add_loop_test(cases, client_refused, 0, 3);
    tcase_add_test(cases, plain_to_tls);
    tcase_add_loop_test(cases, tls_to_plain, 0, 3);
    return live_run(suite);
}
