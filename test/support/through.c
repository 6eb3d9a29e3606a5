#include "support/through.h"

party party_through(const char *endpoints, const char *name, int64_t ttl_s, int64_t command_timeout_ms)
{
    party p;
    etcdlock_client_options options = live_options();
    options.endpoints = endpoints;
    if (command_timeout_ms) options.command_timeout_ms = command_timeout_ms;
    ck_assert_int_eq(etcdlock_client_open(&p.client, &options), 0);
    p.session = party_session(&p, ttl_s);
    p.mutex = party_mutex(&p, name, 0);
    return p;
}
