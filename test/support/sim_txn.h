/* Transactions of the simulated etcd: what is refused, what the compares say, and the effect. */
#ifndef SIM_TXN_H
#define SIM_TXN_H

#include "support/sim_store.h"

/* EL_OK, or why a request is refused. */
typedef struct sim_verdict {
    el_code code;
    const char *message; /* static */
} sim_verdict;

#define SIM_MAX_TXN_OPS 128

sim_verdict sim_txn_check(const el_txn_request *txn, long max_ops);
bool sim_txn_reads_only(const el_txn_request *txn);   /* as etcd sees it: ranges only, nothing nested */
bool sim_txn_serializable(const el_txn_request *txn); /* no write, and every range serializable */
bool sim_txn_grows(
    const el_txn_request *txn); /* what the space quota refuses: etcd looks at the outermost puts */

/* Runs a checked transaction and commits. alive says whether a lease exists; on a refusal nothing happened.
 */
sim_verdict sim_txn_apply(sim_store *store, const el_txn_request *txn,
                          bool (*alive)(const void *leases, int64_t id), const void *leases, sim_arena *arena,
                          el_txn_answer *answer);

/* The same for one without writes, at a revision of the past. */
void sim_txn_read(sim_store *store, const el_txn_request *txn, int64_t revision, sim_arena *arena,
                  el_txn_answer *answer);

#endif
