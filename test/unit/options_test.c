/* lib/core/options*.c: who says an option first, and what is refused. */
#include "core/options.h"

#include <check.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"

static el_options options;
static el_failure failure;
static char folder[] = "/tmp/options_test.XXXXXX";
static char config[64];
static long alive;

static void write_file(const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

static void say_in_file(const char *json)
{
    write_file(config, json, strlen(json));
    setenv("ETCDLOCK_CONFIG", config, 1);
}

static void set_up(void)
{
    for (int i = 0; i < EL_OPTIONS; i++)
        unsetenv(el_option_table[i].variable);
    memset(&options, 0, sizeof(options));
    alive = el_alloc_alive();
}

static void tear_down(void)
{
    el_options_free(&options);
    ck_assert_int_eq(el_alloc_alive(), alive);
}

static void resolve(const etcdlock_client_options *code)
{
    el_options_free(&options);
    failure = (el_failure){0};
    errno = 77;
    ck_assert_msg(el_options_resolve(&options, code, &failure) == 0, "%s", failure.text);
    ck_assert_int_eq(errno, 77);
}

/* Resolving fails with this error, nothing is kept, and the message has these words. */
static void refuse(const etcdlock_client_options *code, int error, const char *words)
{
    el_options_free(&options);
    int got = el_options_resolve(&options, code, &failure);
    ck_assert_msg(got == error, "%d %s, expected: %s", got, failure.text, words);
    ck_assert_msg(strstr(failure.text, words) != NULL, "%s, expected: %s", failure.text, words);
    ck_assert_ptr_null(strchr(failure.text, '\n'));
    ck_assert_int_eq(failure.error, error);
    ck_assert_int_eq(el_alloc_alive(), alive);
}

static void refuse_variable(const char *variable, const char *value, const char *words)
{
    setenv(variable, value, 1);
    refuse(NULL, EINVAL, words);
    ck_assert_ptr_nonnull(strstr(failure.text, variable));
    unsetenv(variable);
}

static void refuse_file(const char *json, const char *words)
{
    say_in_file(json);
    refuse(NULL, EINVAL, words);
    ck_assert_ptr_nonnull(strstr(failure.text, config));
}

/* With nothing said anywhere the defaults hold, and no text is NULL. */
START_TEST(defaults)
{
    resolve(NULL);
    ck_assert_str_eq(options.endpoints, "127.0.0.1:2379");
    ck_assert_uint_eq(options.targets.n_targets, 1);
    ck_assert_int_eq(options.dial_timeout_ms, 2000);
    ck_assert_int_eq(options.command_timeout_ms, 5000);
    ck_assert_int_eq(options.keepalive_time_ms, 10000);
    ck_assert_int_eq(options.keepalive_timeout_ms, 6000);
    ck_assert_int_eq(options.log_level, ETCDLOCK_LOG_WARNING);
    ck_assert_int_eq(options.session.ttl_s, 10);
    ck_assert_int_eq(options.session.margin_ms, 0);
    ck_assert_int_eq(options.on_error, EL_ON_ERROR_RETURN);
    ck_assert(!options.tls && !options.ca_pem && !options.cert_pem && !options.key_pem);
    for (int i = 0; i < EL_OPTIONS; i++) {
        if (el_option_is_text(&el_option_table[i])) ck_assert_ptr_nonnull(*el_option_text(&options, i));
        ck_assert_int_eq(options.sources[i], EL_SOURCE_DEFAULT);
    }
}
END_TEST

/* Code goes before file, file before environment, environment before default. */
START_TEST(order_of_sources)
{
    etcdlock_client_options code = ETCDLOCK_CLIENT_OPTIONS_INIT;
    code.dial_timeout_ms = 111;
    code.log_level = ETCDLOCK_LOG_DEBUG;
    say_in_file(
        "{\"dial_timeout_ms\": 222, \"command_timeout_ms\": 222, \"log_level\": \"info\", \"ttl_s\": 22,"
        " \"margin_ms\": 222, \"label\": \"file\", \"on_error\": \"abort\"}");
    setenv("ETCDCTL_DIAL_TIMEOUT", "333ms", 1);
    setenv("ETCDCTL_COMMAND_TIMEOUT", "333ms", 1);
    setenv("ETCDCTL_KEEPALIVE_TIMEOUT", "333ms", 1);
    setenv("ETCDLOCK_LABEL", "environment", 1);
    setenv("ETCDLOCK_PREFIX", "prod/", 1);
    resolve(&code);
    ck_assert_int_eq(options.dial_timeout_ms, 111);
    ck_assert_int_eq(options.command_timeout_ms, 222);
    ck_assert_int_eq(options.keepalive_timeout_ms, 333);
    ck_assert_int_eq(options.keepalive_time_ms, 10000);
    ck_assert_int_eq(options.log_level, ETCDLOCK_LOG_DEBUG);
    ck_assert_int_eq(options.session.ttl_s, 22);
    ck_assert_int_eq(options.session.margin_ms, 222);
    ck_assert_str_eq(options.session.label, "file");
    ck_assert_str_eq(options.key_prefix, "prod/");
    ck_assert_int_eq(options.on_error, EL_ON_ERROR_ABORT);
    ck_assert_str_eq(options.config_file, config);
}
END_TEST

/* "" in code or file says "none" and hides what comes later; an empty variable says nothing. */
START_TEST(empty_texts)
{
    etcdlock_client_options code = ETCDLOCK_CLIENT_OPTIONS_INIT;
    setenv("ETCDLOCK_CONFIG", "/nowhere", 1);
    setenv("ETCDLOCK_PREFIX", "prod/", 1);
    setenv("ETCDCTL_ENDPOINTS", "", 1);
    setenv("ETCDCTL_DIAL_TIMEOUT", "", 1);
    code.config_file = "";
    code.key_prefix = "";
    resolve(&code);
    ck_assert_str_eq(options.key_prefix, "");
    ck_assert_str_eq(options.endpoints, "127.0.0.1:2379");
    code.endpoints = "";
    refuse(&code, EINVAL, "endpoints (in code): endpoint \"\": it is empty");
}
END_TEST

/* A mistake in a variable that the code makes superfluous hurts nobody. */
START_TEST(unneeded_variable)
{
    etcdlock_client_options code = ETCDLOCK_CLIENT_OPTIONS_INIT;
    setenv("ETCDCTL_DIAL_TIMEOUT", "soon", 1);
    code.dial_timeout_ms = 50;
    resolve(&code);
    ck_assert_int_eq(options.dial_timeout_ms, 50);
}
END_TEST

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
                resolve(NULL);
                ck_assert_int_eq(*el_option_number(&options, i), good ? numbers[k] : row->min);
            } else {
                refuse(NULL, EINVAL, el_option_allowed(range, i, EL_SOURCE_ENVIRONMENT));
                ck_assert_ptr_nonnull(strstr(failure.text, text));
            }
            unsetenv(row->variable);
            snprintf(text, sizeof(text), "{\"%s\": %lld}", row->name, (long long)numbers[k]);
            if (!good) {
                refuse_file(text, el_option_allowed(range, i, EL_SOURCE_FILE));
            } else {
                say_in_file(text);
                resolve(NULL);
                ck_assert_int_eq(*el_option_number(&options, i), numbers[k]);
            }
            unsetenv("ETCDLOCK_CONFIG");
            etcdlock_client_options code = ETCDLOCK_CLIENT_OPTIONS_INIT;
            if (row->scope != EL_SCOPE_CLIENT || numbers[k] == 0) continue;
            memcpy((char *)&code + row->code_offset, &numbers[k], sizeof(numbers[k]));
            if (good)
                resolve(&code);
            else
                refuse(&code, EINVAL, el_option_allowed(range, i, EL_SOURCE_CODE));
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
        refuse(NULL, EINVAL, "bytes");
        if (row->secret) ck_assert_ptr_null(strstr(failure.text, "xxx"));
        if (i == EL_OPTION_LABEL || i == EL_OPTION_KEY_PREFIX) {
            text[row->max] = '\0';
            setenv(row->variable, text, 1);
            resolve(NULL);
            ck_assert_str_eq(*el_option_text(&options, i), text);
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
    resolve(NULL);
    ck_assert_int_eq(options.session.ttl_s, 120);
    ck_assert_int_eq(options.session.margin_ms, 250);
    ck_assert_int_eq(options.log_level, ETCDLOCK_LOG_DEBUG);
    ck_assert_int_eq(options.on_error, EL_ON_ERROR_ABORT);
    ck_assert_int_eq(options.dial_timeout_ms, 3000);
    ck_assert_int_eq(options.keepalive_time_ms, 5000);
    setenv("ETCDLOCK_TTL", "30", 1);
    setenv("ETCDLOCK_LOG_LEVEL", "1", 1);
    resolve(NULL);
    ck_assert_int_eq(options.session.ttl_s, 30);
    ck_assert_int_eq(options.log_level, ETCDLOCK_LOG_ERROR);
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
    write_file(config, "{}\0{}", 5);
    refuse(NULL, EINVAL, "holds a NUL byte");
    say_in_file("{\"label\": \"a\\\\u0000\", \"log_level\": 4} \n");
    resolve(NULL);
    ck_assert_str_eq(options.session.label, "a\\u0000");
}
END_TEST

/* A file that cannot be read gives its own error, with the path and who named it. */
START_TEST(unreadable_files)
{
    etcdlock_client_options code = ETCDLOCK_CLIENT_OPTIONS_INIT;
    code.config_file = "/nowhere/x.json";
    refuse(&code, ENOENT, "config_file (in code): cannot read /nowhere/x.json: No such file");
    code.config_file = folder;
    refuse(&code, EISDIR, folder);
    code.config_file = "/dev/zero";
    refuse(&code, EFBIG, "over 1 MiB");
    code.config_file = NULL;
    setenv("ETCDCTL_CACERT", "/nowhere/ca.pem", 1);
    refuse(&code, ENOENT, "ca_file (environment variable ETCDCTL_CACERT): cannot read /nowhere/ca.pem");
}
END_TEST

static int one_session(const etcdlock_session_options *code, el_session_settings *settings)
{
    return el_session_options_resolve(settings, &options, code, &failure);
}

/* A session takes its own code first, then what file, environment and defaults said to the client. */
START_TEST(sessions)
{
    etcdlock_session_options code = ETCDLOCK_SESSION_OPTIONS_INIT;
    el_session_settings settings;
    say_in_file("{\"ttl_s\": 22, \"label\": \"file\"}");
    resolve(NULL);
    code.margin_ms = 300;
    code.on_state_arg = &code;
    ck_assert_int_eq(one_session(&code, &settings), 0);
    ck_assert_int_eq(settings.ttl_s, 22);
    ck_assert_int_eq(settings.margin_ms, 300);
    ck_assert_str_eq(settings.label, "file");
    ck_assert_ptr_eq(settings.on_state_arg, &code);
    el_session_settings_free(&settings);
    ck_assert_int_eq(one_session(NULL, &settings), 0);
    ck_assert_int_eq(settings.margin_ms, 0);
    el_session_settings_free(&settings);
    code.ttl_s = -1;
    ck_assert_int_eq(one_session(&code, &settings), EINVAL);
    ck_assert_str_eq(failure.text, "ttl_s (in code): -1 is refused, allowed is a whole number, 1 to 86400 s");
    ck_assert_ptr_null(settings.label);
    code.size = 0;
    ck_assert_int_eq(one_session(&code, &settings), EINVAL);
    ck_assert_ptr_nonnull(strstr(failure.text, "ETCDLOCK_SESSION_OPTIONS_INIT"));
}
END_TEST

/* The automatic margin is 5 % between 100 ms and 1 s; any margin must be below half of the time to live. */
START_TEST(margins)
{
    static const int64_t cases[][3] = {{0, 1, 100},         {0, 2, 100},           {0, 10, 500},
                                       {0, 20, 1000},       {0, 9000000000, 1000}, {1, 1, 1},
                                       {499, 1, 499},       {500, 1, -1},          {-1, 10, -1},
                                       {0, 0, -1},          {0, -5, -1},           {INT64_MAX, INT64_MAX, -1},
                                       {0, INT64_MAX, 1000}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t margin_ms = -1;
        int error = el_margin_ms(cases[i][0], cases[i][1], &margin_ms);
        ck_assert_int_eq(margin_ms, cases[i][2]);
        ck_assert_int_eq(error, margin_ms < 0 ? EINVAL : 0);
    }
}
END_TEST

/* Options of an older version say less; those of a newer one are taken as long as what is new is not set. */
START_TEST(struct_sizes)
{
    struct {
        etcdlock_client_options known;
        int64_t beyond[2];
    } newer = {.known = {.size = sizeof(newer), .dial_timeout_ms = 100, .log_level = ETCDLOCK_LOG_INFO}};
    resolve(&newer.known);
    ck_assert_int_eq(options.log_level, ETCDLOCK_LOG_INFO);
    newer.beyond[1] = 1;
    refuse(&newer.known, EINVAL, "made for a newer version");
    newer.known.size = offsetof(etcdlock_client_options, command_timeout_ms);
    resolve(&newer.known);
    ck_assert_int_eq(options.dial_timeout_ms, 100);
    ck_assert_int_eq(options.log_level, ETCDLOCK_LOG_WARNING);
    static const size_t absurd[] = {0, 1, 7, 9, 4104, SIZE_MAX};
    for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++) {
        newer.known.size = absurd[i];
        refuse(&newer.known, EINVAL, "ETCDLOCK_CLIENT_OPTIONS_INIT");
    }
}
END_TEST

static void expect_user(const char *user, const char *password)
{
    resolve(NULL);
    ck_assert_str_eq(options.user, user);
    ck_assert_str_eq(options.password, password);
}

/* "name:password" is split, except when a password is said as early; one without the other is refused. */
START_TEST(users)
{
    setenv("ETCDCTL_USER", "root:s:t", 1);
    expect_user("root", "s:t");
    setenv("ETCDCTL_PASSWORD", "pw", 1);
    expect_user("root:s:t", "pw");
    say_in_file("{\"user\": \"bob:x\"}");
    expect_user("bob", "x");
    say_in_file("{\"user\": \"bob\"}");
    expect_user("bob", "pw");
    say_in_file("{\"user\": \"\"}");
    expect_user("", "");
    say_in_file("{}");
    unsetenv("ETCDCTL_USER");
    refuse(NULL, EINVAL, "password (environment variable ETCDCTL_PASSWORD) is given without user");
    unsetenv("ETCDCTL_PASSWORD");
    setenv("ETCDCTL_USER", "hidden", 1);
    refuse(NULL, EINVAL, "user (environment variable ETCDCTL_USER) is given without password");
    ck_assert_ptr_null(strstr(failure.text, "hidden"));
    setenv("ETCDCTL_USER", ":hidden", 1);
    refuse(NULL, EINVAL, "without user");
}
END_TEST

/* Files, https:// or ETCDCTL_INSECURE_TRANSPORT=false turn TLS on; the files' contents are taken along. */
START_TEST(tls)
{
    static const char pem[] = "-----BEGIN SOMETHING-----\n";
    resolve(NULL);
    ck_assert(!options.tls);
    setenv("ETCDCTL_INSECURE_TRANSPORT", "false", 1);
    resolve(NULL);
    ck_assert(options.tls);
    setenv("ETCDCTL_INSECURE_TRANSPORT", "true", 1);
    setenv("ETCDCTL_ENDPOINTS", "https://a", 1);
    resolve(NULL);
    ck_assert(options.tls);
    setenv("ETCDCTL_ENDPOINTS", "a,http://b", 1);
    write_file(config, pem, sizeof(pem) - 1);
    setenv("ETCDCTL_CACERT", config, 1);
    resolve(NULL);
    ck_assert(options.tls);
    ck_assert_str_eq(options.ca_pem, pem);
    unsetenv("ETCDCTL_CACERT");
    setenv("ETCDCTL_CERT", config, 1);
    refuse(NULL, EINVAL,
           "cert_file (environment variable ETCDCTL_CERT) is given without key_file (ETCDCTL_KEY)");
    setenv("ETCDCTL_KEY", config, 1);
    resolve(NULL);
    ck_assert(options.tls);
    ck_assert_str_eq(options.cert_pem, pem);
    ck_assert_str_eq(options.key_pem, pem);
    unsetenv("ETCDCTL_CERT");
    refuse(NULL, EINVAL, "is given without cert_file");
    unsetenv("ETCDCTL_KEY");
    write_file(config, "x", 1);
    setenv("ETCDCTL_CACERT", config, 1);
    refuse(NULL, EINVAL, "is not in PEM format");
}
END_TEST

/* What etcdctl has and this library has not is refused with advice, where it would matter. */
START_TEST(not_supported)
{
    setenv("ETCDCTL_INSECURE_SKIP_TLS_VERIFY", "false", 1);
    resolve(NULL);
    setenv("ETCDCTL_INSECURE_SKIP_TLS_VERIFY", "true", 1);
    refuse(NULL, ENOTSUP, "ca_file");
    unsetenv("ETCDCTL_INSECURE_SKIP_TLS_VERIFY");
    setenv("ETCDCTL_DISCOVERY_SRV", "example.com", 1);
    refuse(NULL, ENOTSUP, "ETCDCTL_ENDPOINTS");
    setenv("ETCDCTL_ENDPOINTS", "a", 1);
    resolve(NULL);
}
END_TEST

static void *show_twice(void *unused)
{
    etcdlock_client_options shown = ETCDLOCK_CLIENT_OPTIONS_INIT;
    (void)unused;
    ck_assert_int_eq(etcdlock_client_options_resolve(&shown), 0);
    ck_assert_str_eq(shown.endpoints, "a:1");
    ck_assert_str_eq(shown.user, "root");
    ck_assert_str_eq(shown.password, "pw");
    ck_assert_int_eq(shown.log_level, ETCDLOCK_LOG_WARNING);
    setenv("ETCDCTL_ENDPOINTS", "b:1", 1);
    ck_assert_int_eq(etcdlock_client_options_resolve(&shown), 0);
    ck_assert_str_eq(shown.endpoints, "a:1");
    shown.dial_timeout_ms = 1;
    ck_assert_int_eq(etcdlock_client_options_resolve(&shown), EINVAL);
    ck_assert_ptr_nonnull(strstr(etcdlock_error_message(), "dial_timeout_ms (in code): 1 is refused"));
    ck_assert_str_eq(shown.endpoints, "a:1");
    shown = (etcdlock_client_options){.size = offsetof(etcdlock_client_options, user)};
    shown.user = "untouched";
    ck_assert_int_eq(etcdlock_client_options_resolve(&shown), 0);
    ck_assert_str_eq(shown.endpoints, "b:1");
    ck_assert_str_eq(shown.user, "untouched");
    return NULL;
}

/* The public function fills what fits, may be given its own result, and its memory goes with the thread. */
START_TEST(public_resolve)
{
    pthread_t thread;
    setenv("ETCDCTL_ENDPOINTS", "a:1", 1);
    setenv("ETCDCTL_USER", "root:pw", 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, show_twice, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(etcdlock_client_options_resolve(NULL), EINVAL);
}
END_TEST

static void say_everything(void)
{
    char json[512];
    write_file(config, "-----BEGIN X-----", 17);
    snprintf(json, sizeof(json),
             "{\"endpoints\": \"a,b\", \"user\": \"u:p\", \"ca_file\": \"%s\", \"label\": \"l\"}", config);
    char *path = strdup(config);
    strcpy(config + strlen(config) - 4, "2");
    say_in_file(json);
    strcpy(config, path);
    free(path);
}

/* Whichever allocation fails, the answer is ENOMEM and nothing is left behind. */
START_TEST(no_memory)
{
    etcdlock_client_options shown = ETCDLOCK_CLIENT_OPTIONS_INIT;
    el_session_settings settings;
    int error = ENOMEM;
    say_everything();
    for (long n = 0; error; n++) {
        el_alloc_fail_after(n);
        error = el_options_resolve(&options, NULL, &failure);
        el_alloc_fail_after(-1);
        ck_assert_msg(error == 0 || error == ENOMEM, "%s", failure.text);
        if (error) ck_assert_int_eq(el_alloc_alive(), alive);
    }
    el_alloc_fail_after(0);
    ck_assert_int_eq(one_session(NULL, &settings), ENOMEM);
    el_alloc_fail_after(-1);
    error = ENOMEM;
    el_options_free(&options);
    for (long n = 0; error; n++) {
        el_alloc_fail_after(n);
        error = etcdlock_client_options_resolve(&shown);
        el_alloc_fail_after(-1);
        ck_assert(error == 0 || error == ENOMEM);
        if (error) ck_assert_int_eq(el_alloc_alive(), alive);
    }
    alive = el_alloc_alive(); /* this thread's last result */
}
END_TEST

static long cjson_left;

static void *cjson_malloc(size_t size)
{
    if (cjson_left-- > 0) return malloc(size);
    errno = ENOMEM;
    return NULL;
}

/* When cJSON's memory runs out, a good file is not called broken. */
START_TEST(no_memory_in_cjson)
{
    cJSON_Hooks hooks = {cjson_malloc, free};
    int error = ENOMEM;
    say_everything();
    cJSON_InitHooks(&hooks);
    for (long n = 0; error; n++) {
        cjson_left = n;
        error = el_options_resolve(&options, NULL, &failure);
        ck_assert_msg(error == 0 || error == ENOMEM, "%s", failure.text);
    }
    cJSON_InitHooks(NULL);
}
END_TEST

/* The README's table has a line of six columns for each option. */
START_TEST(markdown)
{
    char *text = NULL;
    size_t size;
    size_t lines = 0;
    size_t bars = 0;
    FILE *out = open_memstream(&text, &size);
    el_options_print_markdown(out);
    fclose(out);
    for (size_t i = 0; i < size; i++) {
        lines += text[i] == '\n';
        bars += text[i] == '|';
    }
    ck_assert_uint_eq(lines, 2 + EL_OPTIONS);
    ck_assert_uint_eq(bars, 7 * lines);
    ck_assert_ptr_nonnull(strstr(text, "| `ttl_s` | session | `ETCDLOCK_TTL` | 10 s |"));
    free(text);
}
END_TEST

int main(void)
{
    /* clang-format off */
    const TTest *const tests[] = {
        defaults, order_of_sources, empty_texts, unneeded_variable, durations, ranges, long_texts, bad_variables,
        good_variables, bad_files, unreadable_files, sessions, margins, struct_sizes, users, tls, not_supported,
        public_resolve, no_memory, no_memory_in_cjson, markdown,
    };
    /* clang-format on */
    Suite *suite = suite_create("options");
    TCase *cases = tcase_create("resolve");
    if (!mkdtemp(folder)) return 1;
    snprintf(config, sizeof(config), "%s/config.json", folder);
    tcase_set_timeout(cases, 60); /* for valgrind */
    tcase_add_checked_fixture(cases, set_up, tear_down);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(cases, tests[i]);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    unlink(config);
    strcpy(config + strlen(config) - 4, "2");
    unlink(config);
    rmdir(folder);
    return failed != 0;
}
