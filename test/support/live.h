/* What the tests against a real etcd start from: names of their own, parties to a lock, and the check that
 * nothing is left behind. */
#ifndef TEST_LIVE_H
#define TEST_LIVE_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "etcdlock.h"

/* The fixture of every case. The second one fails the case if a key, a lease, a thread or a descriptor is
 * left. */
void live_set_up(void);
void live_tear_down(void);

/* A suite of one group of cases with that fixture; each case may take so long. */
Suite *live_suite(const char *name, TCase **cases, int limit_s);
/* Runs it; the exit status. 77 if no etcd is named. */
int live_run(Suite *suite);

/* A name, or a prefix of names, that no other case uses; it begins with live_prefix(). Lives until the
 * process ends. */
const char *live_name(const char *part);
const char *live_prefix(void);

/* Options that say ETCDLOCK_TEST_ENDPOINTS, and what that cluster wants for TLS or a user. Under valgrind
 * calls have more time than by default, since a first connection alone takes seconds there. */
etcdlock_client_options live_options(void);
/* Sets the variables by which the drop-in form finds the same; its names get live_prefix() in front. */
void live_set_environment(void);
/* "host:port" number i of ETCDLOCK_TEST_ENDPOINTS, from 0; NULL if there are not so many. */
const char *live_endpoint(int i);
/* A command of scripts/cluster.sh, such as "pause 1". A case that ends with a member paused, since it has
 * failed, does not take the next ones with it: it is resumed before them. */
void live_cluster(const char *command);
/* The number that such a command prints. */
int live_cluster_number(const char *command);

int64_t live_now_ms(void);
/* How many times slower than usual all of this runs: under a sanitizer or valgrind; else 1. */
int live_slowness(void);
/* Returns when the session has been renewed n times more; fails the case if the mutex is lost. */
void live_await_renewals(etcdlock_session *session, etcdlock_mutex *mutex, int n);
/* Fails the case if more than limit_ms have passed since began_ms; sanitizers are given more. */
void live_within(int64_t began_ms, int64_t limit_ms);
/* True as soon as the condition is, false after the time. */
bool live_wait_until(bool (*condition)(void *arg), void *arg, int64_t ms);
/* Until every member of the cluster takes writes again, for 30 s at most. */
void live_await_health(void);
/* True as soon as the descriptor polls readable. */
bool live_readable(int fd, int64_t ms);

/* A client with a session and a mutex, as a process of its own has them. */
typedef struct party {
    etcdlock_client *client;
    etcdlock_session *session;
    etcdlock_mutex *mutex;
} party;

/* All of it with a time to live of ttl_s, or the default for 0; fails the case if it cannot be had. */
party party_open(const char *name, int64_t ttl_s);
etcdlock_session *party_session(const party *p, int64_t ttl_s);
etcdlock_mutex *party_mutex(const party *p, const char *name, unsigned flags);
/* Closes what is not NULL, all of which must end well. */
void party_close(party *p);

/* Returns once so many stand in the queue, the holder among them; fails the case after 10 s. */
void party_await_queue(const party *p, const char *name, size_t n);

#endif
