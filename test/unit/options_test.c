/* lib/core/options*.c: who says an option first, and what comes of it. */
#include "core/options.h"

#include <check.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "support/options_fixture.h"

/* With nothing said anywhere the defaults hold, and no text is NULL. */
START_TEST(defaults)
{
    options_expect(NULL);
    ck_assert_str_eq(options_got.endpoints, "127.0.0.1:2379");
    ck_assert_uint_eq(options_got.targets.n_targets, 1);
    ck_assert_int_eq(options_got.dial_timeout_ms, 2000);
    ck_assert_int_eq(options_got.command_timeout_ms, 5000);
    ck_assert_int_eq(options_got.keepalive_time_ms, 10000);
    ck_assert_int_eq(options_got.keepalive_timeout_ms, 6000);
    ck_assert_int_eq(options_got.log_level, ETCDLOCK_LOG_WARNING);
    ck_assert_int_eq(options_got.session.ttl_s, 10);
    ck_assert_int_eq(options_got.session.margin_ms, 0);
    ck_assert_int_eq(options_got.on_error, EL_ON_ERROR_RETURN);
    ck_assert(!options_got.tls && !options_got.ca_pem && !options_got.cert_pem && !options_got.key_pem);
    for (int i = 0; i < EL_OPTIONS; i++) {
        if (el_option_is_text(&el_option_table[i])) ck_assert_ptr_nonnull(*el_option_text(&options_got, i));
        ck_assert_int_eq(options_got.sources[i], EL_SOURCE_DEFAULT);
    }
}
END_TEST

/* Code goes before file, file before environment, environment before default. */
START_TEST(order_of_sources)
{
    etcdlock_client_options code = ETCDLOCK_CLIENT_OPTIONS_INIT;
    code.dial_timeout_ms = 111;
    code.log_level = ETCDLOCK_LOG_DEBUG;
    options_say_in_file(
        "{\"dial_timeout_ms\": 222, \"command_timeout_ms\": 222, \"log_level\": \"info\", \"ttl_s\": 22,"
        " \"margin_ms\": 222, \"label\": \"file\", \"on_error\": \"abort\"}");
    setenv("ETCDCTL_DIAL_TIMEOUT", "333ms", 1);
    setenv("ETCDCTL_COMMAND_TIMEOUT", "333ms", 1);
    setenv("ETCDCTL_KEEPALIVE_TIMEOUT", "333ms", 1);
    setenv("ETCDLOCK_LABEL", "environment", 1);
    setenv("ETCDLOCK_PREFIX", "prod/", 1);
    options_expect(&code);
    ck_assert_int_eq(options_got.dial_timeout_ms, 111);
    ck_assert_int_eq(options_got.command_timeout_ms, 222);
    ck_assert_int_eq(options_got.keepalive_timeout_ms, 333);
    ck_assert_int_eq(options_got.keepalive_time_ms, 10000);
    ck_assert_int_eq(options_got.log_level, ETCDLOCK_LOG_DEBUG);
    ck_assert_int_eq(options_got.session.ttl_s, 22);
    ck_assert_int_eq(options_got.session.margin_ms, 222);
    ck_assert_str_eq(options_got.session.label, "file");
    ck_assert_str_eq(options_got.key_prefix, "prod/");
    ck_assert_int_eq(options_got.on_error, EL_ON_ERROR_ABORT);
    ck_assert_str_eq(options_got.config_file, options_config);
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
    options_expect(&code);
    ck_assert_str_eq(options_got.key_prefix, "");
    ck_assert_str_eq(options_got.endpoints, "127.0.0.1:2379");
    code.endpoints = "";
    options_refuse(&code, EINVAL, "endpoints (in code): endpoint \"\": it is empty");
}
END_TEST

/* A mistake in a variable that the code makes superfluous hurts nobody. */
START_TEST(unneeded_variable)
{
    etcdlock_client_options code = ETCDLOCK_CLIENT_OPTIONS_INIT;
    setenv("ETCDCTL_DIAL_TIMEOUT", "soon", 1);
    code.dial_timeout_ms = 50;
    options_expect(&code);
    ck_assert_int_eq(options_got.dial_timeout_ms, 50);
}
END_TEST

static int one_session(const etcdlock_session_options *code, el_session_settings *settings)
{
    return el_session_options_resolve(settings, &options_got, code, &options_failure);
}

/* A session takes its own code first, then what file, environment and defaults said to the client. */
START_TEST(sessions)
{
    etcdlock_session_options code = ETCDLOCK_SESSION_OPTIONS_INIT;
    el_session_settings settings;
    options_say_in_file("{\"ttl_s\": 22, \"label\": \"file\"}");
    options_expect(NULL);
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
    ck_assert_str_eq(options_failure.text,
                     "ttl_s (in code): -1 is refused, allowed is a whole number, 1 to 86400 s");
    ck_assert_ptr_null(settings.label);
    code.size = 0;
    ck_assert_int_eq(one_session(&code, &settings), EINVAL);
    ck_assert_ptr_nonnull(strstr(options_failure.text, "ETCDLOCK_SESSION_OPTIONS_INIT"));
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
    options_expect(&newer.known);
    ck_assert_int_eq(options_got.log_level, ETCDLOCK_LOG_INFO);
    newer.beyond[1] = 1;
    options_refuse(&newer.known, EINVAL, "made for a newer version");
    newer.known.size = offsetof(etcdlock_client_options, command_timeout_ms);
    options_expect(&newer.known);
    ck_assert_int_eq(options_got.dial_timeout_ms, 100);
    ck_assert_int_eq(options_got.log_level, ETCDLOCK_LOG_WARNING);
    static const size_t absurd[] = {0, 1, 7, 9, 4104, SIZE_MAX};
    for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++) {
        newer.known.size = absurd[i];
        options_refuse(&newer.known, EINVAL, "ETCDLOCK_CLIENT_OPTIONS_INIT");
    }
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
    options_write_file(options_config, "-----BEGIN X-----", 17);
    snprintf(json, sizeof(json),
             "{\"endpoints\": \"a,b\", \"user\": \"u:p\", \"ca_file\": \"%s\", \"label\": \"l\"}",
             options_config);
    char *path = strdup(options_config);
    strcpy(options_config + strlen(options_config) - 4, "2");
    options_say_in_file(json);
    strcpy(options_config, path);
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
        error = el_options_resolve(&options_got, NULL, &options_failure);
        el_alloc_fail_after(-1);
        ck_assert_msg(error == 0 || error == ENOMEM, "%s", options_failure.text);
        if (error) ck_assert_int_eq(el_alloc_alive(), options_alive);
    }
    el_alloc_fail_after(0);
    ck_assert_int_eq(one_session(NULL, &settings), ENOMEM);
    el_alloc_fail_after(-1);
    error = ENOMEM;
    el_options_free(&options_got);
    for (long n = 0; error; n++) {
        el_alloc_fail_after(n);
        error = etcdlock_client_options_resolve(&shown);
        el_alloc_fail_after(-1);
        ck_assert(error == 0 || error == ENOMEM);
        if (error) ck_assert_int_eq(el_alloc_alive(), options_alive);
    }
    options_alive = el_alloc_alive(); /* this thread's last result */
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
        error = el_options_resolve(&options_got, NULL, &options_failure);
        ck_assert_msg(error == 0 || error == ENOMEM, "%s", options_failure.text);
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
        defaults, order_of_sources, empty_texts, unneeded_variable, sessions, margins, struct_sizes, public_resolve, no_memory, no_memory_in_cjson, markdown,
    };
    /* clang-format on */
    return options_run("options", tests, sizeof(tests) / sizeof(tests[0]));
}
