#include "support/written.h"

#include <stdio.h>
#include <string.h>

#include "support/etcdctl.h"

int put_text(etcdlock_mutex *mutex, const char *key, const char *text)
{
    return etcdlock_mutex_put(mutex, key, text, strlen(text));
}

void expect_value(etcdlock_mutex *mutex, const char *key, const char *text)
{
    etcdlock_value *value;
    ck_assert_int_eq(etcdlock_mutex_get(mutex, key, &value), 0);
    ck_assert_str_eq(value->data, text);
    etcdlock_value_free(value);
}

void expect_stored(const char *key, const char *text)
{
    char line[600];
    snprintf(line, sizeof line, "%s\n", text);
    ck_assert_str_eq(etcdctl("get", key, "--print-value-only", NULL), line);
}

party open_held(const char *name)
{
    party p = party_open(name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    return p;
}

void unlock_and_close(party *p)
{
    ck_assert_int_eq(etcdlock_mutex_unlock(p->mutex), 0);
    party_close(p);
}
