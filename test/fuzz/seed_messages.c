/* Seeds that are etcd's messages. */
#include <stdlib.h>
#include <string.h>

#include "make_seeds.h"
#include "support/codec_samples.h"

/* ---- answers and watch messages ---- */

static void write_answer(el_verb verb, const char *name, uint8_t failing, wire w)
{
    uint8_t head[] = {(uint8_t)verb, failing};
    seed_write("answer", name, head, sizeof(head), w.data, w.size);
    free(w.data);
}

static void write_leases(Etcdserverpb__ResponseHeader *header)
{
    Etcdserverpb__LeaseGrantResponse grant = ETCDSERVERPB__LEASE_GRANT_RESPONSE__INIT;
    grant.header = header;
    grant.id = 0x694d7c8a1b2c3d4e;
    grant.ttl = 30;
    write_answer(EL_LEASE_GRANT, "grant", 0, packed(&grant));
    Etcdserverpb__LeaseRevokeResponse revoke = ETCDSERVERPB__LEASE_REVOKE_RESPONSE__INIT;
    revoke.header = header;
    write_answer(EL_LEASE_REVOKE, "revoke", 0, packed(&revoke));
    Etcdserverpb__LeaseKeepAliveResponse keepalive = ETCDSERVERPB__LEASE_KEEP_ALIVE_RESPONSE__INIT;
    keepalive.header = header;
    keepalive.id = grant.id;
    keepalive.ttl = 30;
    write_answer(EL_LEASE_KEEPALIVE, "keepalive", 0, packed(&keepalive));
    Etcdserverpb__LeaseTimeToLiveResponse left = ETCDSERVERPB__LEASE_TIME_TO_LIVE_RESPONSE__INIT;
    left.header = header;
    left.id = grant.id;
    left.ttl = -1;
    left.grantedttl = 30;
    write_answer(EL_LEASE_TIME_TO_LIVE, "time-to-live", 0, packed(&left));
}

static void write_answers(void)
{
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    header.revision = 42;
    write_answer(EL_RANGE, "range", 0, sample_range());
    write_answer(EL_RANGE, "range-starved", 2 * 1, sample_range());
    write_answer(EL_TXN, "txn", 0, sample_txn(0));
    write_answer(EL_TXN, "txn-nested", 0, sample_txn(3));
    write_answer(EL_TXN, "txn-too-deep", 0, sample_txn(12));
    write_leases(&header);
    Etcdserverpb__AuthenticateResponse authenticate = ETCDSERVERPB__AUTHENTICATE_RESPONSE__INIT;
    authenticate.header = &header;
    authenticate.token = bytes("kyxokZrWkCNJUGbA.17");
    write_answer(EL_AUTHENTICATE, "authenticate", 0, packed(&authenticate));
    Etcdserverpb__StatusResponse status = ETCDSERVERPB__STATUS_RESPONSE__INIT;
    Etcdserverpb__StatusResponse__Header status_header = ETCDSERVERPB__STATUS_RESPONSE__HEADER__INIT;
    status_header.member_id = 0x8e9e05c52164694d;
    status_header.revision = 42;
    status.header = &status_header;
    status.version = bytes("3.4.23");
    status.leader = status_header.member_id;
    status.dbsize = 20480;
    write_answer(EL_STATUS, "status", 0, packed(&status));
}

static void write_watches(void)
{
    Etcdserverpb__WatchResponse created;
    uint8_t failing = 0;
    wire w = sample_watch();
    seed_write("watch", "refused", &failing, 1, w.data, w.size);
    seed_write("watch", "cut", &failing, 1, w.data, w.size - 3);
    failing = 2 * 1;
    seed_write("watch", "starved", &failing, 1, w.data, w.size);
    free(w.data);
    failing = 0;
    etcdserverpb__watch_response__init(&created);
    created.watch_id = 1;
    created.created = 1;
    w = packed(&created);
    seed_write("watch", "created", &failing, 1, w.data, w.size);
    free(w.data);
}

/* ---- answers to a place ---- */

enum { ENTER, TRY, LOOK, BY_READER = 4 };

static Etcdserverpb__KeyValue key_value(const char *key, const char *value, int64_t create_revision)
{
    Etcdserverpb__KeyValue kv = ETCDSERVERPB__KEY_VALUE__INIT;
    kv.key = bytes(key);
    kv.value = bytes(value);
    kv.create_revision = create_revision;
    return kv;
}

/* mine NULL: it was written by this very transaction. What is in the folder ends with an entry without a key.
 */
static void write_place(uint8_t kind, const char *name, Etcdserverpb__KeyValue *mine,
                        Etcdserverpb__KeyValue *folder, bool more)
{
    uint8_t head[10] = {kind, 0};
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    Etcdserverpb__PutResponse put = ETCDSERVERPB__PUT_RESPONSE__INIT;
    Etcdserverpb__RangeResponse ranges[2] = {ETCDSERVERPB__RANGE_RESPONSE__INIT,
                                             ETCDSERVERPB__RANGE_RESPONSE__INIT};
    Etcdserverpb__ResponseOp ops[2] = {ETCDSERVERPB__RESPONSE_OP__INIT, ETCDSERVERPB__RESPONSE_OP__INIT};
    Etcdserverpb__ResponseOp *pointers[] = {&ops[0], &ops[1]};
    Etcdserverpb__KeyValue *kvs[4];
    Etcdserverpb__TxnResponse txn = ETCDSERVERPB__TXN_RESPONSE__INIT;
    for (; ranges[1].n_kvs < 4 && folder[ranges[1].n_kvs].key.len; ranges[1].n_kvs++)
        kvs[ranges[1].n_kvs] = &folder[ranges[1].n_kvs];
    ranges[1].kvs = kvs;
    ranges[1].more = more;
    ranges[0].kvs = &mine;
    ranges[0].n_kvs = mine && mine->key.len ? 1 : 0;
    ops[0].response_case = mine ? ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE
                                : ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_PUT;
    if (mine) {
        ops[0].response_range = &ranges[0];
    } else {
        ops[0].response_put = &put;
    }
    ops[1].response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
    ops[1].response_range = &ranges[1];
    header.revision = 9;
    txn.header = &header;
    txn.succeeded = !mine || kind % BY_READER == LOOK;
    txn.responses = pointers;
    txn.n_responses = 2;
    head[9] = 9; /* our create_revision, for the look */
    wire w = packed(&txn);
    seed_write("place", name, head, sizeof(head), w.data, w.size);
    free(w.data);
}

static void write_places(void)
{
    Etcdserverpb__KeyValue none = ETCDSERVERPB__KEY_VALUE__INIT;
    Etcdserverpb__KeyValue ours = key_value("pre/NAME/aa", "{me}", 9);
    Etcdserverpb__KeyValue broken = key_value("pre/NAME/aa", "{me}", -9);
    Etcdserverpb__KeyValue theirs = key_value("pre/NAME/bb-3", "", 7);
    Etcdserverpb__KeyValue reader = key_value("pre/NAME/r-bb", "", 6);
    Etcdserverpb__KeyValue stray = key_value("pre/NAME/sub/bb", "", 8);
    write_place(ENTER, "enter-first", NULL, (Etcdserverpb__KeyValue[]){ours, none}, false);
    write_place(ENTER, "enter-second", NULL, (Etcdserverpb__KeyValue[]){ours, theirs, none}, true);
    write_place(ENTER, "enter-repeated", &ours, (Etcdserverpb__KeyValue[]){ours, stray, none}, true);
    write_place(TRY, "try-held", &none, (Etcdserverpb__KeyValue[]){reader, none}, true);
    write_place(TRY, "try-repeated", &ours, (Etcdserverpb__KeyValue[]){ours, none}, false);
    write_place(LOOK, "look-first", &ours, (Etcdserverpb__KeyValue[]){none}, false);
    write_place(LOOK, "look-no-revision", &broken, (Etcdserverpb__KeyValue[]){none}, false);
    write_place(ENTER, "enter-no-revision", &broken, (Etcdserverpb__KeyValue[]){broken, none}, false);
    write_place(LOOK, "look-gone", &none, (Etcdserverpb__KeyValue[]){theirs, none}, false);
    write_place(BY_READER | LOOK, "look-reader", &ours,
                (Etcdserverpb__KeyValue[]){stray, theirs, reader, none}, false);
    write_place(BY_READER | ENTER, "enter-reader", NULL, (Etcdserverpb__KeyValue[]){reader, none}, false);
}

void seed_messages(void)
{
    write_answers();
    write_watches();
    write_places();
}
