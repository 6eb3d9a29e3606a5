/* More of etcd's JSON gateway (support/gateway.h): two operations in the same instant, writes that may fail,
 * and the entry of a foreign contender. */
#ifndef TEST_RAW_H
#define TEST_RAW_H

#include <stddef.h>
#include <stdint.h>

/* One request whose connection stands already, so that sending it is all that is left. */
typedef struct raw_call {
    int fd;
} raw_call;

/* To "host:port". Fails the case if it cannot. */
void raw_connect(raw_call *call, const char *endpoint);
void raw_send_revoke(raw_call *call, int64_t lease);
void raw_send_delete(raw_call *call, const char *key);
/* Waits for the answer; the revision that it names, -1 if it is not a good one. */
int64_t raw_end(raw_call *call);

/* The entry of a foreign contender in the queue of a lock, under a lease of its own that nobody renews. Calls
 * fail the case if etcd refuses. */
typedef struct raw_entry {
    char key[256];
    int64_t lease;
} raw_entry;

raw_entry raw_enter(const char *name, int ttl_s);
/* Takes the entry and its lease away. */
void raw_leave(const raw_entry *entry);

/* A lease of any time to live. Fails the case if etcd refuses. */
void raw_grant(int64_t lease, int64_t ttl_s);

/* Writes key if `guard` still has this create_revision. Returns the revision of the write, 0 if it was
 * refused, -1 if there was no answer: it may have been written or not. */
int64_t raw_put_guarded(const char *endpoint, const char *guard, uint64_t create_revision, const char *key,
                        const char *value);
/* Returns the revision of the write, or -1. */
int64_t raw_put(const char *endpoint, const char *key, const char *value);

#endif
