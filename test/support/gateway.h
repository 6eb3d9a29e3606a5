/* Asks etcd through its JSON gateway, one short connection per request: a contender of another make, and a
 * look at the server's figures, quick enough for thousands of requests. Fails the case if etcd refuses. */
#ifndef TEST_GATEWAY_H
#define TEST_GATEWAY_H

#include <stddef.h>
#include <stdint.h>

/* A lease with a chosen id, which may be negative; nobody renews it. */
void gateway_grant(int64_t id, int ttl_s);
void gateway_revoke(int64_t id);

/* Writes a key, with a lease unless it is 0; returns the revision. */
int64_t gateway_put(const char *key, const char *value, int64_t lease);
void gateway_delete(const char *key);

/* How many keys begin so. */
size_t gateway_count(const char *prefix);

/* A figure of the first member, the sum over all of its labels; 0 if it has none of that name. */
double gateway_metric(const char *name);

#endif
