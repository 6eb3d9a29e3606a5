/* The list of etcd's endpoints: from the text that people write to the targets that a transport connects to.
 */
#ifndef EL_ENDPOINT_H
#define EL_ENDPOINT_H

#include <stdbool.h>

#include "core/error.h"

enum {
    EL_ENDPOINTS_MAX = 64,
    EL_ENDPOINT_DEFAULT_PORT = 2379,
};

typedef struct el_endpoints {
    const char **targets; /* "host:port" (host in lower case), "[v6]:port" or "unix:path" each */
    unsigned n_targets;   /* at least 1 after a successful parse */
    bool tls;             /* one of them was written with https:// */
    char *storage;        /* the bytes of the targets */
} el_endpoints;

/* Parses a comma-separated list of host, host:port, http://host:port, https://host:port and unix:path. Spaces
 * around commas and one trailing '/' are tolerated. `where` opens the failure's text: which option it is and
 * who said it. On failure *out is empty. Free it with el_endpoints_free.
 * EINVAL: an endpoint is malformed, missing, there twice or the 65th, or http:// stands beside https://;
 * ENOMEM. */
int el_endpoints_parse(el_endpoints *out, const char *list, const char *where, el_failure *failure);

/* Leaves it empty; an empty one is allowed. */
void el_endpoints_free(el_endpoints *endpoints);

#endif
