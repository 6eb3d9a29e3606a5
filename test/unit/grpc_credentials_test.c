/* TLS credentials that follow their files. */
#include <check.h>
#include <grpc/grpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/file.h"
#include "support/authority.h"
#include "support/runner.h"
#include "transport/grpc_credentials.h"

enum { DAY_S = 24 * 3600, PATH_ROOM = 64, COUNTDOWN_MAX = 100 };

static authority one, two;
static char folder[40], paths[EL_GRPC_FILES][PATH_ROOM], *pems[EL_GRPC_FILES];
static el_grpc_credentials credentials;

static void write_ca(const authority *a)
{
    authority_write(&a, 1, paths[EL_GRPC_CA]);
}

static void issue(const authority *a)
{
    authority_issue(a, NULL, DAY_S, paths[EL_GRPC_CERT], paths[EL_GRPC_KEY]);
}

static void set_up(void)
{
    static const char *const names[] = {"ca", "cert", "key"};
    const char *target = "127.0.0.1:1";
    size_t size;
    grpc_init();
    strcpy(folder, "/tmp/etcdlock-credentials-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int i = 0; i < EL_GRPC_FILES; i++)
        snprintf(paths[i], PATH_ROOM, "%s/%s", folder, names[i]);
    authority_make(&one, "one");
    authority_make(&two, "two");
    write_ca(&one);
    issue(&one);
    for (int i = 0; i < EL_GRPC_FILES; i++)
        ck_assert_int_eq(el_file_read(paths[i], &pems[i], &size), 0);
    el_grpc_config config = {
        .targets = &target,
        .n_targets = 1,
        .tls = true,
        .ca_pem = pems[EL_GRPC_CA],
        .cert_pem = pems[EL_GRPC_CERT],
        .key_pem = pems[EL_GRPC_KEY],
        .ca_file = paths[EL_GRPC_CA],
        .cert_file = paths[EL_GRPC_CERT],
        .key_file = paths[EL_GRPC_KEY],
    };
    ck_assert_int_eq(el_grpc_credentials_init(&credentials, &config), 0);
}

static void tear_down(void)
{
    el_grpc_credentials_clear(&credentials);
    for (int i = 0; i < EL_GRPC_FILES; i++) {
        el_free(pems[i]);
        unlink(paths[i]);
    }
    rmdir(folder);
    authority_end(&one);
    authority_end(&two);
    ck_assert_int_eq(el_alloc_alive(), 0);
    grpc_shutdown();
}

/* How often the credentials have become others, after one more look. */
static unsigned generation(void)
{
    el_grpc_credentials_refresh(&credentials);
    return credentials.generation;
}

static void overwrite(int file, const char *text)
{
    FILE *to = fopen(paths[file], "we");
    ck_assert_ptr_nonnull(to);
    fputs(text, to);
    ck_assert_int_eq(fclose(to), 0);
}

/* Files that are as they were, or were written again with the same contents, change nothing. */
START_TEST(same)
{
    ck_assert_uint_eq(generation(), 0);
    for (int i = 0; i < EL_GRPC_FILES; i++)
        overwrite(i, pems[i]);
    ck_assert_uint_eq(generation(), 0);
    ck_assert_uint_eq(generation(), 0);
}
END_TEST

/* Another pair, and another authority, are taken once each. */
START_TEST(others)
{
    issue(&one);
    ck_assert_uint_eq(generation(), 1);
    ck_assert_uint_eq(generation(), 1);
    write_ca(&two);
    ck_assert_uint_eq(generation(), 2);
}
END_TEST

/* A pair that does not fit together, half a file, an empty one, garbage, none: passed over until all is well.
 */
START_TEST(unusable)
{
    char half[200];
    issue(&one);
    overwrite(EL_GRPC_KEY, pems[EL_GRPC_KEY]);
    ck_assert_uint_eq(generation(), 0);
    snprintf(half, sizeof half, "%s", pems[EL_GRPC_CERT]);
    overwrite(EL_GRPC_CERT, half);
    ck_assert_uint_eq(generation(), 0);
    overwrite(EL_GRPC_CERT, pems[EL_GRPC_CERT]);
    overwrite(EL_GRPC_CA, "");
    ck_assert_uint_eq(generation(), 0);
    snprintf(half, sizeof half, "%s", pems[EL_GRPC_CA]);
    overwrite(EL_GRPC_CA, half);
    ck_assert_uint_eq(generation(), 0);
    overwrite(EL_GRPC_CA, "nothing of the kind");
    ck_assert_uint_eq(generation(), 0);
    ck_assert_int_eq(unlink(paths[EL_GRPC_CA]), 0);
    ck_assert_uint_eq(generation(), 0);
    ck_assert_int_eq(mkfifo(paths[EL_GRPC_CA], 0600), 0); /* it would be waited for */
    ck_assert_uint_eq(generation(), 0);
    ck_assert_int_eq(unlink(paths[EL_GRPC_CA]), 0);
    write_ca(&two);
    ck_assert_uint_eq(generation(), 1);
}
END_TEST

/* Whatever allocation fails, the old ones stay, and the next look takes the new ones. */
START_TEST(no_memory)
{
    for (long countdown = 0; credentials.generation == 0; countdown++) {
        ck_assert_int_lt(countdown, COUNTDOWN_MAX);
        issue(&one);
        el_alloc_fail_after(countdown);
        el_grpc_credentials_refresh(&credentials);
        el_alloc_fail_after(-1);
    }
    ck_assert_uint_eq(generation(), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grpc_credentials");
    TCase *cases = tcase_create("refresh");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, same);
    tcase_add_test(cases, others);
    tcase_add_test(cases, unusable);
    tcase_add_test(cases, no_memory);
    suite_add_tcase(suite, cases);
    return runner_run(suite);
}
