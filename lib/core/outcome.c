#include "core/outcome.h"

#include <errno.h>
#include <string.h>

#include "etcdlock/error.h"

#define DONE        EL_OUTCOME_DONE
#define REFUSED     EL_OUTCOME_REFUSED
#define NOT_APPLIED EL_OUTCOME_NOT_APPLIED
#define MAYBE       EL_OUTCOME_MAYBE

/* What etcd itself says begins so. The same code without it was made on the way, by a proxy, say, which may
 * have passed the request on. */
#define BY_ETCD "etcdserver: "

/* The first row whose code and text fit decides; the text is a part of the message, NULL fits all. The texts
 * are those of etcd 3.4 and 3.5. A row says REFUSED or NOT_APPLIED only where etcd answers before it proposes
 * anything; whatever is not known for certain is MAYBE, which costs a look and never a wrong belief. */
static const struct {
    el_code code;
    const char *text;
    el_verdict verdict;
} rows[] = {
    /*                                            outcome      error        retry  leave  token */
    {EL_OK, NULL, {DONE, 0, false, false, false}},
    {EL_CANCELLED, NULL, {MAYBE, ECANCELED, true, true, false}},
    /* etcd's own time-outs of a proposal arrive like this (measured: 7 s on a member cut off) */
    {EL_UNKNOWN, NULL, {MAYBE, ETCDLOCK_EUNREACHABLE, true, true, false}},
    {EL_INVALID_ARGUMENT, "user name is empty", {NOT_APPLIED, EACCES, true, false, true}},
    {EL_INVALID_ARGUMENT, "auth store is old", {NOT_APPLIED, EACCES, true, false, true}},
    {EL_INVALID_ARGUMENT, "authentication failed", {REFUSED, EACCES, false, false, false}},
    {EL_INVALID_ARGUMENT, "too many operations", {REFUSED, E2BIG, false, false, false}},
    {EL_INVALID_ARGUMENT, "request is too large", {REFUSED, E2BIG, false, false, false}},
    {EL_INVALID_ARGUMENT, BY_ETCD, {REFUSED, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_INVALID_ARGUMENT, NULL, {MAYBE, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_DEADLINE_EXCEEDED, NULL, {MAYBE, ETCDLOCK_EUNREACHABLE, true, true, false}},
    {EL_NOT_FOUND, "lease not found", {REFUSED, ETCDLOCK_ESESSION, false, false, false}},
    {EL_NOT_FOUND, BY_ETCD, {REFUSED, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_NOT_FOUND, NULL, {MAYBE, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_ALREADY_EXISTS, NULL, {MAYBE, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_PERMISSION_DENIED, BY_ETCD, {REFUSED, EACCES, false, false, false}},
    {EL_PERMISSION_DENIED, NULL, {MAYBE, EACCES, false, false, false}},
    {EL_RESOURCE_EXHAUSTED, "space exceeded", {REFUSED, ENOSPC, false, false, false}},
    {EL_RESOURCE_EXHAUSTED, "too many requests", {NOT_APPLIED, ETCDLOCK_EUNREACHABLE, true, false, false}},
    {EL_RESOURCE_EXHAUSTED, NULL, {MAYBE, ETCDLOCK_EPROTOCOL, true, true, false}},
    {EL_FAILED_PRECONDITION, BY_ETCD, {REFUSED, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_FAILED_PRECONDITION, NULL, {MAYBE, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_ABORTED, NULL, {MAYBE, ETCDLOCK_EUNREACHABLE, true, true, false}},
    {EL_OUT_OF_RANGE, BY_ETCD, {REFUSED, ETCDLOCK_EPROTOCOL, false, false, false}},
    {EL_OUT_OF_RANGE, NULL, {MAYBE, ETCDLOCK_EPROTOCOL, false, false, false}},
    /* a gRPC server that is no etcd, or one without this call */
    {EL_UNIMPLEMENTED, NULL, {NOT_APPLIED, ETCDLOCK_EUNREACHABLE, true, true, false}},
    {EL_INTERNAL, NULL, {MAYBE, ETCDLOCK_EPROTOCOL, true, true, false}},
    {EL_UNAVAILABLE, "not supported for learner", {NOT_APPLIED, ETCDLOCK_EUNREACHABLE, true, true, false}},
    {EL_UNAVAILABLE, NULL, {MAYBE, ETCDLOCK_EUNREACHABLE, true, true, false}},
    {EL_DATA_LOSS, NULL, {MAYBE, ETCDLOCK_EPROTOCOL, true, true, false}},
    {EL_UNAUTHENTICATED, BY_ETCD, {NOT_APPLIED, EACCES, true, false, true}},
    {EL_UNAUTHENTICATED, NULL, {MAYBE, EACCES, true, false, true}},
};

el_verdict el_outcome_of(const el_status *status)
{
    el_verdict verdict = {MAYBE, ETCDLOCK_EPROTOCOL, true, true, false};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].code != status->code) continue;
        if (rows[i].text && !strstr(status->message, rows[i].text)) continue;
        verdict = rows[i].verdict;
        break;
    }
    if (status->local_memory) {
        verdict.error = ENOMEM;
        verdict.retry = verdict.leave_member = false;
    }
    if (status->not_sent && verdict.outcome != REFUSED)
        verdict.outcome = status->local_memory ? REFUSED : NOT_APPLIED;
    return verdict;
}

bool el_outcome_lease_exists(const el_status *status)
{
    return status->code == EL_FAILED_PRECONDITION && strstr(status->message, "lease already exists") != NULL;
}
