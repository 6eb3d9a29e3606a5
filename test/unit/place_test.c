/* lib/core/place.c: the transactions of an entry, and what their answers say about the queue. */
#include "core/place.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/runner.h"

#define SPAN(text) ((el_span){text, sizeof(text) - 1})

enum { KEYS = 6 };

static el_queue queue;
static el_place place;
static el_parts parts;

static struct {
    char keys[2][KEYS][64];
    el_key_value kvs[2][KEYS];
    el_op_answer ops[2];
    el_txn_answer txn;
} etcd;

static void set_up(void)
{
    queue.folder = SPAN("pre/NAME/");
    queue.folder_end = SPAN("pre/NAME0");
    queue.writers_end = SPAN("pre/NAME/g");
    place = (el_place){.queue = &queue, .key = SPAN("pre/NAME/aa"), .value = SPAN("{me}"), .lease = 0xaa};
    memset(&parts, 0, sizeof(parts));
    memset(&etcd, 0, sizeof(etcd));
}

static void be_reader(void)
{
    place.is_reader = true;
    place.key = SPAN("pre/NAME/r-aa");
}

/* The i-th answer is a range of "name@create_revision ..." in this order, of `count` keys in all. */
static void answer_range(int i, const char *list, int64_t count)
{
    el_range_answer *range = &etcd.ops[i].range;
    etcd.ops[i].kind = EL_OP_RANGE;
    *range = (el_range_answer){.kvs = etcd.kvs[i], .count = count};
    while (*list) {
        size_t k = range->n_kvs++;
        size_t size = strcspn(list, "@");
        char *rest;
        etcd.kvs[i][k] = (el_key_value){.create_revision = strtoll(list + size + 1, &rest, 10)};
        int n = snprintf(etcd.keys[i][k], sizeof(etcd.keys[i][k]), "pre/NAME/%.*s", (int)size, list);
        etcd.kvs[i][k].key = (el_span){etcd.keys[i][k], (size_t)n};
        list = *rest ? rest + 1 : rest;
    }
    range->more = count > (int64_t)range->n_kvs;
}

/* Our entry was written, and the folder answered this. */
static el_view entered(int64_t revision, const char *folder, int64_t count)
{
    etcd.ops[0] = (el_op_answer){.kind = EL_OP_PUT};
    answer_range(1, folder, count);
    etcd.txn = (el_txn_answer){.succeeded = true, .answers = etcd.ops, .n_answers = 2};
    return el_place_read_enter(&place, revision, &etcd.txn);
}

static void answer_not_written(const char *mine, const char *value, const char *folder, int64_t count)
{
    answer_range(0, mine, *mine ? 1 : 0);
    if (*mine) etcd.kvs[0][0].value = (el_span){value, strlen(value)};
    answer_range(1, folder, count);
    etcd.txn = (el_txn_answer){.succeeded = false, .answers = etcd.ops, .n_answers = 2};
}

/* Our key was there already, with this value. */
static el_view found(const char *mine, const char *value, const char *folder, int64_t count)
{
    answer_not_written(mine, value, folder, count);
    return el_place_read_enter(&place, 50, &etcd.txn);
}

static el_view tried(const char *mine, const char *value, const char *folder, int64_t count)
{
    answer_not_written(mine, value, folder, count);
    return el_place_read_try(&place, 50, &etcd.txn);
}

static el_view looked(const char *mine, const char *folder, int64_t n_older)
{
    answer_not_written(mine, "", folder, n_older);
    etcd.txn.succeeded = true;
    return el_place_read_look(&place, 50, &etcd.txn);
}

static void expect_mine(const el_view *view, int64_t create_revision, bool is_ours)
{
    ck_assert(!view->is_malformed);
    ck_assert_int_eq(view->is_mine_there, create_revision > 0);
    ck_assert_int_eq(view->mine_create_revision, create_revision);
    ck_assert_int_eq(view->is_mine_ours, is_ours);
}

static void expect_older(const el_view *view, const char *name, int64_t create_revision, bool is_first)
{
    char key[64];
    int size = snprintf(key, sizeof(key), "pre/NAME/%s", name);
    ck_assert(view->has_older && !view->is_unclear);
    ck_assert_int_eq(view->older_create_revision, create_revision);
    ck_assert_uint_eq(view->older_key.size, size);
    ck_assert_int_eq(memcmp(view->older_key.data, key, (size_t)size), 0);
    ck_assert_int_eq(view->is_older_first, is_first);
}

static void expect_none_older(const el_view *view, bool is_unclear)
{
    ck_assert(!view->has_older && !view->is_older_first);
    ck_assert_int_eq(view->is_unclear, is_unclear);
}

static void expect_span(el_span span, el_span expected)
{
    ck_assert_uint_eq(span.size, expected.size);
    if (span.size) ck_assert_int_eq(memcmp(span.data, expected.data, span.size), 0);
}

static void expect_put(const el_op *op)
{
    ck_assert_int_eq(op->kind, EL_OP_PUT);
    expect_span(op->put.key, place.key);
    expect_span(op->put.value, place.value);
    ck_assert_int_eq(op->put.lease, place.lease);
}

static void expect_folder(const el_op *op, el_sort_target sort, int64_t limit, el_span end)
{
    ck_assert_int_eq(op->kind, EL_OP_RANGE);
    expect_span(op->range.key, queue.folder);
    expect_span(op->range.range_end, end);
    ck_assert_int_eq(op->range.sort, sort);
    ck_assert_int_eq(op->range.limit, limit);
    ck_assert(op->range.keys_only && !op->range.count_only);
}

static void expect_own(const el_op *op, bool with_value)
{
    ck_assert_int_eq(op->kind, EL_OP_RANGE);
    expect_span(op->range.key, place.key);
    ck_assert_uint_eq(op->range.range_end.size, 0);
    ck_assert_int_eq(op->range.keys_only, !with_value);
}

/* Entering writes only where the key is absent, and asks for the last two, or for whose entry it is. */
START_TEST(enter_request)
{
    for (int reader = 0; reader < 2; reader++) {
        if (reader) be_reader();
        el_span end = reader ? queue.writers_end : queue.folder_end;
        el_txn_request txn = el_place_enter(&place, &parts);
        ck_assert_uint_eq(txn.n_compares, 1);
        ck_assert_int_eq(txn.compares[0].target, EL_TARGET_CREATE_REVISION);
        ck_assert_int_eq(txn.compares[0].relation, EL_EQUAL);
        ck_assert_int_eq(txn.compares[0].number, 0);
        expect_span(txn.compares[0].key, place.key);
        ck_assert_uint_eq(txn.compares[0].range_end.size, 0);
        ck_assert_uint_eq(txn.n_success, 2);
        expect_put(&txn.success[0]);
        expect_folder(&txn.success[1], EL_SORT_CREATE_DESCENDING, 2, end);
        ck_assert_uint_eq(txn.n_failure, 2);
        expect_own(&txn.failure[0], true);
        expect_folder(&txn.failure[1], EL_SORT_CREATE_DESCENDING, 2, end);
        ck_assert(!txn.success[1].range.serializable && !txn.failure[1].range.serializable);
    }
}
END_TEST

/* A try writes only where the whole folder is empty, readers included, and otherwise asks for the first. */
START_TEST(try_request)
{
    for (int reader = 0; reader < 2; reader++) {
        if (reader) be_reader();
        el_txn_request txn = el_place_try(&place, &parts);
        ck_assert_uint_eq(txn.n_compares, 1);
        ck_assert_int_eq(txn.compares[0].target, EL_TARGET_CREATE_REVISION);
        ck_assert_int_eq(txn.compares[0].relation, EL_EQUAL);
        ck_assert_int_eq(txn.compares[0].number, 0);
        expect_span(txn.compares[0].key, queue.folder);
        expect_span(txn.compares[0].range_end, queue.folder_end);
        ck_assert_uint_eq(txn.n_success, 1);
        expect_put(&txn.success[0]);
        ck_assert_uint_eq(txn.n_failure, 2);
        expect_own(&txn.failure[0], true);
        expect_folder(&txn.failure[1], EL_SORT_CREATE_ASCENDING, 1,
                      reader ? queue.writers_end : queue.folder_end);
    }
}
END_TEST

/* A look only reads: the own key, and the newest key or all keys created before it. */
START_TEST(look_request)
{
    place.create_revision = 20;
    for (int i = 0; i < 4; i++) {
        bool serializable = i % 2, whole_folder = i / 2;
        el_txn_request txn = el_place_look(&place, &parts, serializable, whole_folder);
        ck_assert_uint_eq(txn.n_compares, 0);
        ck_assert_uint_eq(txn.n_failure, 0);
        ck_assert_uint_eq(txn.n_success, 2);
        expect_own(&txn.success[0], false);
        expect_folder(&txn.success[1], EL_SORT_CREATE_DESCENDING, whole_folder ? 0 : 1, queue.folder_end);
        ck_assert_int_eq(txn.success[1].range.max_create_revision, 19);
        ck_assert_int_eq(txn.success[0].range.max_create_revision, 0);
        ck_assert_int_eq(txn.success[0].range.serializable, serializable);
        ck_assert_int_eq(txn.success[1].range.serializable, serializable);
    }
    be_reader();
    el_txn_request txn = el_place_look(&place, &parts, true, false);
    expect_folder(&txn.success[1], EL_SORT_CREATE_DESCENDING, 1, queue.writers_end);
}
END_TEST

/* Leaving deletes our key and no other: by create revision, or by value while that is not known. */
START_TEST(leave_request)
{
    for (int64_t revision = 0; revision <= 20; revision += 20) {
        place.create_revision = revision;
        el_txn_request txn = el_place_leave(&place, &parts);
        ck_assert_uint_eq(txn.n_compares, 1);
        ck_assert_int_eq(txn.compares[0].relation, EL_EQUAL);
        ck_assert_int_eq(txn.compares[0].target, revision ? EL_TARGET_CREATE_REVISION : EL_TARGET_VALUE);
        ck_assert_int_eq(txn.compares[0].number, revision);
        expect_span(txn.compares[0].value, revision ? (el_span){NULL, 0} : place.value);
        expect_span(txn.compares[0].key, place.key);
        ck_assert_uint_eq(txn.n_success, 1);
        ck_assert_int_eq(txn.success[0].kind, EL_OP_DELETE);
        expect_span(txn.success[0].del.key, place.key);
        ck_assert_uint_eq(txn.success[0].del.range_end.size, 0);
        ck_assert_uint_eq(txn.n_failure, 0);
    }
}
END_TEST

/* A written entry has the revision of the answer; it may be alone, second or further back. */
START_TEST(enter_written)
{
    el_view view = entered(20, "aa@20", 1);
    expect_mine(&view, 20, true);
    expect_none_older(&view, false);
    ck_assert_int_eq(view.revision, 20);
    view = entered(20, "aa@20 bb@15", 2);
    expect_mine(&view, 20, true);
    expect_older(&view, "bb", 15, true);
    view = entered(20, "aa@20 -bb-3@15", 7);
    expect_older(&view, "-bb-3", 15, false);
    view = entered(20, "aa@20 r-bb@15", 2);
    expect_older(&view, "r-bb", 15, true);
}
END_TEST

/* An entry that was there with our value is adopted; keys created after it do not count. */
START_TEST(enter_adopted)
{
    el_view view = found("aa@18", "{me}", "aa@18 bb@15", 2);
    expect_mine(&view, 18, true);
    expect_older(&view, "bb", 15, true);
    view = found("aa@18", "{me}", "aa@18", 1);
    expect_none_older(&view, false);
    view = found("aa@18", "{me}", "cc@19 aa@18", 2);
    expect_none_older(&view, false);
    view = found("aa@18", "{me}", "dd@20 cc@19", 4);
    expect_mine(&view, 18, true);
    expect_none_older(&view, true);
}
END_TEST

/* A key under our name with another value is not ours, whatever it is like. */
START_TEST(enter_foreign)
{
    static const char *const values[] = {"", "{m", "{me}}", "{ME}"};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        el_view view = found("aa@18", values[i], "aa@18 bb@15", 2);
        expect_mine(&view, 18, false);
    }
}
END_TEST

/* Keys that are no entries block nobody; where the answer was limited there may be entries behind them. */
START_TEST(enter_strays)
{
    el_view view = entered(20, "aa@20 bb/cc@15", 2);
    expect_none_older(&view, false);
    view = entered(20, "aa@20 junk@15", 5);
    expect_none_older(&view, true);
}
END_TEST

/* A reader, whose own key is outside of the range, waits for writers only. */
START_TEST(enter_reader)
{
    be_reader();
    el_view view = entered(20, "", 0);
    expect_mine(&view, 20, true);
    expect_none_older(&view, false);
    view = entered(20, "bb@15", 1);
    expect_older(&view, "bb", 15, true);
    view = entered(20, "cc@16 bb@15", 2);
    expect_older(&view, "cc", 16, false);
    view = entered(20, "cc@16 bb@15", 3);
    expect_older(&view, "cc", 16, false);
    view = entered(20, "r-cc@16 bb@15", 2);
    expect_older(&view, "bb", 15, true);
    view = entered(20, "bb/x@15", 1);
    expect_none_older(&view, false);
    view = found("r-aa@18", "{me}", "cc@19 bb@15", 2);
    expect_mine(&view, 18, true);
    expect_older(&view, "bb", 15, true);
}
END_TEST

/* A try that wrote holds; one that did not tells who is there. */
START_TEST(try_answers)
{
    etcd.txn = (el_txn_answer){.succeeded = true, .answers = etcd.ops, .n_answers = 1};
    el_view view = el_place_read_try(&place, 20, &etcd.txn);
    expect_mine(&view, 20, true);
    expect_none_older(&view, false);
    view = tried("", "", "bb@15", 3);
    expect_mine(&view, 0, false);
    ck_assert(view.has_older && !view.is_unclear);
    ck_assert_int_eq(view.older_create_revision, 15);
    view = tried("", "", "r-bb@15", 1);
    ck_assert(view.has_older);
    view = tried("aa@15", "{other}", "aa@15", 1);
    expect_mine(&view, 15, false);
    ck_assert(view.has_older);
}
END_TEST

/* After a lost answer the own entry may be what a repeated try finds: alone, first, or behind another. */
START_TEST(try_adopted)
{
    el_view view = tried("aa@18", "{me}", "aa@18", 1);
    expect_mine(&view, 18, true);
    expect_none_older(&view, false);
    view = tried("aa@18", "{me}", "aa@18", 3);
    expect_none_older(&view, true);
    view = tried("aa@18", "{me}", "bb@15", 2);
    ck_assert(view.has_older);
}
END_TEST

/* Keys that are no entries do not make a try fail, and for a reader nor do readers. */
START_TEST(try_strays)
{
    el_view view = tried("", "", "bb/cc@15", 1);
    expect_none_older(&view, false);
    view = tried("", "", "bb/cc@15", 2);
    expect_none_older(&view, true);
    be_reader();
    view = tried("", "", "", 0);
    expect_none_older(&view, false);
    view = tried("", "", "r-bb@15", 1);
    expect_none_older(&view, false);
}
END_TEST

/* A look says whether our entry stands as it stood, and who is the nearest before it. */
START_TEST(look_answers)
{
    place.create_revision = 20;
    el_view view = looked("aa@20", "", 0);
    expect_mine(&view, 20, true);
    expect_none_older(&view, false);
    view = looked("aa@20", "bb@15", 1);
    expect_older(&view, "bb", 15, true);
    view = looked("aa@20", "bb@15", 2);
    expect_older(&view, "bb", 15, false);
    view = looked("", "", 0);
    expect_mine(&view, 0, false);
    view = looked("aa@25", "", 0);
    expect_mine(&view, 25, false);
}
END_TEST

/* Behind strays a limited look is unclear; the whole folder shows the nearest entry and if it is the only. */
START_TEST(look_strays)
{
    place.create_revision = 20;
    el_view view = looked("aa@20", "junk@19", 3);
    expect_none_older(&view, true);
    view = looked("aa@20", "junk@19", 1);
    expect_none_older(&view, false);
    view = looked("aa@20", "junk@19 b/c@18 bb@15", 3);
    expect_older(&view, "bb", 15, true);
    view = looked("aa@20", "junk@19 cc@17 b/c@16 bb@15", 4);
    expect_older(&view, "cc", 17, false);
    view = looked("aa@20", "junk@19 b/c@18", 2);
    expect_none_older(&view, false);
    be_reader();
    view = looked("r-aa@20", "r-cc@17 bb@15", 2);
    expect_older(&view, "bb", 15, true);
}
END_TEST

typedef el_view reader(const el_place *place, int64_t revision, const el_txn_answer *answer);

/* An answer without one of its parts, or with a part of another kind, is malformed. */
START_TEST(missing_parts)
{
    static reader *const readers[] = {el_place_read_enter, el_place_read_try, el_place_read_look};
    place.create_revision = 20;
    for (int i = 0; i < 3; i++) {
        answer_not_written("aa@20", "{me}", "aa@20", 1);
        ck_assert(!readers[i](&place, 50, &etcd.txn).is_malformed);
        for (size_t n = 0; n < 2; n++) {
            etcd.txn.n_answers = n;
            ck_assert(readers[i](&place, 50, &etcd.txn).is_malformed);
        }
        etcd.txn.n_answers = 2;
        for (int k = 0; k < 2; k++) {
            etcd.ops[k].kind = EL_OP_PUT;
            ck_assert(readers[i](&place, 50, &etcd.txn).is_malformed);
            etcd.ops[k].kind = EL_OP_RANGE;
        }
    }
    etcd.txn = (el_txn_answer){.succeeded = true, .answers = etcd.ops, .n_answers = 1};
    ck_assert(el_place_read_enter(&place, 50, &etcd.txn).is_malformed);
    ck_assert(found("", "", "bb@15", 1).is_malformed);
}
END_TEST

/* Without a revision there would be no token: such an answer is malformed. */
START_TEST(no_revision)
{
    ck_assert(entered(0, "aa@20", 1).is_malformed);
    ck_assert(found("aa@0", "{me}", "aa@0", 1).is_malformed);
    ck_assert(tried("aa@0", "{me}", "aa@0", 1).is_malformed);
    etcd.txn = (el_txn_answer){.succeeded = true};
    ck_assert(el_place_read_try(&place, 0, &etcd.txn).is_malformed);
    place.create_revision = 20;
    ck_assert(!looked("aa@20", "", 0).is_malformed);
    ck_assert(looked("aa@0", "", 0).is_malformed);
}
END_TEST

/* A negative revision never becomes a place in the queue: what leaves after it would miss its own entry. */
START_TEST(negative_revision)
{
    el_view view = entered(-7, "aa@20", 1);
    ck_assert(view.is_malformed && view.mine_create_revision == 0);
    view = found("aa@-7", "{me}", "aa@-7", 1);
    ck_assert(view.is_malformed && view.is_mine_ours && view.mine_create_revision == 0);
    view = tried("aa@-7", "{me}", "aa@-7", 1);
    ck_assert(view.is_malformed && view.mine_create_revision == 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {enter_request, try_request,      look_request, leave_request, enter_written,
                                  enter_adopted, enter_foreign,    enter_strays, enter_reader,  try_answers,
                                  try_adopted,   try_strays,       look_answers, look_strays,   missing_parts,
                                  no_revision,   negative_revision};
    Suite *suite = suite_create("place");
    TCase *cases = tcase_create("place");
    tcase_add_checked_fixture(cases, set_up, NULL);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(cases, tests[i]);
    suite_add_tcase(suite, cases);
    return runner_run(suite);
}
