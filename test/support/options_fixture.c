#include "support/options_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/alloc.h"
#include "support/runner.h"

el_options options_got;
el_failure options_failure;
char options_folder[] = "/tmp/options_test.XXXXXX";
char options_config[64];
long options_alive;

void options_write_file(const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

void options_say_in_file(const char *json)
{
    options_write_file(options_config, json, strlen(json));
    setenv("ETCDLOCK_CONFIG", options_config, 1);
}

static void set_up(void)
{
    for (int i = 0; i < EL_OPTIONS; i++)
        unsetenv(el_option_table[i].variable);
    memset(&options_got, 0, sizeof(options_got));
    options_alive = el_alloc_alive();
}

static void tear_down(void)
{
    el_options_free(&options_got);
    ck_assert_int_eq(el_alloc_alive(), options_alive);
}

void options_expect(const etcdlock_client_options *code)
{
    el_options_free(&options_got);
    options_failure = (el_failure){0};
    errno = 77;
    ck_assert_msg(el_options_resolve(&options_got, code, &options_failure) == 0, "%s", options_failure.text);
    ck_assert_int_eq(errno, 77);
}

void options_refuse(const etcdlock_client_options *code, int error, const char *words)
{
    el_options_free(&options_got);
    int got = el_options_resolve(&options_got, code, &options_failure);
    ck_assert_msg(got == error, "%d %s, expected: %s", got, options_failure.text, words);
    ck_assert_msg(strstr(options_failure.text, words) != NULL, "%s, expected: %s", options_failure.text,
                  words);
    ck_assert_ptr_null(strchr(options_failure.text, '\n'));
    ck_assert_int_eq(options_failure.error, error);
    ck_assert_int_eq(el_alloc_alive(), options_alive);
}

int options_run(const char *name, const TTest *const *tests, size_t n_tests)
{
    Suite *suite = suite_create(name);
    TCase *cases = tcase_create("resolve");
    if (!mkdtemp(options_folder)) return 1;
    snprintf(options_config, sizeof(options_config), "%s/config.json", options_folder);
    tcase_set_timeout(cases, 60); /* for valgrind */
    tcase_add_checked_fixture(cases, set_up, tear_down);
    for (size_t i = 0; i < n_tests; i++)
        tcase_add_test(cases, tests[i]);
    suite_add_tcase(suite, cases);
    int status = runner_run(suite);
    unlink(options_config);
    strcpy(options_config + strlen(options_config) - 4, "2"); /* some write a second file beside it */
    unlink(options_config);
    rmdir(options_folder);
    return status;
}
