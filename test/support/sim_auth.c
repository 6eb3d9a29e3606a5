#include <inttypes.h>
#include <stdio.h>

#include "support/sim_cluster.h"

void sim_auth_renew_token(sim *s)
{
    snprintf(s->token, sizeof s->token, "sim.%016" PRIx64, ++s->token_generation);
}

void sim_auth_authenticate(sim *s, sim_op *op)
{
    const el_request *request = op->request;
    if (!s->user) {
        op->verdict = (sim_verdict){EL_FAILED_PRECONDITION, "etcdserver: authentication is not enabled"};
    } else if (sim_span_compare(request->authenticate.user, sim_text(s->user)) != 0 ||
               sim_span_compare(request->authenticate.password, sim_text(s->password)) != 0) {
        op->verdict = (sim_verdict){EL_INVALID_ARGUMENT,
                                    "etcdserver: authentication failed, invalid user ID or password"};
    } else {
        op->answer.token = sim_arena_span(&op->arena, sim_text(s->token));
    }
}

static const sim_verdict fine = {EL_OK, ""};
static const sim_verdict nobody = {EL_INVALID_ARGUMENT, "etcdserver: user name is empty"};
static const sim_verdict bad_token = {EL_UNAUTHENTICATED, "etcdserver: invalid auth token"};

static bool valid(const sim *s, el_span token)
{
    return sim_span_compare(token, sim_text(s->token)) == 0;
}

static bool has_keys(const sim *s, int64_t lease)
{
    for (size_t i = 0; i < s->store.n_keys; i++) {
        const sim_version *version = sim_store_at(s->store.keys[i], s->store.revision);
        if (version && version->lease == lease) return true;
    }
    return false;
}

/* As measured on 3.4.23: whatever goes through the log fails with a bad token, and without one what touches
 * keys does; renewals are never looked at. */
sim_verdict sim_auth_admit(const sim *s, const el_request *request, el_span token)
{
    if (!s->user || valid(s, token)) return fine;
    sim_verdict refused = token.size ? bad_token : nobody;
    switch (request->verb) {
    case EL_TXN:
    case EL_RANGE:
        return refused;
    case EL_LEASE_GRANT:
    case EL_AUTHENTICATE:
        return token.size ? refused : fine;
    case EL_LEASE_REVOKE:
        return token.size || has_keys(s, request->lease.id) ? refused : fine;
    case EL_LEASE_KEEPALIVE:
    case EL_LEASE_TIME_TO_LIVE:
    case EL_STATUS:
        break;
    }
    return fine;
}

const char *sim_auth_watch_refusal(const sim *s, el_span token)
{
    if (!s->user || valid(s, token)) return NULL;
    return token.size ? "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token"
                      : "rpc error: code = InvalidArgument desc = etcdserver: user name is empty";
}

/* ---- by hand ---------------------------------------------------------------------------------------------
 */

void sim_set_auth(sim *s, const char *user, const char *password)
{
    sim_lock(s);
    s->user = user;
    s->password = password;
    sim_unlock(s);
}

void sim_expire_tokens(sim *s)
{
    sim_lock(s);
    sim_auth_renew_token(s);
    sim_unlock(s);
}
