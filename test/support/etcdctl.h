/* Asks the real etcd by etcdctl, as an operator would: the tests' second opinion on what is in the store. */
#ifndef TEST_ETCDCTL_H
#define TEST_ETCDCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct etcdctl_key {
    char key[2600]; /* as Go quotes it */
    char value[1024];
    int64_t create_revision;
    int64_t mod_revision;
    int64_t lease;
} etcdctl_key;

/* The endpoints to ask from now on; NULL: ETCDLOCK_TEST_ENDPOINTS again. The text is borrowed. */
void etcdctl_use(const char *endpoints);

/* "name:password" to ask as; NULL: as root where the cluster has users, else without. The text is borrowed.
 */
void etcdctl_use_user(const char *user);

/* Runs etcdctl with these words, the last one NULL, and fails the case unless it ends well. The output lives
 * until the next call of this thread. */
const char *etcdctl(const char *word, ...) __attribute__((sentinel));

/* The same, but returns the status that etcdctl ends with. */
int etcdctl_status(const char *word, ...) __attribute__((sentinel));

/* The store's revision now. */
int64_t etcdctl_revision(void);

/* How many keys begin so. */
size_t etcdctl_count(const char *prefix);

/* Up to `room` keys that begin so, by create_revision; returns how many. */
size_t etcdctl_keys(const char *prefix, etcdctl_key *keys, size_t room);

/* Ends a lease; true if there was one. */
bool etcdctl_revoke(int64_t lease);

bool etcdctl_has_lease(int64_t lease);
size_t etcdctl_count_leases(void);

/* A new lease of etcdctl's; nobody renews it. */
int64_t etcdctl_grant(int ttl_s);

/* `etcdctl lock NAME` as a process: it waits in the queue, and holds until it is ended. */
typedef struct etcdctl_holder {
    pid_t pid;
    int output;
    char key[512]; /* once it holds */
} etcdctl_holder;

void etcdctl_lock(etcdctl_holder *holder, const char *name);
/* True as soon as it holds, false after the time. */
bool etcdctl_holds(etcdctl_holder *holder, int64_t ms);
void etcdctl_unlock(etcdctl_holder *holder);

#endif
