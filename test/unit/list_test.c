/* lib/core/list.h: links inside their members. */
#include "core/list.h"

#include <check.h>
#include <string.h>

#include "support/runner.h"

typedef struct member {
    char name;
    el_list link;
} member;

static el_list list;
static member members[5] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}, {.name = 'd'}, {.name = 'e'}};

static void set_up(void)
{
    el_list_init(&list);
    for (size_t i = 0; i < 5; i++)
        memset(&members[i].link, 0, sizeof(el_list));
}

static void append(el_list *to, const char *names)
{
    for (; *names; names++)
        el_list_append(to, &members[*names - 'a'].link);
}

/* The list holds these, forwards and backwards. */
static void expect(const el_list *in, const char *names)
{
    size_t size = strlen(names);
    const el_list *link = in->next;
    for (size_t i = 0; i < size; i++, link = link->next)
        ck_assert_int_eq(EL_CONTAINER(link, member, link)->name, names[i]);
    ck_assert_ptr_eq(link, in);
    link = in->previous;
    for (size_t i = size; i > 0; i--, link = link->previous)
        ck_assert_int_eq(EL_CONTAINER(link, member, link)->name, names[i - 1]);
    ck_assert_ptr_eq(link, in);
    ck_assert_int_eq(el_list_is_empty(in), size == 0);
}

/* Members stand in order of appending and are taken from the front. */
START_TEST(first_in_first_out)
{
    expect(&list, "");
    ck_assert_ptr_null(el_list_take(&list));
    append(&list, "abc");
    expect(&list, "abc");
    ck_assert_ptr_eq(el_list_take(&list), &members[0].link);
    append(&list, "a");
    expect(&list, "bca");
}
END_TEST

/* First, middle and last can be removed, and what was removed can be appended again. */
START_TEST(remove_anywhere)
{
    append(&list, "abcde");
    el_list_remove(&members[2].link);
    expect(&list, "abde");
    el_list_remove(&members[0].link);
    el_list_remove(&members[4].link);
    expect(&list, "bd");
    append(&list, "c");
    expect(&list, "bdc");
    el_list_remove(&members[1].link);
    el_list_remove(&members[2].link);
    el_list_remove(&members[3].link);
    expect(&list, "");
}
END_TEST

/* Removing a link that is in no list, zeroed or removed before, changes nothing. */
START_TEST(remove_outsider)
{
    append(&list, "ab");
    el_list_remove(&members[2].link);
    el_list_remove(&members[2].link);
    expect(&list, "ab");
    el_list_remove(&members[0].link);
    el_list_remove(&members[0].link);
    expect(&list, "b");
    ck_assert(el_list_is_empty(&members[0].link));
}
END_TEST

/* A zeroed head is an empty list. */
START_TEST(zeroed_head)
{
    el_list head = {0};
    ck_assert(el_list_is_empty(&head));
    ck_assert_ptr_null(el_list_take(&head));
    append(&list, "a");
    el_list_splice(&list, &head);
    expect(&list, "a");
}
END_TEST

/* Splicing moves all members to the end and leaves the other list empty and usable. */
START_TEST(splice)
{
    el_list other;
    el_list_init(&other);
    el_list_splice(&list, &other);
    expect(&list, "");
    append(&other, "ab");
    el_list_splice(&list, &other);
    expect(&list, "ab");
    expect(&other, "");
    append(&other, "c");
    el_list_splice(&list, &other);
    expect(&list, "abc");
    append(&other, "de");
    el_list_splice(&other, &list);
    expect(&other, "deabc");
    expect(&list, "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("list");
    TCase *tests = tcase_create("list");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, first_in_first_out);
    tcase_add_test(tests, remove_anywhere);
    tcase_add_test(tests, remove_outsider);
    tcase_add_test(tests, zeroed_head);
    tcase_add_test(tests, splice);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
