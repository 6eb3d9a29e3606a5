/* lib/core/outcome.c: every code and text of etcd gives the verdict that the design names. */
#include "core/outcome.h"

#include <check.h>
#include <errno.h>

#include "etcdlock/error.h"
#include "support/runner.h"

static const struct {
    el_code code;
    const char *message; /* as etcd 3.4 and 3.5 write it */
    el_verdict verdict;
} rows[] = {
    {EL_OK, "", {EL_OUTCOME_DONE, 0, false, false, false}},
    {EL_CANCELLED, "", {EL_OUTCOME_MAYBE, ECANCELED, true, true, false}},
    {EL_UNKNOWN, "context deadline exceeded", {EL_OUTCOME_MAYBE, ETCDLOCK_EUNREACHABLE, true, true, false}},
    {EL_UNKNOWN, "", {EL_OUTCOME_MAYBE, ETCDLOCK_EUNREACHABLE, true, true, false}},
    {EL_INVALID_ARGUMENT,
     "etcdserver: user name is empty",
     {EL_OUTCOME_NOT_APPLIED, EACCES, true, false, true}},
    {EL_INVALID_ARGUMENT,
     "etcdserver: revision of auth store is old",
     {EL_OUTCOME_NOT_APPLIED, EACCES, true, false, true}},
    {EL_INVALID_ARGUMENT,
     "etcdserver: authentication failed, invalid user ID or password",
     {EL_OUTCOME_REFUSED, EACCES, false, false, false}},
    {EL_INVALID_ARGUMENT,
     "etcdserver: too many operations in txn request",
     {EL_OUTCOME_REFUSED, E2BIG, false, false, false}},
    {EL_INVALID_ARGUMENT,
     "etcdserver: request is too large",
     {EL_OUTCOME_REFUSED, E2BIG, false, false, false}},
    {EL_INVALID_ARGUMENT,
     "etcdserver: duplicate key given in txn request",
     {EL_OUTCOME_REFUSED, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_DEADLINE_EXCEEDED, "", {EL_OUTCOME_MAYBE, ETCDLOCK_EUNREACHABLE, true, true, false}},
    {EL_NOT_FOUND,
     "etcdserver: requested lease not found",
     {EL_OUTCOME_REFUSED, ETCDLOCK_ESESSION, false, false, false}},
    {EL_NOT_FOUND,
     "etcdserver: member not found",
     {EL_OUTCOME_REFUSED, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_ALREADY_EXISTS, "", {EL_OUTCOME_MAYBE, ETCDLOCK_EPROTOCOL, false, false, false}},
    /* not in etcd's words: somebody on the way answered, and may have passed the request on */
    {EL_INVALID_ARGUMENT, "bad request", {EL_OUTCOME_MAYBE, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_NOT_FOUND, "", {EL_OUTCOME_MAYBE, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_PERMISSION_DENIED, "RBAC: access denied", {EL_OUTCOME_MAYBE, EACCES, false, false, false}},
    {EL_FAILED_PRECONDITION, "", {EL_OUTCOME_MAYBE, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_OUT_OF_RANGE, "", {EL_OUTCOME_MAYBE, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_UNAUTHENTICATED, "", {EL_OUTCOME_MAYBE, EACCES, true, false, true}},
    {EL_PERMISSION_DENIED,
     "etcdserver: permission denied",
     {EL_OUTCOME_REFUSED, EACCES, false, false, false}},
    {EL_RESOURCE_EXHAUSTED,
     "etcdserver: mvcc: database space exceeded",
     {EL_OUTCOME_REFUSED, ENOSPC, false, false, false}},
    {EL_RESOURCE_EXHAUSTED,
     "etcdserver: too many requests",
     {EL_OUTCOME_NOT_APPLIED, ETCDLOCK_EUNREACHABLE, true, false, false}},
    {EL_RESOURCE_EXHAUSTED,
     "grpc: received message larger than max",
     {EL_OUTCOME_MAYBE, ETCDLOCK_EPROTOCOL, true, true, false}},
    {EL_FAILED_PRECONDITION,
     "etcdserver: lease already exists",
     {EL_OUTCOME_REFUSED, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_ABORTED, "", {EL_OUTCOME_MAYBE, ETCDLOCK_EUNREACHABLE, true, true, false}},
    {EL_OUT_OF_RANGE,
     "etcdserver: too large lease TTL",
     {EL_OUTCOME_REFUSED, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_UNIMPLEMENTED,
     "unknown service etcdserverpb.KV",
     {EL_OUTCOME_NOT_APPLIED, ETCDLOCK_EUNREACHABLE, true, true, false}},
    {EL_INTERNAL, "", {EL_OUTCOME_MAYBE, ETCDLOCK_EPROTOCOL, true, true, false}},
    {EL_UNAVAILABLE,
     "etcdserver: rpc not supported for learner",
     {EL_OUTCOME_NOT_APPLIED, ETCDLOCK_EUNREACHABLE, true, true, false}},
    {EL_UNAVAILABLE,
     "etcdserver: request timed out",
     {EL_OUTCOME_MAYBE, ETCDLOCK_EUNREACHABLE, true, true, false}},
    {EL_UNAVAILABLE, "etcdserver: no leader", {EL_OUTCOME_MAYBE, ETCDLOCK_EUNREACHABLE, true, true, false}},
    {EL_UNAVAILABLE, "Socket closed", {EL_OUTCOME_MAYBE, ETCDLOCK_EUNREACHABLE, true, true, false}},
    {EL_DATA_LOSS, "", {EL_OUTCOME_MAYBE, ETCDLOCK_EPROTOCOL, true, true, false}},
    {EL_UNAUTHENTICATED,
     "etcdserver: invalid auth token",
     {EL_OUTCOME_NOT_APPLIED, EACCES, true, false, true}},
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static void expect(const el_status *status, el_verdict expected)
{
    el_verdict verdict = el_outcome_of(status);
    ck_assert_int_eq(verdict.outcome, expected.outcome);
    ck_assert_int_eq(verdict.error, expected.error);
    ck_assert_int_eq(verdict.retry, expected.retry);
    ck_assert_int_eq(verdict.leave_member, expected.leave_member);
    ck_assert_int_eq(verdict.new_token, expected.new_token);
}

static el_status status_of(int row)
{
    el_status status = {.code = rows[row].code, .message = rows[row].message};
    return status;
}

/* Each code with each text that etcd sends gives its verdict. */
START_TEST(table)
{
    el_status status = status_of(_i);
    expect(&status, rows[_i].verdict);
}
END_TEST

/* What never left this process has not happened; a refusal stays one. */
START_TEST(not_sent)
{
    el_status status = status_of(_i);
    el_verdict expected = rows[_i].verdict;
    status.not_sent = true;
    if (status.code == EL_OK) return;
    if (expected.outcome != EL_OUTCOME_REFUSED) expected.outcome = EL_OUTCOME_NOT_APPLIED;
    expect(&status, expected);
}
END_TEST

/* Memory that ran out here is told as that and not tried again; it may have happened unless it was not sent.
 */
START_TEST(local_memory)
{
    el_status status = {.code = EL_RESOURCE_EXHAUSTED, .message = "no memory", .local_memory = true};
    expect(&status, (el_verdict){EL_OUTCOME_MAYBE, ENOMEM, false, false, false});
    status.not_sent = true;
    expect(&status, (el_verdict){EL_OUTCOME_REFUSED, ENOMEM, false, false, false});
}
END_TEST

/* An answer that could not be read leaves open what happened. */
START_TEST(malformed)
{
    el_status status = {.code = EL_INTERNAL, .message = "malformed answer", .malformed = true};
    expect(&status, (el_verdict){EL_OUTCOME_MAYBE, ETCDLOCK_EPROTOCOL, true, true, false});
}
END_TEST

/* A code that does not exist leaves open what happened, and another member is asked. */
START_TEST(unknown_codes)
{
    static const int codes[] = {17, 18, 99, 1 << 20};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        el_status status = {.code = (el_code)codes[i], .message = "etcdserver: permission denied"};
        expect(&status, (el_verdict){EL_OUTCOME_MAYBE, ETCDLOCK_EPROTOCOL, true, true, false});
        status.not_sent = true;
        expect(&status, (el_verdict){EL_OUTCOME_NOT_APPLIED, ETCDLOCK_EPROTOCOL, true, true, false});
    }
}
END_TEST

/* What is over is not asked again, what has not happened is, and only what is done has no error. */
START_TEST(rules)
{
    el_verdict verdict = rows[_i].verdict;
    ck_assert_int_eq(verdict.error == 0, verdict.outcome == EL_OUTCOME_DONE);
    bool is_over = verdict.outcome == EL_OUTCOME_DONE || verdict.outcome == EL_OUTCOME_REFUSED;
    if (is_over) ck_assert(!verdict.retry);
    if (verdict.outcome == EL_OUTCOME_NOT_APPLIED) ck_assert(verdict.retry);
    if (verdict.leave_member || verdict.new_token) ck_assert(verdict.retry);
}
END_TEST

/* Only FAILED_PRECONDITION with its text says that the lease is there already. */
START_TEST(lease_exists)
{
    el_status status = {.code = EL_FAILED_PRECONDITION, .message = "etcdserver: lease already exists"};
    ck_assert(el_outcome_lease_exists(&status));
    status.code = EL_ALREADY_EXISTS;
    ck_assert(!el_outcome_lease_exists(&status));
    status.code = EL_FAILED_PRECONDITION;
    status.message = "etcdserver: authentication is not enabled";
    ck_assert(!el_outcome_lease_exists(&status));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("outcome");
    TCase *tests = tcase_create("verdict");
    tcase_add_loop_test(tests, table, 0, ROWS);
    tcase_add_loop_test(tests, not_sent, 0, ROWS);
    tcase_add_test(tests, local_memory);
    tcase_add_test(tests, malformed);
    tcase_add_test(tests, unknown_codes);
    tcase_add_loop_test(tests, rules, 0, ROWS);
    tcase_add_test(tests, lease_exists);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
