/* lib/core/map.c: the hash table agrees with a plain array, and a table that cannot grow goes on. */
#include "core/map.h"

#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "support/runner.h"

enum { MEMBERS = 700, STEPS = 30000 };

typedef struct member {
    el_map_link link;
    char text[16];
    el_span key;
    bool is_in; /* the model */
} member;

static el_map map;
static member members[MEMBERS];
static long alive;
static uint64_t seed = 1;

static unsigned draw(unsigned below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % below;
}

static void set_up(void)
{
    alive = el_alloc_alive();
    memset(&map, 0, sizeof(map));
    memset(members, 0, sizeof(members));
    for (int i = 0; i < MEMBERS; i++) {
        int size = snprintf(members[i].text, sizeof(members[i].text), "key%c%d", i % 2 ? '\0' : 'x', i / 2);
        members[i].key = (el_span){members[i].text, (size_t)size};
    }
}

static void tear_down(void)
{
    el_map_clear(&map);
    ck_assert_int_eq(el_alloc_alive(), alive);
}

static void add(member *m)
{
    ck_assert_int_eq(el_map_add(&map, &m->link, m->key), 0);
    m->is_in = true;
}

static void drop(member *m)
{
    el_map_remove(&map, &m->link);
    m->is_in = false;
}

/* The table finds what the model has, by an equal key elsewhere in memory, and nothing else. */
static void expect_model(void)
{
    size_t n = 0;
    for (size_t i = 0; i < MEMBERS; i++) {
        member copy = members[i];
        el_span key = {copy.text, copy.key.size};
        ck_assert_ptr_eq(el_map_find(&map, key), members[i].is_in ? &members[i].link : NULL);
        n += members[i].is_in;
    }
    ck_assert_uint_eq(map.n_members, n);
}

/* An empty table finds nothing and owns nothing. */
START_TEST(empty)
{
    expect_model();
    ck_assert_int_eq(el_alloc_alive(), alive);
    el_map_clear(&map);
}
END_TEST

/* Keys differ by every byte and by length; a NUL byte is a byte like any other. */
START_TEST(exact_keys)
{
    member *plain = &members[0], *nul = &members[1];
    plain->key = (el_span){"abc", 3};
    nul->key = (el_span){"abc\0d", 5};
    add(plain);
    ck_assert_ptr_null(el_map_find(&map, nul->key));
    add(nul);
    ck_assert_ptr_eq(el_map_find(&map, (el_span){"abcd", 3}), &plain->link);
    ck_assert_ptr_eq(el_map_find(&map, (el_span){"abc\0dx", 5}), &nul->link);
    ck_assert_ptr_null(el_map_find(&map, (el_span){"abc\0x", 5}));
    ck_assert_ptr_null(el_map_find(&map, (el_span){"ab", 2}));
    ck_assert_ptr_null(el_map_find(&map, (el_span){"", 0}));
    drop(plain);
    ck_assert_ptr_eq(el_map_find(&map, nul->key), &nul->link);
    drop(nul);
}
END_TEST

/* Any mix of add, remove and find agrees with the model. */
START_TEST(agrees_with_model)
{
    for (int step = 0; step < STEPS; step++) {
        member *m = &members[draw(MEMBERS)];
        if (!m->is_in) {
            add(m);
        } else if (draw(3)) {
            drop(m);
        }
        ck_assert_ptr_eq(el_map_find(&map, m->key), m->is_in ? &m->link : NULL);
        if (step % 1000 == 0) expect_model();
    }
    expect_model();
    for (size_t i = 0; i < MEMBERS; i++) {
        if (members[i].is_in) drop(&members[i]);
    }
    expect_model();
}
END_TEST

/* The table grows so that members do not outnumber buckets, and nobody is lost on the way. */
START_TEST(growth)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        add(&members[i]);
        ck_assert_uint_le(map.n_members, map.n_buckets);
        ck_assert_uint_eq(map.n_buckets & (map.n_buckets - 1), 0);
    }
    expect_model();
}
END_TEST

/* Without memory the first member is refused and the table stays empty. */
START_TEST(no_memory_at_first)
{
    el_alloc_fail_after(0);
    ck_assert_int_eq(el_map_add(&map, &members[0].link, members[0].key), ENOMEM);
    el_alloc_fail_after(-1);
    expect_model();
    add(&members[0]);
    expect_model();
}
END_TEST

/* Without memory to grow the table stays crowded, works on, and grows once there is memory again. */
START_TEST(no_memory_to_grow)
{
    add(&members[0]);
    size_t n_buckets = map.n_buckets;
    el_alloc_fail_after(0);
    for (size_t i = 1; i < MEMBERS - 1; i++)
        add(&members[i]);
    ck_assert_int_gt(el_alloc_asked(), 0);
    el_alloc_fail_after(-1);
    ck_assert_uint_eq(map.n_buckets, n_buckets);
    expect_model();
    add(&members[MEMBERS - 1]);
    ck_assert_uint_eq(map.n_buckets, 2 * n_buckets);
    expect_model();
    drop(&members[3]);
    expect_model();
}
END_TEST

/* Removing a link that is not in the table changes nothing. */
START_TEST(remove_outsider)
{
    add(&members[0]);
    drop(&members[1]);
    drop(&members[0]);
    drop(&members[0]);
    expect_model();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("map");
    TCase *tests = tcase_create("map");
    tcase_set_timeout(tests, 60); /* for valgrind */
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, empty);
    tcase_add_test(tests, exact_keys);
    tcase_add_test(tests, agrees_with_model);
    tcase_add_test(tests, growth);
    tcase_add_test(tests, no_memory_at_first);
    tcase_add_test(tests, no_memory_to_grow);
    tcase_add_test(tests, remove_outsider);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
