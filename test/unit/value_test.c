/* lib/core/value.c: what a lock key says about its holder, written and read. */
#include "core/value.h"

#include <check.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "support/runner.h"

static const int64_t largest = (INT64_C(1) << 53) - 1;

static const el_value full = {
    .host = "node-1",
    .program = "worker",
    .label = "nightly \"run\" \\ \n \x01 \xC3\xA9 \xF0\x9F\x94\x92",
    .pid = 4242,
    .thread = 4243,
    .since_unix_ms = 1764421200123,
    .acquisition = "0123456789abcdef",
};

/* cJSON's memory, failing by countdown; -1: never. */
static long cjson_left = -1;
static long cjson_alive;

static void *cjson_malloc(size_t size)
{
    if (cjson_left == 0) {
        errno = ENOMEM;
        return NULL;
    }
    if (cjson_left > 0) cjson_left--;
    cjson_alive++;
    return malloc(size);
}

static void cjson_free(void *memory)
{
    cjson_alive -= memory != NULL;
    free(memory);
}

static void expect_same(const el_value *a, const el_value *b)
{
    ck_assert_str_eq(a->host, b->host);
    ck_assert_str_eq(a->program, b->program);
    ck_assert_str_eq(a->label, b->label);
    ck_assert_str_eq(a->acquisition, b->acquisition);
    ck_assert_int_eq(a->pid, b->pid);
    ck_assert_int_eq(a->thread, b->thread);
    ck_assert_int_eq(a->since_unix_ms, b->since_unix_ms);
}

static void expect_read(const char *data, size_t size, const el_value *expected)
{
    el_value value;
    char *text;
    long alive = el_alloc_alive();
    /* On the heap without a byte to spare, so that ASan and valgrind see any look beyond. */
    char *exact = malloc(size ? size : 1);
    if (size) memcpy(exact, data, size);
    errno = 77;
    ck_assert_int_eq(el_value_read(&value, &text, exact, size), 0);
    ck_assert_int_eq(errno, 77);
    free(exact);
    expect_same(&value, expected);
    el_free(text);
    ck_assert_int_eq(el_alloc_alive(), alive);
}

static void expect_empty(const char *data, size_t size)
{
    static const el_value empty = {.host = "", .program = "", .label = "", .acquisition = ""};
    expect_read(data, size, &empty);
}

static void expect_label(const char *label, const char *expected)
{
    el_value value = full;
    size_t size;
    value.label = label;
    char *json = el_value_write(&value, &size);
    ck_assert_ptr_nonnull(json);
    value.label = expected;
    expect_read(json, size, &value);
    el_free(json);
}

/* What is written is read back the same, escapes and all. */
START_TEST(round_trip)
{
    size_t size;
    char *json = el_value_write(&full, &size);
    ck_assert_ptr_nonnull(json);
    ck_assert_uint_eq(strlen(json), size);
    ck_assert_ptr_nonnull(strstr(json, "\"since_unix_ms\":1764421200123,"));
    expect_read(json, size, &full);
    el_free(json);
}
END_TEST

/* Fields that are NULL or 0 are left out and read as empty. */
START_TEST(nothing_said)
{
    el_value nothing = {0};
    size_t size;
    char *json = el_value_write(&nothing, &size);
    ck_assert_str_eq(json, "{}");
    expect_empty(json, size);
    el_free(json);
}
END_TEST

/* Whole numbers below 2^53 survive exactly, also negative ones; others are not written. */
START_TEST(numbers_written)
{
    el_value value = full;
    size_t size;
    value.pid = largest;
    value.thread = -largest;
    char *json = el_value_write(&value, &size);
    expect_read(json, size, &value);
    el_free(json);

    value.pid = largest + 1;
    value.thread = INT64_MIN;
    json = el_value_write(&value, &size);
    value.pid = 0;
    value.thread = 0;
    expect_read(json, size, &value);
    el_free(json);
}
END_TEST

/* Numbers that are too large, have a fraction or are no numbers count as missing. */
START_TEST(numbers_read)
{
    static const char *const bad[] = {
        "9007199254740992",
        "-9007199254740992",
        "9007199254740993",
        "1e300",
        "1e999",
        "-1e999",
        "1.5",
        "\"7\"",
        "null",
        "true",
        "[7]",
        "{}",
    };
    el_value expected = {.host = "h", .program = "", .label = "", .acquisition = "", .thread = 7};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char json[128];
        int size = snprintf(json, sizeof(json), "{\"pid\":%s,\"thread\":7,\"host\":\"h\"}", bad[i]);
        expect_read(json, (size_t)size, &expected);
    }
    expected.pid = largest;
    const char *good = "{\"pid\":9007199254740991,\"thread\":7e0,\"host\":\"h\"}";
    expect_read(good, strlen(good), &expected);
}
END_TEST

/* Texts of the wrong type count as missing; the acquisition is a text too. */
START_TEST(texts_read)
{
    const char *json = "{\"host\":1,\"program\":null,\"label\":[\"x\"],\"acquisition\":1234567890123456}";
    expect_empty(json, strlen(json));
    json = "{\"Host\":\"x\",\"hosts\":\"y\",\"\":\"z\"}";
    expect_empty(json, strlen(json));
}
END_TEST

/* Bytes that are no UTF-8 become '?', each of them, and good ones stay. */
START_TEST(invalid_utf8)
{
    expect_label("a\xff"
                 "b",
                 "a?b");
    expect_label("\xC3", "?");
    expect_label("\xC3\xA9\xC3", "\xC3\xA9?");
    expect_label("\xC0\xAF", "??");
    expect_label("\xE0\x80\xAF", "???");
    expect_label("\xED\xA0\x80", "???");
    expect_label("\xED\x9F\xBF", "\xED\x9F\xBF");
    expect_label("\xF0\x80\x80\x80", "????");
    expect_label("\xF4\x90\x80\x80", "????");
    expect_label("\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF");
    expect_label("\xF0\x9F\x94", "???");
    expect_label("\xE2\x82 x", "?? x");
}
END_TEST

/* What is no JSON object, as the empty values of etcdctl and Go, is an empty value. */
START_TEST(foreign_values)
{
    static const char *const foreign[] = {
        "",
        " ",
        "x",
        "null",
        "12",
        "\"text\"",
        "[]",
        "[{\"host\":\"h\"}]",
        "{",
        "}",
        "{\"host\"",
        "{\"host\":\"h\"} x",
        "{\"host\":\"h\",}",
        "{host:1}",
        "\xff\xfe\xfd",
        "{\"host\":\"\\ud800\"}",
        "{\"host\":\"\\",
        "{\"a\":1",
    };
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        expect_empty(foreign[i], strlen(foreign[i]));
    }
    expect_empty("{\"host\":\"h\"}\0", 13);
    expect_empty("{\"host\":\"h\0h\"}", 14);
    expect_empty(NULL, 0);
}
END_TEST

/* Every beginning of a good value is an empty value, read without a look beyond its end. */
START_TEST(cut_values)
{
    size_t size;
    char *json = el_value_write(&full, &size);
    for (size_t i = 0; i < size; i++)
        expect_empty(json, i);
    el_free(json);
}
END_TEST

/* Values with any byte changed neither crash nor leak. */
START_TEST(changed_values)
{
    size_t size;
    long alive = el_alloc_alive();
    char *json = el_value_write(&full, &size);
    for (size_t i = 0; i < size * 16; i++) {
        static const char bytes[] = "\"\\{}[]:,0-.eu\x80\xff\x01";
        char *changed = el_memdup(json, size);
        el_value value;
        char *text;
        changed[i / 16] = bytes[i % 16];
        ck_assert_int_eq(el_value_read(&value, &text, changed, size), 0);
        ck_assert_ptr_nonnull(value.host);
        el_free(text);
        el_free(changed);
    }
    el_free(json);
    ck_assert_int_eq(el_alloc_alive(), alive);
}
END_TEST

/* Deep nesting and huge values are refused before they cost stack or time. */
START_TEST(deep_and_huge)
{
    size_t size = 4u * 1024 * 1024;
    char *data = malloc(size);
    memset(data, '[', size);
    expect_empty(data, size);
    expect_empty(data, 60000);
    expect_empty(data, 1000);
    for (size_t i = 0; i + 5 <= 60000; i += 5)
        memcpy(data + i, "{\"a\":", 5);
    expect_empty(data, 60000);
    memset(data, ' ', size);
    memcpy(data, "{\"host\":\"h\"}", 12);
    expect_empty(data, size);
    expect_read(data, 60000, &(el_value){.host = "h", .program = "", .label = "", .acquisition = ""});
    free(data);
}
END_TEST

/* Whichever of our own allocations fails, write gives NULL, read gives ENOMEM, and nothing is left behind. */
START_TEST(no_memory)
{
    size_t size;
    char *json = NULL;
    long alive = el_alloc_alive();
    for (long n = 0; !json; n++) {
        el_alloc_fail_after(n);
        json = el_value_write(&full, &size);
        el_alloc_fail_after(-1);
        if (!json) ck_assert_int_eq(el_alloc_alive(), alive);
    }
    int error = ENOMEM;
    for (long n = 0; error; n++) {
        el_value value;
        char *text;
        el_alloc_fail_after(n);
        error = el_value_read(&value, &text, json, size);
        el_alloc_fail_after(-1);
        ck_assert(error == 0 || error == ENOMEM);
        ck_assert_str_eq(value.acquisition, error ? "" : full.acquisition);
        el_free(text);
    }
    el_free(json);
    ck_assert_int_eq(el_alloc_alive(), alive);
}
END_TEST

/* When cJSON's memory runs out, a good value is not taken for somebody else's: read says ENOMEM. */
START_TEST(no_memory_in_cjson)
{
    cJSON_Hooks hooks = {cjson_malloc, cjson_free};
    size_t size;
    char *json = NULL;
    cJSON_InitHooks(&hooks);
    for (long n = 0; !json; n++) {
        cjson_left = n;
        json = el_value_write(&full, &size);
        ck_assert_int_eq(cjson_alive, 0);
    }
    int error = ENOMEM;
    for (long n = 0; error; n++) {
        el_value value;
        char *text;
        cjson_left = n;
        error = el_value_read(&value, &text, json, size);
        ck_assert(error == 0 || error == ENOMEM);
        if (!error) ck_assert_str_eq(value.acquisition, full.acquisition);
        ck_assert_int_eq(cjson_alive, 0);
        el_free(text);
    }
    cjson_left = -1;
    cJSON_InitHooks(NULL);
    el_free(json);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("value");
    TCase *tests = tcase_create("value");
    tcase_set_timeout(tests, 60); /* for valgrind */
    tcase_add_test(tests, round_trip);
    tcase_add_test(tests, nothing_said);
    tcase_add_test(tests, numbers_written);
    tcase_add_test(tests, numbers_read);
    tcase_add_test(tests, texts_read);
    tcase_add_test(tests, invalid_utf8);
    tcase_add_test(tests, foreign_values);
    tcase_add_test(tests, cut_values);
    tcase_add_test(tests, changed_values);
    tcase_add_test(tests, deep_and_huge);
    tcase_add_test(tests, no_memory);
    tcase_add_test(tests, no_memory_in_cjson);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
