/* lib/core/options*.c: what code, file and variables may say, and what is refused. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/options_fixture.h"

static void refuse_variable(const char *variable, const char *value, const char *words)
{
    setenv(variable, value, 1);
    options_refuse(NULL, EINVAL, words);
    ck_assert_ptr_nonnull(strstr(options_failure.text, variable));
    unsetenv(variable);
}

static void refuse_file(const char *json, const char *words)
{
    options_say_in_file(json);
    options_refuse(NULL, EINVAL, words);
    ck_assert_ptr_nonnull(strstr(options_failure.text, options_config));
}

/* Durations are read as Go writes them; a number alone gets the given unit. */
START_TEST(durations)
{
    char good[] =
        "2s=2000 1500ms=1500 1m30s=90000 1.5s=1500 +1h=3600000 0=0 0s=0 10=10000 1.5=1500 .5s=500 5.s=5000 "
        "0.1s=100 1ms500us=2 100000000ns=100 7\302\265s=1 1000\316\274s=1 1h1m1s1ms=3661001 1s1s=2000 "
        "0.3s=300 2.675s=2675 99999999999999999999h=9223372036854775807 "
        "99999999999999999999=9223372036854775807";
    static const char *const bad[] = {"",   "s",   "-1s", "1s ", " 1s", "1 s", "1x",     "1s5",  "0s5", ".",
                                      ".s", "1e3", "1,5", "1ss", "1d",  "inf", "1.2.3s", "++1s", "0x10"};
    int64_t ms;
    char *rest;
    for (char *text = strtok_r(good, " ", &rest); text; text = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(text, '=');
        *equals = '\0';
        ck_assert_msg(el_duration_parse(text, 1000, &ms), "%s", text);
        ck_assert_msg(ms == atoll(equals + 1), "%s: %lld", text, (long long)ms);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!el_duration_parse(bad[i], 1000, &ms), "%s", bad[i]);
    }
}
END_TEST

/* Every number of the table is taken at its bounds and refused beyond them, in code, file and variable. */
START_TEST(ranges)
{
    for (int i = 0; i < EL_OPTIONS; i++) {
        const el_option_row *row = &el_option_table[i];
        bool duration = row->type == EL_TYPE_MILLISECONDS || row->type == EL_TYPE_SECONDS;
        for (int k = 0; k < 4 && duration; k++) {
            const int64_t numbers[] = {row->min, row->max, row->min - 1, row->max + 1};
            bool good = k < 2;
            char text[64];
            char range[EL_ALLOWED_SIZE];
            snprintf(text, sizeof(text), "%lld%s", (long long)numbers[k], row->unit);
            setenv(row->variable, text, 1);
            if (good || (row->raise && k == 2)) {
                options_expect(NULL);
                ck_assert_int_eq(*el_option_number(&options_got, i), good ? numbers[k] : row->min);
            } else {
                options_refuse(NULL, EINVAL, el_option_allowed(range, i, EL_SOURCE_ENVIRONMENT));
                ck_assert_ptr_nonnull(strstr(options_failure.text, text));
            }
            unsetenv(row->variable);
            snprintf(text, sizeof(text), "{\"%s\": %lld}", row->name, (long long)numbers[k]);
            if (!good) {
                refuse_file(text, el_option_allowed(range, i, EL_SOURCE_FILE));
            } else {
                options_say_in_file(text);
                options_expect(NULL);
                ck_assert_int_eq(*el_option_number(&options_got, i), numbers[k]);
            }
            unsetenv("ETCDLOCK_CONFIG");
            etcdlock_client_options code = ETCDLOCK_CLIENT_OPTIONS_INIT;
            if (row->scope != EL_SCOPE_CLIENT || numbers[k] == 0) continue;
            memcpy((char *)&code + row->code_offset, &numbers[k], sizeof(numbers[k]));
            if (good)
                options_expect(&code);
            else
                options_refuse(&code, EINVAL, el_option_allowed(range, i, EL_SOURCE_CODE));
        }
    }
}
END_TEST

/* Every text of the table is taken at its longest and refused when one byte longer. */
START_TEST(long_texts)
{
    for (int i = 0; i < EL_OPTIONS; i++) {
        const el_option_row *row = &el_option_table[i];
        if (!el_option_is_text(row)) continue;
        char *text = calloc(1, (size_t)row->max + 2);
        memset(text, 'x', (size_t)row->max + 1);
        setenv(row->variable, text, 1);
        options_refuse(NULL, EINVAL, "bytes");
        if (row->secret) ck_assert_ptr_null(strstr(options_failure.text, "xxx"));
        if (i == EL_OPTION_LABEL || i == EL_OPTION_KEY_PREFIX) {
            text[row->max] = '\0';
            setenv(row->variable, text, 1);
            options_expect(NULL);
            ck_assert_str_eq(*el_option_text(&options_got, i), text);
        }
        unsetenv(row->variable);
        free(text);
    }
}
END_TEST

/* Variables in a wrong notation are refused with the option, the variable, the value and what is allowed. */
START_TEST(bad_variables)
{
    refuse_variable(
        "ETCDCTL_DIAL_TIMEOUT", "soon",
        "dial_timeout_ms (environment variable ETCDCTL_DIAL_TIMEOUT): soon is refused, allowed is a "
        "duration such as 90s or 1m30s or a number of seconds, 10 to 600000 ms");
    refuse_variable("ETCDCTL_KEEPALIVE_TIME", "-2s", "5000 to");
    refuse_variable("ETCDLOCK_TTL", "1500ms", "1 to 86400 s");
    refuse_variable("ETCDLOCK_TTL", "0", "1 to 86400 s");
    refuse_variable("ETCDLOCK_MARGIN_MS", "x\ny", "x?y is refused");
    refuse_variable("ETCDLOCK_LOG_LEVEL", "5", "error, warning, info or debug, or 1 to 4");
    refuse_variable("ETCDLOCK_LOG_LEVEL", "11", "error");
    refuse_variable("ETCDLOCK_GROUP_MAX", "8 or so", "a whole number, 1 to 64");
    refuse_variable("ETCDLOCK_GROUP_MAX", "65", "a whole number, 1 to 64");
    refuse_variable("ETCDLOCK_ON_ERROR", "1", "return or abort");
    refuse_variable("ETCDCTL_INSECURE_TRANSPORT", "yes", "true or false");
    refuse_variable("ETCDCTL_ENDPOINTS", "a,,b", "it is empty");
}
END_TEST

/* The notations that are ours: seconds or a duration for the time to live, milliseconds for the margin. */
START_TEST(good_variables)
{
    setenv("ETCDLOCK_TTL", "2m", 1);
    setenv("ETCDLOCK_MARGIN_MS", "250", 1);
    setenv("ETCDLOCK_LOG_LEVEL", "Debug", 1);
    setenv("ETCDLOCK_ON_ERROR", "abort", 1);
    setenv("ETCDCTL_DIAL_TIMEOUT", "3", 1);
    setenv("ETCDCTL_KEEPALIVE_TIME", "2s", 1);
    setenv("ETCDLOCK_GROUP_MAX", "7", 1);
    options_expect(NULL);
    ck_assert_int_eq(options_got.group_max, 7);
    ck_assert_int_eq(options_got.session.ttl_s, 120);
    ck_assert_int_eq(options_got.session.margin_ms, 250);
    ck_assert_int_eq(options_got.log_level, ETCDLOCK_LOG_DEBUG);
    ck_assert_int_eq(options_got.on_error, EL_ON_ERROR_ABORT);
    ck_assert_int_eq(options_got.dial_timeout_ms, 3000);
    ck_assert_int_eq(options_got.keepalive_time_ms, 5000);
    setenv("ETCDLOCK_TTL", "30", 1);
    setenv("ETCDLOCK_LOG_LEVEL", "1", 1);
    options_expect(NULL);
    ck_assert_int_eq(options_got.session.ttl_s, 30);
    ck_assert_int_eq(options_got.log_level, ETCDLOCK_LOG_ERROR);
}
END_TEST

/* Files with unknown, repeated or badly valued keys are refused by name, broken ones by line. */
START_TEST(bad_files)
{
    refuse_file("{\"ttl\": 5}", "\"ttl\" is no option");
    refuse_file("{\"a\\nb\": 5}", "\"a?b\" is no option");
    refuse_file("{\"config_file\": \"x\"}", "\"config_file\" is no option");
    refuse_file("{\"discovery_srv\": \"x\"}", "is no option");
    refuse_file("{\"ttl_s\": 5, \"label\": \"x\", \"ttl_s\": 5}", "\"ttl_s\" is there twice");
    refuse_file("{\"ttl_s\": \"5\"}", "ttl_s (in the file ");
    refuse_file("{\"ttl_s\": 5.5}", "5.5 is refused, allowed is a whole number, 1 to 86400 s");
    refuse_file("{\"ttl_s\": 1e99}", "1 to 86400 s");
    refuse_file("{\"ttl_s\": null}", "null is refused");
    refuse_file("{\"margin_ms\": 0}", "1 to 43199999 ms");
    refuse_file("{\"label\": 5}", "5 is refused");
    refuse_file("{\"endpoints\": [\"a\"]}", "[\"a\"] is refused");
    refuse_file("{\"password\": 12345}", "(not shown)");
    refuse_file("{\"log_level\": \"all\"}", "error, warning");
    refuse_file("{\"log_level\": 5}", "error, warning");
    refuse_file("{\"on_error\": 2}", "return or abort");
    refuse_file("[]", "an object");
    refuse_file("{\n\"ttl_s\": 5,\n\"label\" \"x\"}\n", "line 3: this is not JSON");
    refuse_file("{\n\"ttl_s\": 5\n} x", "line 3: this is not JSON");
    refuse_file("", "line 1: this is not JSON");
    refuse_file("{\"ttl_s\": 5", "line 1: this is not JSON");
    refuse_file("{\n\"label\": \"a\\u0000b\"}", "line 2: this is not JSON");
    options_write_file(options_config, "{}\0{}", 5);
    options_refuse(NULL, EINVAL, "holds a NUL byte");
    options_say_in_file("{\"label\": \"a\\\\u0000\", \"log_level\": 4} \n");
    options_expect(NULL);
    ck_assert_str_eq(options_got.session.label, "a\\u0000");
}
END_TEST

/* A file that cannot be read gives its own error, with the path and who named it. */
START_TEST(unreadable_files)
{
    etcdlock_client_options code = ETCDLOCK_CLIENT_OPTIONS_INIT;
    code.config_file = "/nowhere/x.json";
    options_refuse(&code, ENOENT, "config_file (in code): cannot read /nowhere/x.json: No such file");
    code.config_file = options_folder;
    options_refuse(&code, EISDIR, options_folder);
    code.config_file = "/dev/zero";
    options_refuse(&code, EFBIG, "over 1 MiB");
    code.config_file = NULL;
    setenv("ETCDCTL_CACERT", "/nowhere/ca.pem", 1);
    options_refuse(&code, ENOENT,
                   "ca_file (environment variable ETCDCTL_CACERT): cannot read /nowhere/ca.pem");
}
END_TEST

static void expect_user(const char *user, const char *password)
{
    options_expect(NULL);
    ck_assert_str_eq(options_got.user, user);
    ck_assert_str_eq(options_got.password, password);
}

/* "name:password" is split, except when a password is said as early; one without the other is refused. */
START_TEST(users)
{
    setenv("ETCDCTL_USER", "root:s:t", 1);
    expect_user("root", "s:t");
    setenv("ETCDCTL_PASSWORD", "pw", 1);
    expect_user("root:s:t", "pw");
    options_say_in_file("{\"user\": \"bob:x\"}");
    expect_user("bob", "x");
    options_say_in_file("{\"user\": \"bob\"}");
    expect_user("bob", "pw");
    options_say_in_file("{\"user\": \"\"}");
    expect_user("", "");
    options_say_in_file("{}");
    unsetenv("ETCDCTL_USER");
    options_refuse(NULL, EINVAL, "password (environment variable ETCDCTL_PASSWORD) is given without user");
    unsetenv("ETCDCTL_PASSWORD");
    setenv("ETCDCTL_USER", "hidden", 1);
    options_refuse(NULL, EINVAL, "user (environment variable ETCDCTL_USER) is given without password");
    ck_assert_ptr_null(strstr(options_failure.text, "hidden"));
    setenv("ETCDCTL_USER", ":hidden", 1);
    options_refuse(NULL, EINVAL, "without user");
}
END_TEST

/* Files, https:// or ETCDCTL_INSECURE_TRANSPORT=false turn TLS on; the files' contents are taken along. */
START_TEST(tls)
{
    static const char pem[] = "-----BEGIN SOMETHING-----\n";
    options_expect(NULL);
    ck_assert(!options_got.tls);
    setenv("ETCDCTL_INSECURE_TRANSPORT", "false", 1);
    options_expect(NULL);
    ck_assert(options_got.tls);
    setenv("ETCDCTL_INSECURE_TRANSPORT", "true", 1);
    setenv("ETCDCTL_ENDPOINTS", "https://a", 1);
    options_expect(NULL);
    ck_assert(options_got.tls);
    setenv("ETCDCTL_ENDPOINTS", "a,http://b", 1);
    options_write_file(options_config, pem, sizeof(pem) - 1);
    setenv("ETCDCTL_CACERT", options_config, 1);
    options_expect(NULL);
    ck_assert(options_got.tls);
    ck_assert_str_eq(options_got.ca_pem, pem);
    unsetenv("ETCDCTL_CACERT");
    setenv("ETCDCTL_CERT", options_config, 1);
    options_refuse(NULL, EINVAL,
                   "cert_file (environment variable ETCDCTL_CERT) is given without key_file (ETCDCTL_KEY)");
    setenv("ETCDCTL_KEY", options_config, 1);
    options_expect(NULL);
    ck_assert(options_got.tls);
    ck_assert_str_eq(options_got.cert_pem, pem);
    ck_assert_str_eq(options_got.key_pem, pem);
    unsetenv("ETCDCTL_CERT");
    options_refuse(NULL, EINVAL, "is given without cert_file");
    unsetenv("ETCDCTL_KEY");
    options_write_file(options_config, "x", 1);
    setenv("ETCDCTL_CACERT", options_config, 1);
    options_refuse(NULL, EINVAL, "is not in PEM format");
}
END_TEST

/* What etcdctl has and this library has not is refused with advice, where it would matter. */
START_TEST(not_supported)
{
    setenv("ETCDCTL_INSECURE_SKIP_TLS_VERIFY", "false", 1);
    options_expect(NULL);
    setenv("ETCDCTL_INSECURE_SKIP_TLS_VERIFY", "true", 1);
    options_refuse(NULL, ENOTSUP, "ca_file");
    unsetenv("ETCDCTL_INSECURE_SKIP_TLS_VERIFY");
    setenv("ETCDCTL_DISCOVERY_SRV", "example.com", 1);
    options_refuse(NULL, ENOTSUP, "ETCDCTL_ENDPOINTS");
    setenv("ETCDCTL_ENDPOINTS", "a", 1);
    options_expect(NULL);
}
END_TEST

int main(void)
{
    /* clang-format off */
    const TTest *const tests[] = {
        durations, ranges, long_texts, bad_variables, good_variables, bad_files, unreadable_files, users, tls, not_supported,
    };
    /* clang-format on */
    return options_run("options_values", tests, sizeof(tests) / sizeof(tests[0]));
}
