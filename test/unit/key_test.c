/* lib/core/key.c: names that are allowed, and which keys count as entries. */
#include "core/key.h"

#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "support/runner.h"

static el_failure failure;

static void allow(const char *name)
{
    failure = (el_failure){0};
    ck_assert_msg(el_name_check(name, &failure) == 0, "%s", failure.text);
    ck_assert_int_eq(failure.error, 0);
}

static void refuse(const char *name, const char *words)
{
    failure = (el_failure){0};
    ck_assert_int_eq(el_name_check(name, &failure), EINVAL);
    ck_assert_int_eq(failure.error, EINVAL);
    ck_assert_msg(strstr(failure.text, words) != NULL, "%s", failure.text);
    ck_assert_int_eq(el_name_check(name, NULL), EINVAL);
}

static el_span span(const char *text)
{
    return el_span_of(text, strlen(text));
}

/* What stands behind the folder "pre/NAME/" has this shape. */
static void expect(const char *entry, el_entry_shape shape)
{
    char key[256];
    snprintf(key, sizeof(key), "pre/NAME/%s", entry);
    ck_assert_msg(el_key_shape(span(key), span("pre/NAME/")) == shape, "%s", entry);
}

/* Any bytes but NUL make a name, single slashes inside too. */
START_TEST(good_names)
{
    char name[EL_NAME_MAX + 1] = "";
    allow("a");
    allow("a/b/c");
    allow(" ");
    allow("\xff\x01%s \n");
    allow(".");
    allow("r-1");
    memset(name, 'x', EL_NAME_MAX);
    allow(name);
}
END_TEST

/* No name, an empty, long one, or one whose slashes would make empty parts is refused with the reason. */
START_TEST(bad_names)
{
    char name[EL_NAME_MAX + 2] = "";
    refuse(NULL, "no lock name");
    refuse("", "empty");
    refuse("/", "begins or ends");
    refuse("/a", "begins or ends");
    refuse("a/", "begins or ends");
    refuse("a//b", "\"//\"");
    refuse("a///b", "\"//\"");
    memset(name, 'x', EL_NAME_MAX + 1);
    refuse(name, "1025 bytes");
}
END_TEST

/* A lease in lower-case hex, with a sign or a number behind it, is a mutex entry. */
START_TEST(writers)
{
    expect("0", EL_SHAPE_WRITER);
    expect("694d7a1b2c3d4e5f", EL_SHAPE_WRITER);
    expect("7fffffffffffffff", EL_SHAPE_WRITER);
    expect("-8000000000000000", EL_SHAPE_WRITER);
    expect("-1", EL_SHAPE_WRITER);
    expect("abc-1", EL_SHAPE_WRITER);
    expect("abc-65535", EL_SHAPE_WRITER);
    expect("-abc-12", EL_SHAPE_WRITER);
    expect("ffffffffffffffff-4294967295", EL_SHAPE_WRITER);
}
END_TEST

/* The same behind "r-" is a reader's. */
START_TEST(readers)
{
    expect("r-0", EL_SHAPE_READER);
    expect("r-694d7a1b2c3d4e5f", EL_SHAPE_READER);
    expect("r--8000000000000000", EL_SHAPE_READER);
    expect("r--1", EL_SHAPE_READER);
    expect("r-abc-1", EL_SHAPE_READER);
    expect("r--abc-12", EL_SHAPE_READER);
    expect("r--ffffffffffffffff-4294967295", EL_SHAPE_READER);
}
END_TEST

/* Everything else under the folder blocks nobody. */
START_TEST(strays)
{
    static const char *const entries[] = {
        "junk",
        "ABC",
        "aBc",
        "12345678901234567",
        "r-12345678901234567",
        "-12345678901234567",
        "abc-",
        "r-",
        "r-abc-",
        "r--",
        "-",
        "--",
        "--1",
        "r---1",
        "abc--1",
        "abc-1-2",
        "abc-f",
        "abc-1x",
        "abc/",
        "abc/1",
        "a/b/c",
        "/",
        "/abc",
        "r-/1",
        "R-abc",
        "r",
        "rabc",
        "r-r-1",
        "-r-1",
        "abc ",
        " abc",
        "abc-1/",
        "abc-1/2",
        "0x12",
        "abc-+1",
        "abc- 1",
        "g",
        "abc\xff",
        "abc-12345678901",
        "r-abc-00000000000000000000000000000000000000000000000001",
    };
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
        expect(entries[i], EL_SHAPE_STRAY);
    ck_assert_int_eq(el_key_shape(el_span_of("f/1\0", 4), span("f/")), EL_SHAPE_STRAY);
}
END_TEST

/* A key that is not in the folder is no entry of it, however it looks. */
START_TEST(other_folders)
{
    ck_assert_int_eq(el_key_shape(span("NAME/"), span("NAME/")), EL_SHAPE_STRAY);
    ck_assert_int_eq(el_key_shape(span("NAME"), span("NAME/")), EL_SHAPE_STRAY);
    ck_assert_int_eq(el_key_shape(span(""), span("NAME/")), EL_SHAPE_STRAY);
    ck_assert_int_eq(el_key_shape(span("NAMF/1"), span("NAME/")), EL_SHAPE_STRAY);
    ck_assert_int_eq(el_key_shape(span("NAME01"), span("NAME/")), EL_SHAPE_STRAY);
    ck_assert_int_eq(el_key_shape(span("NAME/1"), span("NAME/")), EL_SHAPE_WRITER);
}
END_TEST

/* What is written reads as what it is, is at most as long as promised, and looks as Go writes it. */
START_TEST(round_trip)
{
    static const int64_t leases[] = {1, 0x694d7a1b2c3d4e5f, INT64_MAX, -1, -0x1234, INT64_MIN};
    static const unsigned slots[] = {0, 1, 65535, UINT32_MAX};
    el_span folder = span("pre/NAME/");
    char buffer[9 + EL_ENTRY_MAX + 1 + 1];
    for (size_t i = 0; i < sizeof(leases) / sizeof(leases[0]); i++) {
        for (size_t k = 0; k < 8; k++) {
            bool reader = k % 2;
            memset(buffer, '#', sizeof(buffer));
            size_t size = el_key_write(buffer, folder, reader, leases[i], slots[k / 2]);
            ck_assert_uint_eq(size, strlen(buffer));
            ck_assert_uint_le(size, folder.size + EL_ENTRY_MAX);
            ck_assert_int_eq(buffer[sizeof(buffer) - 1], '#');
            ck_assert_int_eq(el_key_shape(el_span_of(buffer, size), folder),
                             reader ? EL_SHAPE_READER : EL_SHAPE_WRITER);
        }
    }
    el_key_write(buffer, folder, false, 0x694d7a1b2c3d4e5f, 0);
    ck_assert_str_eq(buffer, "pre/NAME/694d7a1b2c3d4e5f");
    el_key_write(buffer, folder, false, -0x1234, 0);
    ck_assert_str_eq(buffer, "pre/NAME/-1234");
    el_key_write(buffer, folder, true, INT64_MIN, 12);
    ck_assert_str_eq(buffer, "pre/NAME/r--8000000000000000-12");
}
END_TEST

/* No key that counts as an entry is longer than the room that contenders keep for one. */
START_TEST(entries_have_a_bound)
{
    char entry[128];
    for (int zeros = 0; zeros < 100; zeros++) {
        for (int reader = 0; reader < 2; reader++) {
            int size = snprintf(entry, sizeof(entry), "NAME/%s-123456789abcdef0-%0*d", reader ? "r-" : "",
                                zeros + 1, 1);
            bool fits = (size_t)size <= 5 + EL_ENTRY_MAX;
            bool is_entry = el_key_shape(el_span_of(entry, (size_t)size), span("NAME/")) != EL_SHAPE_STRAY;
            ck_assert_msg(fits || !is_entry, "%s", entry);
        }
    }
}
END_TEST

/* Spans are equal by their bytes, NUL bytes included. */
START_TEST(span_equality)
{
    char copy[] = "ab\0c";
    ck_assert(el_span_equal(el_span_of("ab\0c", 4), el_span_of(copy, 4)));
    ck_assert(!el_span_equal(el_span_of("ab\0c", 4), el_span_of("ab\0d", 4)));
    ck_assert(!el_span_equal(el_span_of("ab", 2), el_span_of("abc", 3)));
    ck_assert(el_span_equal(el_span_of("a", 0), el_span_of("b", 0)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("key");
    TCase *tests = tcase_create("key");
    tcase_add_test(tests, good_names);
    tcase_add_test(tests, bad_names);
    tcase_add_test(tests, writers);
    tcase_add_test(tests, readers);
    tcase_add_test(tests, strays);
    tcase_add_test(tests, other_folders);
    tcase_add_test(tests, round_trip);
    tcase_add_test(tests, entries_have_a_bound);
    tcase_add_test(tests, span_equality);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
