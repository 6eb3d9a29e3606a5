/* The simulated etcd against a real one: the same calls on both, and every answer must be the same.
 *
 * ETCDLOCK_TEST_ENDPOINTS names the real one (the first host:port counts); nobody else may write to it
 * meanwhile, as revisions are compared. SEED=n and ROUNDS=n choose the random sequences. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "support/agree_side.h"
#include "support/agree_text.h"
#include "support/runner.h"
#include "support/sim_memory.h"
#include "transport/grpc.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define NONE         ((el_span){"", 0})

static agree_side sides[2]; /* the simulator, the real one */
static char endpoint[256];
static char prefix[32];
static int64_t lease_base; /* ids of leases have the second highest bit set, see agree_text.c */
static sim_arena requests; /* keys and operations of the case that runs */

/* ---- both sides ------------------------------------------------------------------------------------------
 */

/* Of a case that failed earlier, too: its keys would go with their leases in the middle of this one. */
static void delete_everything(void)
{
    el_op op = {.kind = EL_OP_DELETE, .del = {.key = sim_text("agree-"), .range_end = sim_text("agree.")}};
    el_request clean = {.verb = EL_TXN, .txn = {.success = &op, .n_success = 1}};
    agree_ask(&sides[1], &clean);
}

static void set_up(void)
{
    uint64_t luck;
    const char *target = endpoint;
    el_grpc_config config = {.targets = &target, .n_targets = 1};
    config.keepalive_time_ms = 10000;
    config.keepalive_timeout_ms = 5000;
    ck_assert_int_eq(getrandom(&luck, sizeof luck, 0), (int)sizeof luck);
    snprintf(prefix, sizeof prefix, "agree-%016" PRIx64 "/", luck);
    lease_base = (int64_t)(luck >> 16 & ~UINT64_C(15)) | AGREE_LEASE_MARK << 48;
    memset(sides, 0, sizeof sides);
    sides[0].sim = sim_new(NULL);
    sim_faults exact = sim_calm();
    exact.unsynced = 0; /* on an idle server it does not happen */
    sim_set_faults(sides[0].sim, &exact);
    sides[0].transport = sim_client_new(sides[0].sim);
    ck_assert_int_eq(el_grpc_transport_new(&sides[1].transport, &config), 0);
    delete_everything();
    for (int i = 0; i < 2; i++)
        ck_assert(agree_start(&sides[i]));
    for (int i = 0; i < 2; i++)
        agree_watch_open(&sides[i]);
}

static el_span key(const char *name)
{
    char whole[64];
    int length = snprintf(whole, sizeof whole, "%s%s", prefix, name);
    return sim_arena_span(&requests, (el_span){whole, (size_t)length});
}

static void explain(const el_request *request, const char *what)
{
    agree_text text = {0};
    agree_print_request(&text, request);
    fprintf(stderr, "%s: %s\n  simulator: %s\n  etcd:      %s\n", what, agree_chars(&text),
            agree_chars(&sides[0].answer), agree_chars(&sides[1].answer));
    agree_text_free(&text);
}

static void both(const el_request *request)
{
    for (int i = 0; i < 2; i++)
        agree_ask(&sides[i], request);
    bool same = strcmp(agree_chars(&sides[0].answer), agree_chars(&sides[1].answer)) == 0;
    if (!same) explain(request, "they disagree");
    if (getenv("V") && same) explain(request, "agreed");
    ck_assert(same);
}

/* What both have said contains this; that they say the same is checked by `both`. */
static void said(const char *part)
{
    ck_assert_msg(strstr(agree_chars(&sides[0].answer), part) != NULL, "no '%s' in '%s'", part,
                  agree_chars(&sides[0].answer));
}

static void settle(int64_t ms)
{
    agree_settle_both(&sides[0], &sides[1], ms);
}

static void watch(int64_t id, el_span name, int64_t start_revision)
{
    for (int i = 0; i < 2; i++)
        agree_watch_create(&sides[i], id, name, start_revision, false);
    settle(start_revision ? 250 : 20);
}

static void unwatch(int64_t id)
{
    settle(30);
    for (int i = 0; i < 2; i++)
        agree_watch_cancel(&sides[i], id);
    settle(20);
}

static void compare_watches(void)
{
    bool same = true;
    settle(150);
    for (int id = 0; id < AGREE_WATCHES; id++) {
        const char *mine = agree_chars(&sides[0].watches[id]), *real = agree_chars(&sides[1].watches[id]);
        if (strcmp(mine, real) == 0 && !(getenv("V") && *mine)) continue;
        same = same && strcmp(mine, real) == 0;
        fprintf(stderr, "watch %d\n  simulator: %s\n  etcd:      %s\n", id, mine, real);
    }
    ck_assert(same);
}

static void tear_down(void)
{
    delete_everything();
    for (int64_t id = lease_base; id < lease_base + 16; id++) {
        el_request revoke = {.verb = EL_LEASE_REVOKE, .lease = {.id = id}};
        agree_ask(&sides[1], &revoke);
    }
    for (int i = 0; i < 2; i++)
        agree_end(&sides[i]);
    sim_free(sides[0].sim);
    sim_arena_free(&requests);
}

/* ---- requests --------------------------------------------------------------------------------------------
 */

static el_op put_op(const char *name, int64_t lease)
{
    return (el_op){.kind = EL_OP_PUT, .put = {.key = key(name), .value = sim_text(name), .lease = lease}};
}

static el_op delete_op(const char *name, const char *end)
{
    return (el_op){.kind = EL_OP_DELETE, .del = {.key = key(name), .range_end = end ? key(end) : NONE}};
}

static el_op range_op(const char *name, const char *end)
{
    return (el_op){.kind = EL_OP_RANGE, .range = {.key = key(name), .range_end = end ? key(end) : NONE}};
}

static el_op nested_op(const el_op *ops, size_t n)
{
    el_txn_request *txn = sim_arena_take(&requests, sizeof *txn);
    el_op *copies = sim_arena_take(&requests, n * sizeof *copies);
    memcpy(copies, ops, n * sizeof *copies);
    *txn = (el_txn_request){.success = copies, .n_success = n};
    return (el_op){.kind = EL_OP_TXN, .txn = txn};
}

static void both_ops(const el_op *ops, size_t n)
{
    el_request request = {.verb = EL_TXN, .txn = {.success = ops, .n_success = n}};
    both(&request);
}

static void both_lease(el_verb verb, int64_t id, int64_t ttl_s)
{
    el_request request = {.verb = verb, .lease = {.id = id, .ttl_s = ttl_s}};
    both(&request);
}

/* ---- scripts ---------------------------------------------------------------------------------------------
 */

/* Every target and relation, on a key, an absent key, a range and an empty range. */
START_TEST(every_compare)
{
    el_op puts[] = {put_op("a1", 0), put_op("a2", 0)};
    both_ops(puts, 2);
    both_ops(puts, 1);
    el_span places[][2] = {{key("a1"), NONE}, {key("x"), NONE}, {key("a"), key("b")}, {key("x"), key("y")}};
    for (size_t place = 0; place < COUNT(places); place++)
        for (int target = EL_TARGET_VERSION; target <= EL_TARGET_LEASE; target++)
            for (int relation = EL_EQUAL; relation <= EL_NOT_EQUAL; relation++)
                for (int64_t number = 0; number < 3; number++) {
                    el_compare compare = {.key = places[place][0],
                                          .range_end = places[place][1],
                                          .target = (el_compare_target)target,
                                          .relation = (el_compare_relation)relation,
                                          .number = number,
                                          .value = number ? sim_text("a1") : NONE};
                    el_request request = {.verb = EL_TXN, .txn = {.compares = &compare, .n_compares = 1}};
                    both(&request);
                }
}
END_TEST

/* Two writes to one key, in all the ways to hide them. */
START_TEST(duplicates)
{
    el_op p = put_op("a", 0), d = delete_op("a", "b");
    el_op np = nested_op(&p, 1), nd = nested_op(&d, 1), nnp = nested_op(&np, 1), nnd = nested_op(&nd, 1);
    el_op all[] = {p, d, np, nd, nnp, nnd};
    for (size_t i = 0; i < COUNT(all); i++)
        for (size_t j = 0; j < COUNT(all); j++) {
            el_op ops[] = {all[i], all[j], range_op("a", NULL)};
            both_ops(ops, 3);
        }
    el_op pair[] = {p, p};
    both_ops(pair, 2);
    said("error 3 etcdserver: duplicate key given in txn request");
}
END_TEST

/* The limit of 128 operations, along a path; missing keys; both at once. */
START_TEST(shapes)
{
    el_op looks[129], batch[100];
    for (size_t i = 0; i < COUNT(looks); i++)
        looks[i] = range_op("a", NULL);
    both_ops(looks, 128);
    both_ops(looks, 129);
    said("error 3 etcdserver: too many operations in txn request");
    for (size_t i = 0; i < COUNT(batch); i++)
        batch[i] = nested_op(looks, 28);
    both_ops(batch, 100);
    batch[99] = nested_op(looks, 29);
    both_ops(batch, 100);
    el_op empty[] = {{.kind = EL_OP_PUT}, {.kind = EL_OP_DELETE}, {.kind = EL_OP_RANGE}};
    for (size_t i = 0; i < COUNT(empty); i++) {
        both_ops(&empty[i], 1);
        said("error 3 etcdserver: key is not provided");
    }
    el_compare compare = {.number = 1};
    el_request request = {.verb = EL_TXN, .txn = {.compares = &compare, .n_compares = 1}};
    both(&request);
    both(&(el_request){.verb = EL_RANGE});
}
END_TEST

/* Grants, renewals, looks and revocations, of leases alive and dead; puts that name them. */
START_TEST(leases)
{
    int64_t id = lease_base;
    static const int64_t ttls_s[] = {1, 0, -5, 100, INT64_C(9000000000)};
    for (size_t i = 0; i < COUNT(ttls_s); i++)
        both_lease(EL_LEASE_GRANT, id + (int64_t)i, ttls_s[i]);
    both_lease(EL_LEASE_GRANT, id + 9, INT64_C(9000000001));
    said("error 11 etcdserver: too large lease TTL");
    both_lease(EL_LEASE_GRANT, id + 3, 100);
    said("error 9 etcdserver: lease already exists");
    both_lease(EL_LEASE_GRANT, 0, 5);
    both_lease(EL_LEASE_KEEPALIVE, id + 3, 0);
    both_lease(EL_LEASE_KEEPALIVE, id + 9, 0);
    both_lease(EL_LEASE_TIME_TO_LIVE, id + 3, 0);
    both_lease(EL_LEASE_TIME_TO_LIVE, id + 9, 0);
    el_op ops[] = {put_op("c", id + 3), put_op("b", id + 3), put_op("a", 0)};
    both_ops(ops, 3);
    watch(1, key("b"), 0);
    watch(2, key("c"), 0);
    el_op detach = put_op("c", 0), dead[] = {put_op("d", 0), put_op("e", id + 9)};
    both_ops(&detach, 1);
    both_ops(dead, 2);
    said("error 5 etcdserver: requested lease not found");
    both_lease(EL_LEASE_REVOKE, id + 3, 0);
    both_lease(EL_LEASE_REVOKE, id + 3, 0);
    el_op look = range_op("", "~");
    both_ops(&look, 1);
    compare_watches();
}
END_TEST

/* A lease that runs out takes its key along, at a revision of its own. */
START_TEST(expiry)
{
    both_lease(EL_LEASE_GRANT, lease_base, 2);
    el_op op = put_op("a", lease_base);
    both_ops(&op, 1);
    watch(1, key("a"), 0);
    settle(4000);
    both_lease(EL_LEASE_KEEPALIVE, lease_base, 0);
    said("ttl 0");
    el_op look = range_op("a", NULL);
    both_ops(&look, 1);
    compare_watches();
    ck_assert(strstr(agree_chars(&sides[0].watches[1]), "delete") != NULL);
}
END_TEST

/* Watches from now, the past, the future and a compacted revision, and of deletions alone; ids used twice;
 * two events at once. */
START_TEST(watch_starts)
{
    el_op put = put_op("a", 0), del = delete_op("a", NULL), *first[] = {&put, &del, &put};
    for (int i = 0; i < 3; i++)
        both_ops(first[i], 1);
    watch(1, key("a"), 0);
    watch(2, key("a"), 1);
    watch(3, key("a"), sides[0].revision + 2);
    watch(4, key("a"), sides[0].revision);
    for (int i = 0; i < 2; i++)
        agree_watch_create(&sides[i], 5, key("a"), 0, true);
    watch(1, key("a"), 0);
    both_ops(&put, 1);
    el_op batch[] = {nested_op(&put, 1), nested_op(&del, 1)};
    both_ops(batch, 2);
    unwatch(1);
    unwatch(1);
    unwatch(50);
    both_ops(&put, 1);
    watch(1, key("a"), 0);
    both_ops(&del, 1);
    compare_watches();
}
END_TEST

START_TEST(compacted_watch)
{
    char command[512];
    el_op op = put_op("a", 0);
    for (int i = 0; i < 4; i++)
        both_ops(&op, 1);
    snprintf(command, sizeof command,
             "env -u ETCDCTL_ENDPOINTS ETCDCTL_API=3 etcdctl --endpoints %s compaction %" PRId64 " >&2",
             endpoint, sides[1].base_revision + 3);
    ck_assert_int_eq(system(command), 0);
    sim_compact(sides[0].sim, sides[0].base_revision + 3);
    watch(1, key("a"), 2);
    watch(2, key("a"), 3);
    both_ops(&op, 1);
    compare_watches();
    ck_assert(strstr(agree_chars(&sides[0].watches[1]), "compacted +3") != NULL);
}
END_TEST

START_TEST(status_and_authentication)
{
    both(&(el_request){.verb = EL_STATUS});
    both(&(el_request){.verb = EL_AUTHENTICATE,
                       .authenticate = {.user = sim_text("u"), .password = sim_text("p")}});
    said("error 9 etcdserver: authentication is not enabled");
}
END_TEST

/* ---- random sequences ---- */

static const char *const names[] = {"a", "a/1", "a/2", "b", "c", "c0", "d"};
static uint64_t seed;

static int64_t below(int64_t bound)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((seed >> 33) % (uint64_t)bound);
}

static const char *any_name(void)
{
    return names[below(COUNT(names))];
}

static const char *any_end(void)
{
    return below(2) ? NULL : any_name();
}

static int64_t any_revision(void)
{
    return below(4) ? below(sides[0].revision + 2) : 0;
}

static el_op any_op(int depth);

static el_txn_request any_txn(int depth)
{
    el_txn_request txn = {.n_compares = (size_t)below(3), .n_success = (size_t)below(4)};
    txn.n_failure = (size_t)below(4);
    el_compare *compares = sim_arena_take(&requests, txn.n_compares * sizeof *compares);
    el_op *success = sim_arena_take(&requests, txn.n_success * sizeof *success);
    el_op *failure = sim_arena_take(&requests, txn.n_failure * sizeof *failure);
    for (size_t i = 0; i < txn.n_compares; i++) {
        const char *end = any_end();
        compares[i].key = key(any_name());
        compares[i].range_end = end ? key(end) : NONE;
        compares[i].target = (el_compare_target)below(5);
        compares[i].relation = (el_compare_relation)below(4);
        compares[i].value = sim_text(any_name());
        if (compares[i].target == EL_TARGET_LEASE)
            compares[i].number = below(2) ? lease_base + below(4) : 0;
        else
            compares[i].number = compares[i].target == EL_TARGET_VERSION ? below(3) : any_revision();
    }
    for (size_t i = 0; i < txn.n_success; i++)
        success[i] = any_op(depth);
    for (size_t i = 0; i < txn.n_failure; i++)
        failure[i] = any_op(depth);
    txn.compares = compares;
    txn.success = success;
    txn.failure = failure;
    return txn;
}

static el_op any_range(void)
{
    el_op op = range_op(any_name(), any_end());
    op.range.limit = below(2) ? below(4) : 0;
    op.range.max_create_revision = below(3) ? 0 : any_revision();
    op.range.sort = (el_sort_target)below(3);
    op.range.serializable = below(2);
    op.range.keys_only = below(2);
    op.range.count_only = below(6) == 0;
    return op;
}

static el_op any_op(int depth)
{
    int64_t kind = below(depth ? 12 : 8);
    if (kind < 3) return any_range();
    if (kind < 6) return put_op(any_name(), below(2) ? 0 : lease_base + below(4));
    if (kind < 8) return delete_op(any_name(), any_end());
    el_txn_request *nested = sim_arena_take(&requests, sizeof *nested);
    *nested = any_txn(depth - 1);
    return (el_op){.kind = EL_OP_TXN, .txn = nested};
}

static void any_step(int64_t *watches)
{
    int64_t kind = below(40);
    if (kind < 26) {
        el_request request = {.verb = EL_TXN, .txn = any_txn(2)};
        both(&request);
    } else if (kind < 30) {
        el_request request = {.verb = EL_RANGE, .range = any_range().range};
        both(&request);
    } else if (kind < 33) {
        both_lease(EL_LEASE_GRANT, lease_base + below(4), 60 + below(60));
    } else if (kind < 35) {
        both_lease(EL_LEASE_REVOKE, lease_base + below(4), 0);
    } else if (kind < 37) {
        both_lease(below(2) ? EL_LEASE_KEEPALIVE : EL_LEASE_TIME_TO_LIVE, lease_base + below(4), 0);
    } else if (kind < 39 && *watches < AGREE_WATCHES - 1) {
        ++*watches;
        watch(*watches, key(any_name()), below(5) ? 0 : any_revision());
    } else if (*watches) {
        unwatch(1 + below(*watches));
    }
}

START_TEST(random_sequences)
{
    const char *first = getenv("SEED"), *rounds = getenv("ROUNDS");
    uint64_t start = (first ? strtoull(first, NULL, 10) : 1) + (uint64_t)_i;
    int64_t watches = 0;
    seed = start * UINT64_C(0x9e3779b97f4a7c15);
    for (long i = rounds ? atol(rounds) : 400; i > 0; i--)
        any_step(&watches);
    compare_watches();
}
END_TEST

static Suite *suite(void)
{
    Suite *all = suite_create("sim_agrees");
    TCase *cases = tcase_create("agreement");
    tcase_set_timeout(cases, 120);
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, every_compare);
    tcase_add_test(cases, duplicates);
    tcase_add_test(cases, shapes);
    tcase_add_test(cases, leases);
    tcase_add_test(cases, expiry);
    tcase_add_test(cases, watch_starts);
    tcase_add_test(cases, compacted_watch);
    tcase_add_test(cases, status_and_authentication);
    tcase_add_loop_test(cases, random_sequences, 0, 5);
    suite_add_tcase(all, cases);
    return all;
}

int main(void)
{
    const char *endpoints = getenv("ETCDLOCK_TEST_ENDPOINTS");
    if (!endpoints || !*endpoints) {
        fprintf(stderr, "sim_agrees_test: ETCDLOCK_TEST_ENDPOINTS is not set, nothing to compare with\n");
        return 77;
    }
    snprintf(endpoint, sizeof endpoint, "%.*s", (int)strcspn(endpoints, ","), endpoints);
    return runner_run(suite());
}
