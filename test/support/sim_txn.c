#include "support/sim_txn.h"

#include <stdlib.h>

#define OK ((sim_verdict){EL_OK, ""})

static const sim_verdict duplicate_key = {EL_INVALID_ARGUMENT,
                                          "etcdserver: duplicate key given in txn request"};
static const sim_verdict too_many_ops = {EL_INVALID_ARGUMENT,
                                         "etcdserver: too many operations in txn request"};
static const sim_verdict no_key = {EL_INVALID_ARGUMENT, "etcdserver: key is not provided"};
static const sim_verdict no_lease = {EL_NOT_FOUND, "etcdserver: requested lease not found"};

/* ---- shape -------------------------------------------------------------------------------------------- */

static sim_verdict check_shape(const el_txn_request *txn, long max_ops);

static sim_verdict check_ops(const el_op *ops, size_t n, long max_ops)
{
    for (size_t i = 0; i < n; i++) {
        el_span key = {"", 0};
        switch (ops[i].kind) {
        case EL_OP_RANGE:
            key = ops[i].range.key;
            break;
        case EL_OP_PUT:
            key = ops[i].put.key;
            break;
        case EL_OP_DELETE:
            key = ops[i].del.key;
            break;
        case EL_OP_TXN: {
            sim_verdict verdict = check_shape(ops[i].txn, max_ops);
            if (verdict.code) return verdict;
            continue;
        }
        }
        if (key.size == 0) return no_key;
    }
    return OK;
}

/* etcd counts along each path downwards: the widest list of a level, and what is left for the level below. */
static sim_verdict check_shape(const el_txn_request *txn, long max_ops)
{
    size_t widest = txn->n_compares;
    if (widest < txn->n_success) widest = txn->n_success;
    if (widest < txn->n_failure) widest = txn->n_failure;
    if ((long)widest > max_ops) return too_many_ops;
    for (size_t i = 0; i < txn->n_compares; i++)
        if (txn->compares[i].key.size == 0) return no_key;
    sim_verdict verdict = check_ops(txn->success, txn->n_success, max_ops - (long)widest);
    if (verdict.code) return verdict;
    return check_ops(txn->failure, txn->n_failure, max_ops - (long)widest);
}

/* ---- two writes to one key ---------------------------------------------------------------------------- */

typedef struct touched {
    el_span *puts;
    size_t n_puts, puts_capacity;
    el_delete_request *deletes;
    size_t n_deletes, deletes_capacity;
} touched;

static void forget(touched *t)
{
    free(t->puts);
    free(t->deletes);
}

static bool has_put(const touched *t, el_span key)
{
    for (size_t i = 0; i < t->n_puts; i++)
        if (sim_span_compare(t->puts[i], key) == 0) return true;
    return false;
}

static bool has_delete(const touched *t, el_span key)
{
    for (size_t i = 0; i < t->n_deletes; i++) {
        const el_delete_request *del = &t->deletes[i];
        int order = sim_span_compare(del->key, key);
        if (del->range_end.size == 0 ? order == 0 : order <= 0 && sim_span_compare(key, del->range_end) < 0)
            return true;
    }
    return false;
}

static void add_put(touched *t, el_span key)
{
    if (has_put(t, key)) return;
    t->puts = sim_grow(t->puts, &t->puts_capacity, t->n_puts + 1, sizeof *t->puts);
    t->puts[t->n_puts++] = key;
}

static void add_delete(touched *t, const el_delete_request *del)
{
    t->deletes = sim_grow(t->deletes, &t->deletes_capacity, t->n_deletes + 1, sizeof *t->deletes);
    t->deletes[t->n_deletes++] = *del;
}

static bool collect(const el_op *ops, size_t n, touched *all);

/* Adds what one nested transaction touches. Its two branches exclude each other, so they may share puts. A
 * nested delete after a nested put passes: etcd merges nested deletes only after having looked at the puts.
 */
static bool collect_nested(const el_txn_request *txn, touched *all)
{
    touched then = {0}, otherwise = {0};
    bool fine =
        collect(txn->success, txn->n_success, &then) && collect(txn->failure, txn->n_failure, &otherwise);
    for (size_t i = 0; fine && i < then.n_puts; i++) {
        fine = !has_put(all, then.puts[i]) && !has_delete(all, then.puts[i]);
        add_put(all, then.puts[i]);
    }
    for (size_t i = 0; fine && i < otherwise.n_puts; i++) {
        el_span key = otherwise.puts[i];
        fine = (!has_put(all, key) || has_put(&then, key)) && !has_delete(all, key);
        add_put(all, key);
    }
    for (size_t i = 0; i < then.n_deletes; i++)
        add_delete(all, &then.deletes[i]);
    for (size_t i = 0; i < otherwise.n_deletes; i++)
        add_delete(all, &otherwise.deletes[i]);
    forget(&then);
    forget(&otherwise);
    return fine;
}

/* False: some key would be written twice. The order is etcd's: deletes of this level, nested, puts. */
static bool collect(const el_op *ops, size_t n, touched *all)
{
    for (size_t i = 0; i < n; i++)
        if (ops[i].kind == EL_OP_DELETE) add_delete(all, &ops[i].del);
    for (size_t i = 0; i < n; i++)
        if (ops[i].kind == EL_OP_TXN && !collect_nested(ops[i].txn, all)) return false;
    for (size_t i = 0; i < n; i++) {
        if (ops[i].kind != EL_OP_PUT) continue;
        if (has_put(all, ops[i].put.key) || has_delete(all, ops[i].put.key)) return false;
        add_put(all, ops[i].put.key);
    }
    return true;
}

static bool writes_twice(const el_op *ops, size_t n)
{
    touched all = {0};
    bool fine = collect(ops, n, &all);
    forget(&all);
    return !fine;
}

sim_verdict sim_txn_check(const el_txn_request *txn, long max_ops)
{
    sim_verdict verdict = check_shape(txn, max_ops);
    if (verdict.code) return verdict;
    if (writes_twice(txn->success, txn->n_success)) return duplicate_key;
    if (writes_twice(txn->failure, txn->n_failure)) return duplicate_key;
    return OK;
}

/* ---- kinds -------------------------------------------------------------------------------------------- */

/* etcd looks at the outermost operations only: a nested transaction counts as a write, whatever it does. */
static bool ops_read_only(const el_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ops[i].kind != EL_OP_RANGE) return false;
    return true;
}

bool sim_txn_reads_only(const el_txn_request *txn)
{
    return ops_read_only(txn->success, txn->n_success) && ops_read_only(txn->failure, txn->n_failure);
}

static bool ops_serializable(const el_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ops[i].kind != EL_OP_RANGE || !ops[i].range.serializable) return false;
    return true;
}

bool sim_txn_serializable(const el_txn_request *txn)
{
    return ops_serializable(txn->success, txn->n_success) && ops_serializable(txn->failure, txn->n_failure);
}

bool sim_txn_grows(const el_txn_request *txn)
{
    for (size_t i = 0; i < txn->n_success; i++)
        if (txn->success[i].kind == EL_OP_PUT) return true;
    for (size_t i = 0; i < txn->n_failure; i++)
        if (txn->failure[i].kind == EL_OP_PUT) return true;
    return false;
}

/* ---- compares ----------------------------------------------------------------------------------------- */

static bool stands(int order, el_compare_relation relation)
{
    switch (relation) {
    case EL_EQUAL:
        return order == 0;
    case EL_GREATER:
        return order > 0;
    case EL_LESS:
        return order < 0;
    case EL_NOT_EQUAL:
        return order != 0;
    }
    abort();
}

static bool compare_version(const el_compare *compare, const sim_version *version)
{
    int64_t number = 0;
    switch (compare->target) {
    case EL_TARGET_VERSION:
        number = version->version;
        break;
    case EL_TARGET_CREATE_REVISION:
        number = version->create_revision;
        break;
    case EL_TARGET_MOD_REVISION:
        number = version->mod_revision;
        break;
    case EL_TARGET_LEASE:
        number = version->lease;
        break;
    case EL_TARGET_VALUE:
        return stands(sim_span_compare(version->value, compare->value), compare->relation);
    }
    return stands((number > compare->number) - (number < compare->number), compare->relation);
}

/* Where nothing is found, be it one key or a range, etcd compares with a key of zeros; a value never agrees.
 */
static bool holds(const sim_store *store, const el_compare *compare, int64_t revision)
{
    static const sim_version absent;
    size_t first, end;
    bool found = false;
    sim_store_span(store, compare->key, compare->range_end, &first, &end);
    for (size_t i = first; i < end; i++) {
        const sim_version *version = sim_store_at(store->keys[i], revision);
        if (!version) continue;
        found = true;
        if (!compare_version(compare, version)) return false;
    }
    if (found) return true;
    return compare->target != EL_TARGET_VALUE && compare_version(compare, &absent);
}

/* ---- running ------------------------------------------------------------------------------------------ */

/* Which branch each transaction takes, in the order in which they are met. etcd decides all of them before
 * the first operation runs: a nested compare does not see the puts before it, only a nested range does. */
typedef struct path {
    bool *taken;
    size_t n, capacity, at;
} path;

typedef struct branch {
    const el_op *ops;
    size_t n;
} branch;

static branch branch_of(const el_txn_request *txn, bool succeeded)
{
    if (succeeded) return (branch){txn->success, txn->n_success};
    return (branch){txn->failure, txn->n_failure};
}

static void decide(const sim_store *store, const el_txn_request *txn, int64_t revision, path *p)
{
    bool succeeded = true;
    for (size_t i = 0; i < txn->n_compares && succeeded; i++)
        succeeded = holds(store, &txn->compares[i], revision);
    p->taken = sim_grow(p->taken, &p->capacity, p->n + 1, sizeof *p->taken);
    p->taken[p->n++] = succeeded;
    branch b = branch_of(txn, succeeded);
    for (size_t i = 0; i < b.n; i++)
        if (b.ops[i].kind == EL_OP_TXN) decide(store, b.ops[i].txn, revision, p);
}

static bool leases_live(const el_txn_request *txn, path *p, bool (*alive)(const void *, int64_t),
                        const void *leases)
{
    branch b = branch_of(txn, p->taken[p->at++]);
    for (size_t i = 0; i < b.n; i++) {
        const el_op *op = &b.ops[i];
        if (op->kind == EL_OP_TXN && !leases_live(op->txn, p, alive, leases)) return false;
        if (op->kind == EL_OP_PUT && op->put.lease && !alive(leases, op->put.lease)) return false;
    }
    return true;
}

static void run(sim_store *store, const el_txn_request *txn, int64_t revision, path *p, sim_arena *arena,
                el_txn_answer *answer)
{
    answer->succeeded = p->taken[p->at++];
    branch b = branch_of(txn, answer->succeeded);
    el_op_answer *answers = sim_arena_take(arena, b.n * sizeof *answers);
    for (size_t i = 0; i < b.n; i++) {
        const el_op *op = &b.ops[i];
        answers[i].kind = op->kind;
        switch (op->kind) {
        case EL_OP_RANGE:
            sim_store_range(store, &op->range, revision, arena, &answers[i].range);
            break;
        case EL_OP_PUT:
            sim_store_put(store, op->put.key, op->put.value, op->put.lease);
            break;
        case EL_OP_DELETE:
            answers[i].deleted = sim_store_delete(store, op->del.key, op->del.range_end);
            break;
        case EL_OP_TXN: {
            el_txn_answer *nested = sim_arena_take(arena, sizeof *nested);
            run(store, op->txn, revision, p, arena, nested);
            answers[i].txn = nested;
            break;
        }
        }
    }
    answer->answers = answers;
    answer->n_answers = b.n;
}

sim_verdict sim_txn_apply(sim_store *store, const el_txn_request *txn,
                          bool (*alive)(const void *leases, int64_t id), const void *leases, sim_arena *arena,
                          el_txn_answer *answer)
{
    path p = {0};
    decide(store, txn, store->revision, &p);
    bool live = leases_live(txn, &p, alive, leases);
    if (live) {
        p.at = 0;
        run(store, txn, store->revision + 1, &p, arena, answer);
        sim_store_commit(store);
    }
    free(p.taken);
    return live ? OK : no_lease;
}

void sim_txn_read(sim_store *store, const el_txn_request *txn, int64_t revision, sim_arena *arena,
                  el_txn_answer *answer)
{
    path p = {0};
    decide(store, txn, revision, &p);
    run(store, txn, revision, &p, arena, answer);
    free(p.taken);
}
