/* Guarded writes: what each call does to etcd, what it refuses, and what is left when the lock is lost. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/etcdctl.h"
#include "support/live.h"
#include "support/loss.h"
#include "support/written.h"

/* A deletion of the entry behind the library's back. */
static void delete_entry(etcdlock_mutex *mutex)
{
    char key[512];
    ck_assert_int_eq(etcdlock_mutex_key(mutex, key, sizeof key), 0);
    ck_assert_ptr_nonnull(strstr(etcdctl("del", key, NULL), "1"));
}

/* ---- the calls */

/* What is put is there, byte for byte, for all to see; get tells when it was written; delete takes it away.
 */
START_TEST(put_get_delete)
{
    static const char bytes[] = {'a', 0, '\n', (char)0xff, 0};
    const char *key = live_name("data");
    party p = open_held(live_name("a"));
    etcdlock_value *value;
    ck_assert_int_eq(etcdlock_mutex_get(p.mutex, key, &value), ENOENT);
    ck_assert_ptr_null(value);
    ck_assert_int_eq(etcdlock_mutex_delete(p.mutex, key), ENOENT);
    ck_assert_int_eq(put_text(p.mutex, key, "one"), 0);
    expect_stored(key, "one");
    ck_assert_int_eq(etcdlock_mutex_put(p.mutex, key, bytes, sizeof bytes), 0);
    int64_t revision = etcdctl_revision();
    ck_assert_int_eq(etcdlock_mutex_get(p.mutex, key, &value), 0);
    ck_assert_uint_eq(value->size, sizeof bytes);
    ck_assert_mem_eq(value->data, bytes, sizeof bytes);
    ck_assert_int_eq(value->data[sizeof bytes], 0);
    ck_assert_uint_eq(value->mod_revision, (uint64_t)revision);
    ck_assert_uint_lt(value->create_revision, value->mod_revision);
    etcdlock_value_free(value);
    ck_assert_int_eq(etcdlock_mutex_put(p.mutex, key, NULL, 0), 0);
    expect_value(p.mutex, key, "");
    ck_assert_int_eq(etcdlock_mutex_delete(p.mutex, key), 0);
    ck_assert_uint_eq(etcdctl_count(key), 0);
    ck_assert_int_eq(etcdctl_revision(), revision + 2); /* reading wrote nothing */
    unlock_and_close(&p);
}
END_TEST

/* A written key has no lease: it stays when the holder has gone. */
START_TEST(written_key_stays)
{
    const char *key = live_name("data");
    etcdctl_key found;
    party p = open_held(live_name("a"));
    ck_assert_int_eq(put_text(p.mutex, key, "x"), 0);
    unlock_and_close(&p);
    ck_assert_uint_eq(etcdctl_keys(key, &found, 1), 1);
    ck_assert_int_eq(found.lease, 0);
    etcdctl("del", key, NULL);
}
END_TEST

/* Keys are put behind the client's prefix, as lock names are. */
START_TEST(prefix)
{
    etcdlock_client_options options = live_options();
    party p;
    options.key_prefix = live_name("prod/");
    ck_assert_int_eq(etcdlock_client_open(&p.client, &options), 0);
    p.session = party_session(&p, 0);
    p.mutex = party_mutex(&p, "a", 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(put_text(p.mutex, "data", "x"), 0);
    expect_stored(live_name("prod/data"), "x");
    ck_assert_int_eq(etcdlock_mutex_delete(p.mutex, "data"), 0);
    ck_assert_uint_eq(etcdctl_count(live_name("prod/data")), 0);
    unlock_and_close(&p);
}
END_TEST

/* Runs one comparison against a key that is at `revision` with value "v"; says which branch was taken, which
 * the marks that the branches leave must bear out. */
static int branch_of(etcdlock_mutex *mutex, etcdlock_compare compare)
{
    const char *then = live_name("then"), *otherwise = live_name("else");
    etcdlock_operation success = {.kind = ETCDLOCK_PUT, .key = then, .value = "t", .value_size = 1};
    etcdlock_operation failure = {.kind = ETCDLOCK_PUT, .key = otherwise, .value = "e", .value_size = 1};
    etcdlock_txn txn = ETCDLOCK_TXN_INIT;
    etcdlock_txn_result result = ETCDLOCK_TXN_RESULT_INIT;
    txn.compares = &compare;
    txn.success = &success;
    txn.failure = &failure;
    txn.n_compares = txn.n_success = txn.n_failure = 1;
    ck_assert_int_eq(etcdlock_mutex_txn(mutex, &txn, &result), 0);
    ck_assert_uint_eq(result.revision, (uint64_t)etcdctl_revision());
    ck_assert_uint_eq(etcdctl_count(then), (size_t)result.succeeded);
    ck_assert_uint_eq(etcdctl_count(otherwise), (size_t)!result.succeeded);
    ck_assert_int_eq(etcdlock_mutex_delete(mutex, result.succeeded ? then : otherwise), 0);
    return result.succeeded;
}

/* Each comparison holds where it should and nowhere else, and the branch taken is the one applied. */
START_TEST(comparisons)
{
    const char *key = live_name("data"), *absent = live_name("absent");
    party p = open_held(live_name("a"));
    ck_assert_int_eq(put_text(p.mutex, key, "v"), 0);
    uint64_t revision = (uint64_t)etcdctl_revision();
    const struct {
        etcdlock_compare compare;
        int holds;
    } rows[] = {
        {{.kind = ETCDLOCK_KEY_EXISTS, .key = key}, 1},
        {{.kind = ETCDLOCK_KEY_EXISTS, .key = absent}, 0},
        {{.kind = ETCDLOCK_KEY_ABSENT, .key = key}, 0},
        {{.kind = ETCDLOCK_KEY_ABSENT, .key = absent}, 1},
        {{.kind = ETCDLOCK_MOD_REVISION_IS, .key = key, .mod_revision = revision}, 1},
        {{.kind = ETCDLOCK_MOD_REVISION_IS, .key = key, .mod_revision = revision - 1}, 0},
        {{.kind = ETCDLOCK_MOD_REVISION_IS, .key = absent, .mod_revision = 0}, 1},
        {{.kind = ETCDLOCK_VALUE_IS, .key = key, .value = "v", .value_size = 1}, 1},
        {{.kind = ETCDLOCK_VALUE_IS, .key = key, .value = "vv", .value_size = 2}, 0},
        {{.kind = ETCDLOCK_VALUE_IS, .key = absent, .value = "", .value_size = 0}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(branch_of(p.mutex, rows[i].compare) == rows[i].holds, "comparison %zu", i);
    ck_assert_int_eq(etcdlock_mutex_delete(p.mutex, key), 0);
    unlock_and_close(&p);
}
END_TEST

/* All operations of a transaction happen at one revision, and as many as allowed fit into each list. */
START_TEST(whole_transaction)
{
    enum { N = ETCDLOCK_TXN_OPERATIONS_MAX };
    static etcdlock_compare compares[N];
    static etcdlock_operation puts[N], deletes[N];
    static char keys[N][64];
    etcdlock_txn txn = ETCDLOCK_TXN_INIT;
    etcdlock_txn_result result = ETCDLOCK_TXN_RESULT_INIT;
    const char *key = live_name("data");
    party p = open_held(live_name("a"));
    for (int i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "%s-%d", key, i);
        compares[i] = (etcdlock_compare){.kind = ETCDLOCK_KEY_ABSENT, .key = keys[i]};
        puts[i] = (etcdlock_operation){.kind = ETCDLOCK_PUT, .key = keys[i], .value = "x", .value_size = 1};
        deletes[i] = (etcdlock_operation){.kind = ETCDLOCK_DELETE, .key = keys[i]};
    }
    txn.compares = compares;
    txn.success = puts;
    txn.failure = deletes;
    txn.n_compares = txn.n_success = txn.n_failure = N;
    int64_t before = etcdctl_revision();
    ck_assert_int_eq(etcdlock_mutex_txn(p.mutex, &txn, &result), 0);
    ck_assert_int_eq(result.succeeded, 1);
    ck_assert_uint_eq(result.revision, (uint64_t)before + 1);
    ck_assert_uint_eq(etcdctl_count(key), N);
    ck_assert_int_eq(etcdlock_mutex_txn(p.mutex, &txn, &result), 0);
    ck_assert_int_eq(result.succeeded, 0);
    ck_assert_uint_eq(etcdctl_count(key), 0);
    txn.n_compares = txn.n_success = txn.n_failure = 0;
    ck_assert_int_eq(etcdlock_mutex_txn(p.mutex, &txn, NULL), 0);
    unlock_and_close(&p);
}
END_TEST

/* ---- what is refused */

static void expect_refused(etcdlock_mutex *mutex, const etcdlock_txn *txn, int error)
{
    etcdlock_txn_result result = ETCDLOCK_TXN_RESULT_INIT;
    result.succeeded = 7;
    ck_assert_int_eq(etcdlock_mutex_txn(mutex, txn, &result), error);
    ck_assert_int_eq(result.succeeded, 7);
}

/* A malformed request is refused with nothing sent, and the hold goes on. */
START_TEST(malformed)
{
    const char *name = live_name("a"), *key = live_name("data");
    char own[600];
    etcdlock_value *value;
    etcdlock_operation twice[2] = {{.kind = ETCDLOCK_PUT, .key = key}, {.kind = ETCDLOCK_DELETE, .key = key}};
    etcdlock_operation odd = {.kind = (etcdlock_operation_kind)9, .key = key};
    etcdlock_compare strange = {.kind = (etcdlock_compare_kind)0, .key = key};
    etcdlock_txn txn = ETCDLOCK_TXN_INIT;
    party p = open_held(name);
    int64_t before = etcdctl_revision();
    ck_assert_int_eq(put_text(NULL, key, "x"), EINVAL);
    ck_assert_int_eq(put_text(p.mutex, NULL, "x"), EINVAL);
    ck_assert_int_eq(put_text(p.mutex, "", "x"), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_put(p.mutex, key, NULL, 1), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_delete(p.mutex, ""), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_get(p.mutex, NULL, &value), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_get(p.mutex, key, NULL), EINVAL);
    ck_assert_int_eq(etcdlock_mutex_txn(p.mutex, NULL, NULL), EINVAL);
    txn.n_success = 2;
    expect_refused(p.mutex, &txn, EINVAL); /* and no list */
    txn.success = twice;
    expect_refused(p.mutex, &txn, EINVAL);
    txn.success = &odd;
    txn.n_success = 1;
    expect_refused(p.mutex, &txn, EINVAL);
    txn.n_success = 0;
    txn.compares = &strange;
    txn.n_compares = 1;
    expect_refused(p.mutex, &txn, EINVAL);
    txn.n_compares = 0;
    txn.size = 1;
    expect_refused(p.mutex, &txn, EINVAL);
    snprintf(own, sizeof own, "%s/x", name);
    ck_assert_int_eq(put_text(p.mutex, own, "x"), EINVAL);
    snprintf(own, sizeof own, "%s.robust", name);
    ck_assert_int_eq(put_text(p.mutex, own, "x"), EINVAL);
    ck_assert_int_eq(etcdctl_revision(), before);
    snprintf(own, sizeof own, "%s.robust2", name);
    ck_assert_int_eq(put_text(p.mutex, own, "x"), 0);
    ck_assert_int_eq(etcdlock_mutex_delete(p.mutex, own), 0);
    unlock_and_close(&p);
}
END_TEST

/* The largest value that is allowed fits, one byte more is refused here, and so is one operation too many. */
START_TEST(largest)
{
    const char *key = live_name("data");
    char *bytes = calloc(1, ETCDLOCK_TXN_BYTES_MAX + 1);
    static etcdlock_operation puts[ETCDLOCK_TXN_OPERATIONS_MAX + 1];
    etcdlock_txn txn = ETCDLOCK_TXN_INIT;
    etcdlock_value *value;
    size_t most = ETCDLOCK_TXN_BYTES_MAX - strlen(key);
    party p = open_held(live_name("a"));
    memset(bytes, 'x', ETCDLOCK_TXN_BYTES_MAX);
    ck_assert_int_eq(etcdlock_mutex_put(p.mutex, key, bytes, most), 0);
    ck_assert_int_eq(etcdlock_mutex_get(p.mutex, key, &value), 0);
    ck_assert_uint_eq(value->size, most);
    etcdlock_value_free(value);
    ck_assert_int_eq(etcdlock_mutex_put(p.mutex, key, bytes, most + 1), E2BIG);
    ck_assert_int_eq(etcdlock_mutex_put(p.mutex, key, bytes, SIZE_MAX), E2BIG);
    txn.success = puts;
    txn.n_success = ETCDLOCK_TXN_OPERATIONS_MAX + 1;
    expect_refused(p.mutex, &txn, E2BIG);
    ck_assert_int_eq(etcdlock_mutex_delete(p.mutex, key), 0);
    unlock_and_close(&p);
    free(bytes);
}
END_TEST

static void *write_as_another(void *arg)
{
    party *p = arg;
    ck_assert_int_eq(put_text(p->mutex, live_name("data"), "x"), EPERM);
    return NULL;
}

/* Whoever does not hold the lock writes nothing: before, afterwards, and as another thread. */
START_TEST(not_held)
{
    const char *key = live_name("data");
    etcdlock_value *value;
    pthread_t other;
    party p = party_open(live_name("a"), 0);
    ck_assert_int_eq(put_text(p.mutex, key, "x"), EPERM);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    pthread_create(&other, NULL, write_as_another, &p);
    pthread_join(other, NULL);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(put_text(p.mutex, key, "x"), EPERM);
    ck_assert_int_eq(etcdlock_mutex_get(p.mutex, key, &value), EPERM);
    ck_assert_int_eq(etcdlock_mutex_delete(p.mutex, key), EPERM);
    ck_assert_uint_eq(etcdctl_count(key), 0);
    party_close(&p);
}
END_TEST

/* ---- the lock is lost */

static bool is_folder_empty(void *arg)
{
    return etcdctl_count(arg) == 0;
}

/* An operator deletes the key: the next write, which comes before any watch can tell, is refused by etcd and
 * says so; the hold is lost by all its other ways too, and the guard's record does not stay. */
START_TEST(entry_deleted)
{
    const char *name = live_name("a"), *key = live_name("data");
    for (int has_record = 0; has_record < 2; has_record++) {
        party p = open_held(name);
        etcdlock_value *value;
        if (has_record) ck_assert_int_eq(put_text(p.mutex, key, "before"), 0);
        delete_entry(p.mutex);
        int error = has_record ? put_text(p.mutex, key, "after") : etcdlock_mutex_get(p.mutex, key, &value);
        ck_assert_int_eq(error, ETCDLOCK_EENTRY);
        ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 0), ETCDLOCK_EENTRY);
        ck_assert_int_eq(put_text(p.mutex, key, "again"), ETCDLOCK_EENTRY);
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ETCDLOCK_EENTRY);
        if (has_record) expect_stored(key, "before");
        char folder[600];
        snprintf(folder, sizeof folder, "%s/", name);
        ck_assert(live_wait_until(is_folder_empty, folder, 5000));
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0); /* the name is as good as ever */
        ck_assert_int_eq(put_text(p.mutex, key, "new"), 0);
        ck_assert_int_eq(etcdlock_mutex_delete(p.mutex, key), 0);
        unlock_and_close(&p);
    }
}
END_TEST

/* The lease is revoked and the next one holds: the old holder's write is refused, the new one's stands. */
START_TEST(lease_revoked)
{
    const char *name = live_name("a"), *key = live_name("data");
    party p = open_held(name), next = party_open(name, 0);
    ck_assert_int_eq(put_text(p.mutex, key, "old"), 0);
    ck_assert(etcdctl_revoke(etcdlock_session_lease(p.session)));
    ck_assert_int_eq(etcdlock_mutex_lock(next.mutex), 0);
    ck_assert_int_eq(put_text(next.mutex, key, "new"), 0);
    assert_loss(put_text(p.mutex, key, "late"));
    assert_loss(etcdlock_mutex_unlock(p.mutex));
    expect_value(next.mutex, key, "new");
    ck_assert_int_eq(etcdlock_mutex_delete(next.mutex, key), 0);
    unlock_and_close(&next);
    party_close_lost(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("guard", &cases, 60);
    tcase_add_test(cases, put_get_delete);
    tcase_add_test(cases, written_key_stays);
    tcase_add_test(cases, prefix);
    tcase_add_test(cases, comparisons);
    tcase_add_test(cases, whole_transaction);
    tcase_add_test(cases, malformed);
    tcase_add_test(cases, largest);
    tcase_add_test(cases, not_held);
    tcase_add_test(cases, entry_deleted);
    tcase_add_test(cases, lease_revoked);
    return live_run(suite);
}
