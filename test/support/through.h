/* A party to a lock that reaches etcd by a way of the test's own choice, such as a fault proxy. */
#ifndef TEST_THROUGH_H
#define TEST_THROUGH_H

#include <stdint.h>

#include "support/live.h"

/* As party_open, with these endpoints, which are copied, and this command_timeout_ms; 0: the default. */
party party_through(const char *endpoints, const char *name, int64_t ttl_s, int64_t command_timeout_ms);

#endif
