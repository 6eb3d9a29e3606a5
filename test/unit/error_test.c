/* lib/core/error.c: texts of error numbers, and the message of the last failure of a thread. */
#include "core/error.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "support/runner.h"

/* Each number of the library has a text of its own, which no other number shares. */
START_TEST(own_texts)
{
    static const int errors[] = {0,
                                 ETCDLOCK_ESESSION,
                                 ETCDLOCK_EENTRY,
                                 ETCDLOCK_EUNKNOWN,
                                 ETCDLOCK_EUNREACHABLE,
                                 ETCDLOCK_EFORKED,
                                 ETCDLOCK_EKIND,
                                 ETCDLOCK_EPROTOCOL};
    enum { ERRORS = sizeof(errors) / sizeof(errors[0]) };
    const char *texts[ERRORS];
    for (int i = 0; i < ERRORS; i++) {
        texts[i] = etcdlock_strerror(errors[i]);
        ck_assert_str_ne(texts[i], "");
        ck_assert_ptr_null(strstr(texts[i], "Unknown"));
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(texts[i], texts[k]);
    }
    ck_assert_str_eq(texts[0], "no error");
    for (int error = ETCDLOCK_ESESSION; error <= ETCDLOCK_EPROTOCOL; error++)
        ck_assert_ptr_null(strstr(etcdlock_strerror(error), "Unknown"));
}
END_TEST

/* Numbers of the system have the system's texts; any other number has one too, and errno stays. */
START_TEST(system_texts)
{
    errno = 77;
    ck_assert_str_eq(etcdlock_strerror(ETIMEDOUT), strerror(ETIMEDOUT));
    ck_assert_str_eq(etcdlock_strerror(EBUSY), strerror(EBUSY));
    ck_assert_ptr_nonnull(strstr(etcdlock_strerror(-5), "-5"));
    ck_assert_ptr_nonnull(strstr(etcdlock_strerror(20999), "20999"));
    ck_assert_int_eq(errno, 77);
}
END_TEST

/* A failure keeps number and text; without a place for them only the number comes back. */
START_TEST(fail)
{
    el_failure failure = {0};
    ck_assert_int_eq(el_fail(&failure, EBUSY, "%s %d", "number", 5), EBUSY);
    ck_assert_int_eq(failure.error, EBUSY);
    ck_assert_str_eq(failure.text, "number 5");
    ck_assert_int_eq(el_fail(NULL, EBUSY, "%s", "unheard"), EBUSY);
    ck_assert_str_eq(etcdlock_error_message(), "");
}
END_TEST

/* A text that is too long is cut, not overrun. */
START_TEST(long_text)
{
    char text[2 * sizeof(((el_failure *)0)->text)];
    struct {
        el_failure failure;
        char behind;
    } guarded = {.behind = '#'};
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    el_fail(&guarded.failure, EINVAL, "%s", text);
    ck_assert_uint_eq(strlen(guarded.failure.text), sizeof(guarded.failure.text) - 1);
    ck_assert_int_eq(guarded.behind, '#');
    ck_assert_int_eq(el_publish(&guarded.failure), EINVAL);
    ck_assert_str_eq(etcdlock_error_message(), guarded.failure.text);
    ck_assert_int_eq(el_publish_new(EIO, "%s", text), EIO);
    ck_assert_str_eq(etcdlock_error_message(), guarded.failure.text);
}
END_TEST

/* What a name or a file brings into a text breaks no line and moves no cursor; UTF-8 stays. */
START_TEST(one_line)
{
    el_failure failure = {0};
    el_fail(&failure, EINVAL, "the name \"%s\"", "a\nb\x1b[1m\x7f \xC3\xA9");
    ck_assert_str_eq(failure.text, "the name \"a?b?[1m? \xC3\xA9\"");
    ck_assert_int_eq(el_publish_new(EINVAL, "%s", "a\tb"), EINVAL);
    ck_assert_str_eq(etcdlock_error_message(), "a?b");
}
END_TEST

/* The last published failure is the thread's message; success leaves it alone. */
START_TEST(publish)
{
    el_failure failure = {0};
    ck_assert_str_eq(etcdlock_error_message(), "");
    ck_assert_int_eq(el_publish(&failure), 0);
    ck_assert_str_eq(etcdlock_error_message(), "");
    ck_assert_int_eq(el_publish_new(ETCDLOCK_EKIND, "it is a %s", "rwlock"), ETCDLOCK_EKIND);
    ck_assert_str_eq(etcdlock_error_message(), "it is a rwlock");
    el_fail(&failure, EAGAIN, "short");
    ck_assert_int_eq(el_publish(&failure), EAGAIN);
    ck_assert_str_eq(etcdlock_error_message(), "short");
    failure.error = 0;
    strcpy(failure.text, "not published");
    ck_assert_int_eq(el_publish(&failure), 0);
    ck_assert_str_eq(etcdlock_error_message(), "short");
}
END_TEST

static void *other_thread(void *argument)
{
    (void)argument;
    ck_assert_str_eq(etcdlock_error_message(), "");
    el_publish_new(EIO, "the other thread's");
    ck_assert_str_eq(etcdlock_error_message(), "the other thread's");
    return NULL;
}

/* Each thread has a message of its own. */
START_TEST(threads)
{
    pthread_t thread;
    el_publish_new(EIO, "mine");
    ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_str_eq(etcdlock_error_message(), "mine");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("error");
    TCase *tests = tcase_create("error");
    tcase_add_test(tests, own_texts);
    tcase_add_test(tests, system_texts);
    tcase_add_test(tests, fail);
    tcase_add_test(tests, long_text);
    tcase_add_test(tests, one_line);
    tcase_add_test(tests, publish);
    tcase_add_test(tests, threads);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
