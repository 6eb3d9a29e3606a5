/* Options from a JSON file and from the environment, as a running client uses them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/etcdctl.h"
#include "support/live.h"
#include "support/stranger.h"

static char path[] = "/tmp/etcdlock-config-XXXXXX";

static const char *write_file(const char *text)
{
    static const char template[] = "/tmp/etcdlock-config-XXXXXX";
    memcpy(path, template, sizeof template);
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

/* A client with these options, or NULL for none, can lock under `name`, and its key begins with whole_key. */
static void expect_lock(const etcdlock_client_options *options, const char *name, const char *whole_key,
                        int64_t ttl_s, const char *label)
{
    party p;
    etcdctl_key key;
    int error = etcdlock_client_open(&p.client, options);
    ck_assert_msg(error == 0, "%d %s", error, etcdlock_error_message());
    p.session = party_session(&p, 0);
    p.mutex = party_mutex(&p, name, 0);
    ck_assert_int_eq(etcdlock_session_ttl_s(p.session), ttl_s);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_uint_eq(etcdctl_keys(whole_key, &key, 1), 1);
    ck_assert_ptr_nonnull(strstr(key.value, label));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}

/* Everything can be said in a file: endpoints, namespace, and what its sessions are like. */
START_TEST(file)
{
    char text[1024];
    etcdlock_client_options options = ETCDLOCK_CLIENT_OPTIONS_INIT;
    snprintf(
        text, sizeof text,
        "{\"endpoints\": \"%s\", \"key_prefix\": \"%sfile/\", \"ttl_s\": 23, \"label\": \"from the file\"}",
        getenv("ETCDLOCK_TEST_ENDPOINTS"), live_prefix());
    options.config_file = write_file(text);
    setenv("ETCDCTL_ENDPOINTS", stranger_nobody(), 1); /* the file comes before it */
    expect_lock(&options, "a", live_name("file/a/"), 23, "from the file");
    unlink(path);
}
END_TEST

/* What code says comes before the file. */
START_TEST(code_before_file)
{
    char text[1024];
    etcdlock_client_options options = live_options();
    snprintf(text, sizeof text, "{\"endpoints\": \"%s\", \"key_prefix\": \"nowhere/\"}", stranger_nobody());
    options.config_file = write_file(text);
    options.key_prefix = live_name("code/");
    expect_lock(&options, "a", live_name("code/a/"), 10, "");
    unlink(path);
}
END_TEST

/* A file that is no JSON, has an unknown name, or a value that is refused: EINVAL, and the message says what.
 */
START_TEST(bad_file)
{
    static const char *const texts[][2] = {
        {"", "JSON"},
        {"{", "JSON"},
        {"[]", "object"},
        {"{\"ttl\": 3}", "ttl"},
        {"{\"ttl_s\": -1}", "ttl_s"},
        {"{\"endpoints\": 7}", "endpoints"},
    };
    etcdlock_client_options options = ETCDLOCK_CLIENT_OPTIONS_INIT;
    etcdlock_client *client;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        options.config_file = write_file(texts[i][0]);
        ck_assert_msg(etcdlock_client_open(&client, &options) == EINVAL, "'%s'", texts[i][0]);
        ck_assert_ptr_null(client);
        ck_assert_msg(strstr(etcdlock_error_message(), texts[i][1]) != NULL, "%s", etcdlock_error_message());
        unlink(path);
    }
}
END_TEST

/* Without options everything comes from the environment, in etcdctl's notation. */
START_TEST(environment)
{
    setenv("ETCDCTL_ENDPOINTS", getenv("ETCDLOCK_TEST_ENDPOINTS"), 1);
    setenv("ETCDLOCK_PREFIX", live_name("env/"), 1);
    setenv("ETCDLOCK_TTL", "17s", 1);
    setenv("ETCDLOCK_LABEL", "from the environment", 1);
    setenv("ETCDCTL_COMMAND_TIMEOUT", "1m30s", 1);
    setenv("ETCDCTL_DIAL_TIMEOUT", "1500ms", 1);
    expect_lock(NULL, "a", live_name("env/a/"), 17, "from the environment");
    etcdlock_client_options shown = ETCDLOCK_CLIENT_OPTIONS_INIT;
    ck_assert_int_eq(etcdlock_client_options_resolve(&shown), 0);
    ck_assert_str_eq(shown.endpoints, getenv("ETCDLOCK_TEST_ENDPOINTS"));
    ck_assert_str_eq(shown.key_prefix, live_name("env/"));
    ck_assert_int_eq(shown.command_timeout_ms, 90000);
    ck_assert_int_eq(shown.dial_timeout_ms, 1500);
    ck_assert_int_eq(shown.keepalive_time_ms, 10000);
}
END_TEST

/* A file can be named in the environment, and http:// before an endpoint is etcdctl's way to write it. */
START_TEST(file_from_environment)
{
    char text[1024];
    snprintf(text, sizeof text, "{\"endpoints\": \"http://%s\", \"key_prefix\": \"%s\"}", live_endpoint(0),
             live_name("both/"));
    setenv("ETCDLOCK_CONFIG", write_file(text), 1);
    expect_lock(NULL, "a", live_name("both/a/"), 10, "");
    unlink(path);
    etcdlock_client *client;
    ck_assert_int_eq(etcdlock_client_open(&client, NULL), ENOENT);
    ck_assert_ptr_nonnull(strstr(etcdlock_error_message(), "ETCDLOCK_CONFIG"));
}
END_TEST

/* Malformed variables are EINVAL and named; what this library does not have is ENOTSUP. */
START_TEST(bad_environment)
{
    static const char *const bad[][3] = {
        {"ETCDCTL_DIAL_TIMEOUT", "soon", "EINVAL"},
        {"ETCDCTL_COMMAND_TIMEOUT", "-1s", "EINVAL"},
        {"ETCDLOCK_TTL", "0", "EINVAL"},
        {"ETCDLOCK_TTL", "1500ms", "EINVAL"},
        {"ETCDLOCK_LOG_LEVEL", "loud", "EINVAL"},
        {"ETCDCTL_ENDPOINTS", "host:port", "EINVAL"},
        {"ETCDLOCK_ON_ERROR", "explode", "EINVAL"},
        {"ETCDCTL_INSECURE_SKIP_TLS_VERIFY", "true", "ENOTSUP"},
        {"ETCDCTL_DISCOVERY_SRV", "etcd.example", "ENOTSUP"},
    };
    etcdlock_client *client;
    unsetenv("ETCDCTL_ENDPOINTS");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv(bad[i][0], bad[i][1], 1);
        int expected = strcmp(bad[i][2], "EINVAL") == 0 ? EINVAL : ENOTSUP;
        ck_assert_msg(etcdlock_client_open(&client, NULL) == expected, "%s=%s", bad[i][0], bad[i][1]);
        ck_assert_ptr_null(client);
        ck_assert_msg(strstr(etcdlock_error_message(), bad[i][0]) != NULL, "%s", etcdlock_error_message());
        unsetenv(bad[i][0]);
    }
}
END_TEST

/* A session that says something itself is not told by file or environment. */
START_TEST(session_before_client)
{
    etcdlock_client_options options = live_options();
    party p = {0};
    setenv("ETCDLOCK_TTL", "17", 1);
    ck_assert_int_eq(etcdlock_client_open(&p.client, &options), 0);
    p.session = party_session(&p, 21);
    ck_assert_int_eq(etcdlock_session_ttl_s(p.session), 21);
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("config", &cases, 20);
    tcase_add_test(cases, file);
    tcase_add_test(cases, code_before_file);
    tcase_add_test(cases, bad_file);
    tcase_add_test(cases, environment);
    tcase_add_test(cases, file_from_environment);
    tcase_add_test(cases, bad_environment);
    tcase_add_test(cases, session_before_client);
    return live_run(suite);
}
