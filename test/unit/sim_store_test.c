/* The simulated etcd's store and transactions: the semantics that the library's tests lean on. */
#include <check.h>
#include <stdlib.h>

#include "support/runner.h"
#include "support/sim_store.h"
#include "support/sim_txn.h"

#define KEY(text) ((el_span){text, sizeof(text) - 1})
#define NONE      ((el_span){"", 0})

static sim_store store;
static sim_arena arena;
static int64_t live_lease; /* the only lease that exists */

static void set_up(void)
{
    sim_store_init(&store);
    live_lease = 7;
}

static void tear_down(void)
{
    sim_store_clear(&store);
    sim_arena_free(&arena);
}

static bool is_live(const void *unused, int64_t id)
{
    (void)unused;
    return id == live_lease;
}

static el_op put_op(el_span key, const char *value, int64_t lease)
{
    return (el_op){.kind = EL_OP_PUT, .put = {.key = key, .value = sim_text(value), .lease = lease}};
}

static el_op delete_op(el_span key, el_span range_end)
{
    return (el_op){.kind = EL_OP_DELETE, .del = {.key = key, .range_end = range_end}};
}

static el_op range_op(el_span key, el_span range_end)
{
    return (el_op){.kind = EL_OP_RANGE, .range = {.key = key, .range_end = range_end}};
}

static el_op nested_op(const el_txn_request *txn)
{
    return (el_op){.kind = EL_OP_TXN, .txn = txn};
}

static el_txn_request only(const el_op *ops, size_t n)
{
    return (el_txn_request){.success = ops, .n_success = n};
}

static sim_verdict run(const el_txn_request *txn, el_txn_answer *answer)
{
    sim_verdict verdict = sim_txn_check(txn, SIM_MAX_TXN_OPS);
    if (verdict.code) return verdict;
    return sim_txn_apply(&store, txn, is_live, NULL, &arena, answer);
}

static el_txn_answer run_ops(const el_op *ops, size_t n)
{
    el_txn_answer answer = {0};
    el_txn_request txn = only(ops, n);
    ck_assert_int_eq(run(&txn, &answer).code, EL_OK);
    return answer;
}

static void put(el_span key, const char *value)
{
    el_op op = put_op(key, value, 0);
    run_ops(&op, 1);
}

static bool compare(el_compare c)
{
    el_txn_answer answer = {0};
    el_txn_request txn = {.compares = &c, .n_compares = 1};
    ck_assert_int_eq(run(&txn, &answer).code, EL_OK);
    return answer.succeeded;
}

static el_range_answer range_at(el_range_request request, int64_t revision)
{
    el_range_answer answer;
    sim_store_range(&store, &request, revision, &arena, &answer);
    return answer;
}

static bool is_key(const el_key_value *kv, const char *key)
{
    return sim_span_compare(kv->key, sim_text(key)) == 0;
}

/* One transaction is one revision, and reads and vain deletes are none. */
START_TEST(revision_rises_once_per_write)
{
    ck_assert_int_eq(store.revision, 1);
    el_op two[] = {put_op(KEY("a"), "1", 0), put_op(KEY("b"), "1", 0)};
    run_ops(two, 2);
    ck_assert_int_eq(store.revision, 2);
    el_op nothing[] = {range_op(KEY("a"), NONE), delete_op(KEY("x"), KEY("z"))};
    ck_assert_int_eq(run_ops(nothing, 2).answers[1].deleted, 0);
    ck_assert_int_eq(store.revision, 2);
}
END_TEST

/* A key keeps its create revision until it is deleted; then it starts anew. */
START_TEST(key_lives_from_put_to_delete)
{
    put(KEY("a"), "1");
    put(KEY("a"), "2");
    el_range_answer seen = range_at((el_range_request){.key = KEY("a")}, store.revision);
    ck_assert_int_eq(seen.kvs[0].create_revision, 2);
    ck_assert_int_eq(seen.kvs[0].mod_revision, 3);
    ck_assert_int_eq(seen.kvs[0].version, 2);
    el_op op = delete_op(KEY("a"), NONE);
    ck_assert_int_eq(run_ops(&op, 1).answers[0].deleted, 1);
    ck_assert_int_eq(range_at((el_range_request){.key = KEY("a")}, store.revision).count, 0);
    put(KEY("a"), "3");
    seen = range_at((el_range_request){.key = KEY("a")}, store.revision);
    ck_assert_int_eq(seen.kvs[0].create_revision, 5);
    ck_assert_int_eq(seen.kvs[0].version, 1);
    seen = range_at((el_range_request){.key = KEY("a")}, 3);
    ck_assert_int_eq(seen.kvs[0].create_revision, 2);
}
END_TEST

/* The count is that of the range, whatever limit and bound leave of its keys. */
START_TEST(range_sorts_limits_and_counts)
{
    put(KEY("q/c"), "1");
    put(KEY("q/a"), "1");
    put(KEY("q/b"), "1");
    put(KEY("r"), "1");
    el_range_request request = {.key = KEY("q/"), .range_end = KEY("q0"), .keys_only = true, .limit = 2};
    request.sort = EL_SORT_CREATE_DESCENDING;
    el_range_answer seen = range_at(request, store.revision);
    ck_assert_int_eq(seen.count, 3);
    ck_assert(seen.n_kvs == 2 && seen.more && is_key(&seen.kvs[0], "q/b") && is_key(&seen.kvs[1], "q/a"));
    ck_assert_uint_eq(seen.kvs[0].value.size, 0);
    request.max_create_revision = 3;
    seen = range_at(request, store.revision);
    ck_assert(seen.n_kvs == 2 && !seen.more && is_key(&seen.kvs[0], "q/a"));
    ck_assert_int_eq(seen.count, 3);
    request.count_only = true;
    seen = range_at(request, store.revision);
    ck_assert(seen.n_kvs == 0 && seen.count == 3 && !seen.more);
    seen = range_at((el_range_request){.key = KEY("q/b"), .range_end = {"", 1}}, store.revision);
    ck_assert_int_eq(seen.count, 3);
    ck_assert_int_eq(range_at((el_range_request){.key = KEY("z"), .range_end = KEY("a")}, 9).count, 0);
}
END_TEST

/* What is absent, key or range, compares as zeros, and as a value never. */
START_TEST(absence_compares_as_zero)
{
    for (int ranged = 0; ranged < 2; ranged++) {
        el_compare c = {.key = KEY("a"), .range_end = ranged ? KEY("b") : NONE};
        c.target = EL_TARGET_CREATE_REVISION;
        ck_assert(compare(c));
        c.relation = EL_LESS;
        ck_assert(!compare(c));
        c.number = 1;
        ck_assert(compare(c));
        c.target = EL_TARGET_VALUE;
        for (int relation = EL_EQUAL; relation <= EL_NOT_EQUAL; relation++) {
            c.relation = (el_compare_relation)relation;
            ck_assert(!compare(c));
        }
    }
}
END_TEST

/* A range compare wants every key to agree. */
START_TEST(range_compare_holds_for_all)
{
    put(KEY("a1"), "x");
    put(KEY("a2"), "y");
    el_compare c = {.key = KEY("a"), .range_end = KEY("b"), .target = EL_TARGET_CREATE_REVISION};
    c.relation = EL_LESS;
    c.number = 4;
    ck_assert(compare(c));
    c.number = 3;
    ck_assert(!compare(c));
    c = (el_compare){.key = KEY("a1"), .target = EL_TARGET_VALUE, .value = KEY("x")};
    ck_assert(compare(c));
}
END_TEST

/* Nested ranges see earlier puts of the same transaction; nested compares see the state before it. */
START_TEST(nested_sees_puts_but_compares_before)
{
    el_compare exists = {.key = KEY("a"), .target = EL_TARGET_VERSION, .relation = EL_GREATER};
    el_op look = range_op(KEY("a"), NONE);
    el_txn_request inner = {.compares = &exists,
                            .n_compares = 1,
                            .success = &look,
                            .n_success = 1,
                            .failure = &look,
                            .n_failure = 1};
    el_op ops[] = {put_op(KEY("a"), "1", 0), nested_op(&inner)};
    el_txn_answer answer = run_ops(ops, 2);
    const el_txn_answer *nested = answer.answers[1].txn;
    ck_assert(!nested->succeeded);
    ck_assert_int_eq(nested->answers[0].range.count, 1);
    ck_assert_int_eq(nested->answers[0].range.kvs[0].create_revision, 2);
}
END_TEST

/* Two writes to one key are refused wherever etcd notices, which is not everywhere. */
START_TEST(writing_a_key_twice_is_refused)
{
    el_op p = put_op(KEY("a"), "1", 0), d = delete_op(KEY("a"), KEY("b"));
    el_txn_request put_in = only(&p, 1), delete_in = only(&d, 1);
    el_txn_request either = {.success = &p, .n_success = 1, .failure = &p, .n_failure = 1};
    el_op refused[][2] = {{p, p},
                          {p, d},
                          {d, p},
                          {p, nested_op(&put_in)},
                          {p, nested_op(&delete_in)},
                          {d, nested_op(&put_in)},
                          {nested_op(&delete_in), nested_op(&put_in)}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        el_txn_request txn = only(refused[i], 2);
        sim_verdict verdict = sim_txn_check(&txn, SIM_MAX_TXN_OPS);
        ck_assert_int_eq(verdict.code, EL_INVALID_ARGUMENT);
        ck_assert_str_eq(verdict.message, "etcdserver: duplicate key given in txn request");
    }
    el_op allowed[][2] = {
        {d, d}, {nested_op(&put_in), nested_op(&delete_in)}, {nested_op(&either), range_op(KEY("a"), NONE)}};
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        el_txn_request txn = only(allowed[i], 2);
        ck_assert_int_eq(sim_txn_check(&txn, SIM_MAX_TXN_OPS).code, EL_OK);
    }
}
END_TEST

/* Operations are counted along a path: the widest list of each level. */
START_TEST(operations_are_counted_along_a_path)
{
    el_op looks[129], batch[100];
    for (size_t i = 0; i < 129; i++)
        looks[i] = range_op(KEY("a"), NONE);
    el_txn_request inner = only(looks, 28);
    for (size_t i = 0; i < 100; i++)
        batch[i] = nested_op(&inner);
    el_txn_request fits = only(batch, 100), too_wide = only(looks, 129);
    ck_assert_int_eq(sim_txn_check(&fits, 128).code, EL_OK);
    ck_assert_int_eq(sim_txn_check(&fits, 127).code, EL_INVALID_ARGUMENT);
    ck_assert_int_eq(sim_txn_check(&too_wide, 128).code, EL_INVALID_ARGUMENT);
}
END_TEST

/* A dead lease anywhere on the path taken undoes all; off the path it does not matter. */
START_TEST(dead_lease_applies_nothing)
{
    el_op dead = put_op(KEY("b"), "1", 99), fine = put_op(KEY("a"), "1", 7);
    el_txn_request inner = only(&dead, 1);
    el_op ops[] = {fine, nested_op(&inner)};
    el_txn_request txn = only(ops, 2);
    el_txn_answer answer;
    sim_verdict verdict = run(&txn, &answer);
    ck_assert_int_eq(verdict.code, EL_NOT_FOUND);
    ck_assert_str_eq(verdict.message, "etcdserver: requested lease not found");
    ck_assert_int_eq(store.revision, 1);
    ck_assert_uint_eq(store.n_keys, 0);
    el_txn_request untaken = {.success = &fine, .n_success = 1, .failure = &dead, .n_failure = 1};
    ck_assert_int_eq(run(&untaken, &answer).code, EL_OK);
}
END_TEST

static Suite *suite(void)
{
    Suite *all = suite_create("sim_store");
    TCase *cases = tcase_create("sim_store");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, revision_rises_once_per_write);
    tcase_add_test(cases, key_lives_from_put_to_delete);
    tcase_add_test(cases, range_sorts_limits_and_counts);
    tcase_add_test(cases, absence_compares_as_zero);
    tcase_add_test(cases, range_compare_holds_for_all);
    tcase_add_test(cases, nested_sees_puts_but_compares_before);
    tcase_add_test(cases, writing_a_key_twice_is_refused);
    tcase_add_test(cases, operations_are_counted_along_a_path);
    tcase_add_test(cases, dead_lease_applies_nothing);
    suite_add_tcase(all, cases);
    return all;
}

int main(void)
{
    return runner_run(suite());
}
