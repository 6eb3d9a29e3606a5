/* A client: the connection to an etcd cluster, shared by all sessions and locks of a program.
 *
 * A client owns one thread for its traffic, one for renewing leases over connections of its own, and, from
 * the first registered callback or log function on, one that runs them. It is safe for use by any number of
 * threads. After fork() it belongs to the parent alone: in the child every function that is given one, or a
 * session or lock made from one, returns ETCDLOCK_EFORKED and touches nothing. A child cannot open a client
 * of its own if its parent had one before (gRPC cannot be used on both sides of a fork); a program that forks
 * workers lets each of them open its own afterwards, or execs. A child that was forked inside a callback must
 * not return from it: it ends by exec or _exit. */
#ifndef ETCDLOCK_CLIENT_H
#define ETCDLOCK_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "etcdlock/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct etcdlock_client etcdlock_client;

typedef enum etcdlock_log_level {
    ETCDLOCK_LOG_ERROR = 1,   /* something was lost: a session, an entry that cannot be removed */
    ETCDLOCK_LOG_WARNING = 2, /* trouble that the library deals with: an endpoint left, a renewal overdue */
    ETCDLOCK_LOG_INFO = 3,    /* sessions opened and closed, endpoints changed */
    ETCDLOCK_LOG_DEBUG = 4,   /* each change of state */
} etcdlock_log_level;

/* Called on the client's callback thread, one call at a time, never with a lock of the library held; it may
 * call the library. message has no newline and lives until the function returns. Messages come in order; if
 * the function is so slow that over 1,000 wait, the newest are dropped and their number is logged; what waits
 * when the client is closed is dropped. */
typedef void etcdlock_log_function(etcdlock_log_level level, const char *message, void *arg);

/* A field that is NULL or 0 is "not said here": then the configuration file says it, then the environment,
 * then the default. README.md has the table of all names, units, ranges and defaults. */
typedef struct etcdlock_client_options {
    size_t size;             /* sizeof(etcdlock_client_options), set by the INIT macro */
    const char *config_file; /* a JSON file with options, for the client and its sessions */
    const char *endpoints;   /* comma-separated: host:port, http://host:port, https://host:port, unix:path */
    const char *user;        /* "name" or "name:password" */
    const char *password;
    /* Files in PEM format; they are read again before a connection is made, so that they can be replaced. */
    const char *ca_file;   /* trust these authorities; not said: the system's */
    const char *cert_file; /* client certificate; with key_file */
    const char *key_file;
    const char *key_prefix;  /* namespace: put before every key as it is, for example "prod/" */
    int64_t dial_timeout_ms; /* one endpoint is given so long to answer a request, then the next is tried */
    int64_t command_timeout_ms; /* a call with no deadline of its own ends after so long without an answer */
    int64_t keepalive_time_ms;  /* a connection with a call or watch on it, silent for so long, is probed */
    int64_t keepalive_timeout_ms; /* and left if the probe is unanswered for so long */
    etcdlock_log_function *log;
    void *log_arg;
    etcdlock_log_level log_level; /* messages up to this level reach `log` */
    /* At most so many transactions of threads that come together go to etcd as one; 1: each goes alone, for
     * servers that speak etcd's protocol but have no nested transactions. */
    int64_t group_max;
} etcdlock_client_options;

#define ETCDLOCK_CLIENT_OPTIONS_INIT ETCDLOCK_SIZED(etcdlock_client_options)

/* Makes a client. options may be NULL: everything from the environment (ETCDCTL_*, as etcdctl reads it) and
 * the defaults. Connects to nobody yet, so an unreachable cluster is noticed by the first session.
 * Does not block beyond reading the named files. On failure *out is set to NULL.
 * EINVAL: an option is out of its range or malformed, a file's contents are; ENOENT, EACCES, ...: a named
 * file cannot be read; ETCDLOCK_EFORKED: a parent process has used a client before the fork; ENOTSUP: an
 * option of etcdctl that this library does not have; ENOMEM; EAGAIN: no thread to be had.
 * etcdlock_error_message names the option and where it was said. */
ETCDLOCK_API int etcdlock_client_open(etcdlock_client **out,
                                      const etcdlock_client_options *options) ETCDLOCK_CHECK_RESULT;

/* Closes a client: every call that waits in another thread returns ECANCELED, the leases of sessions still
 * open are revoked, the threads are joined (where a connection was being made, one that waits for its end is
 * gone 4 s later at the latest). The sessions and locks made from it stay valid as handles, to be
 * closed by their owners in any order; until then their functions return ECANCELED.
 * Blocks no longer than command_timeout_ms and 1 s, also when etcd is away, and then until the callbacks that
 * have begun or wait have returned. NULL is allowed.
 * 0; ETCDLOCK_EUNKNOWN: closed, but a lease could not be revoked and will expire by its time to live;
 * EDEADLK: called from a callback of this client, nothing was done; ETCDLOCK_EFORKED: nothing was done. */
ETCDLOCK_API int etcdlock_client_close(etcdlock_client *client);

/* Fills *options with what client_open would use after file, environment and defaults have been asked: for
 * programs that show their configuration. The strings belong to the library and live until the next call of
 * this function by the same thread. Blocks and fails as client_open. options->size must be set. */
ETCDLOCK_API int etcdlock_client_options_resolve(etcdlock_client_options *options) ETCDLOCK_CHECK_RESULT;

/* The version of the library that is linked, for example "0.1.0". */
ETCDLOCK_API const char *etcdlock_version(void);

#ifdef __cplusplus
}
#endif

#endif
