/* Guarded writes of texts, and what etcd has of them: for the tests against a real etcd. */
#ifndef TEST_WRITTEN_H
#define TEST_WRITTEN_H

#include "support/live.h"

/* etcdlock_mutex_put of a C string. */
int put_text(etcdlock_mutex *mutex, const char *key, const char *text);

/* Fails the case unless the holder reads this text. */
void expect_value(etcdlock_mutex *mutex, const char *key, const char *text);
/* Fails the case unless etcdctl does. */
void expect_stored(const char *key, const char *text);

/* A party that holds its mutex. */
party open_held(const char *name);
void unlock_and_close(party *p);

#endif
