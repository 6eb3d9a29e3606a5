/* An etcd that is out of space: what fails, and what must go on. It needs an etcd with a small quota, so the
 * program starts itself again under one of its own. */
/* cluster: none */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/etcdctl.h"
#include "support/live.h"

static void fill(void)
{
    static char value[60001];
    char key[64];
    memset(value, 'v', sizeof value - 1);
    for (int i = 0; i < 64; i++) {
        snprintf(key, sizeof key, "full-%d", i);
        if (etcdctl_status("put", key, value, NULL)) return;
    }
    ck_abort_msg("etcd takes everything");
}

/* A party that holds a robust mutex, and was told of a death. */
static party hold_after_a_death(const char *name)
{
    party p = party_open(name, 6);
    etcdlock_mutex *mutex = party_mutex(&p, name, ETCDLOCK_ROBUST);
    ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
    ck_assert_int_eq(etcdlock_session_close(p.session), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
    p.session = party_session(&p, 6);
    p.mutex = party_mutex(&p, name, ETCDLOCK_ROBUST);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), EOWNERDEAD);
    return p;
}

/* What it holds can be unlocked, though etcd does not take the text that the next one is to be told by: the
 * death is not forgotten all the same. */
static void unlock_unrepaired(party *p, const char *name)
{
    char mark[1500];
    snprintf(mark, sizeof mark, "%s.robust", name);
    ck_assert_int_eq(etcdlock_mutex_put(p->mutex, live_name("data"), "x", 1), ENOSPC);
    ck_assert_int_eq(etcdlock_mutex_consistent(p->mutex), ENOSPC);
    ck_assert_int_eq(etcdlock_mutex_unlock(p->mutex), 0);
    ck_assert_ptr_nonnull(strstr(etcdctl("get", mark, NULL), "dead "));
    etcdctl("del", mark, NULL);
    ck_assert_uint_eq(etcdctl_count(name), 0);
}

/* Opening and locking are ENOSPC; a lock that is held stays held, is renewed, and can be unlocked. */
START_TEST(full)
{
    const char *name = live_name("a"), *robust_name = live_name("c");
    party robust = hold_after_a_death(robust_name);
    party p = party_open(name, 4);
    etcdlock_session *session;
    etcdlock_mutex *held = party_mutex(&p, live_name("b"), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(held), 0);
    fill();
    ck_assert_int_eq(etcdlock_session_open(&session, p.client, NULL), ENOSPC);
    ck_assert_ptr_null(session);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), ENOSPC);
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), ENOSPC);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 1000), ENOSPC);
    live_await_renewals(p.session, held, 3); /* beyond the time to live */
    unlock_unrepaired(&robust, robust_name);
    party_close(&robust);
    ck_assert_int_eq(etcdlock_mutex_unlock(held), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(held), 0);
    party_close(&p);
}
END_TEST

static int start_again(void)
{
    const char *script = getenv("ETCDLOCK_TEST_CLUSTER");
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (!script || length < 0) return EXIT_FAILURE;
    self[length] = '\0';
    execl(script, script, "run", "-n", "1", "--tmpfs", "--etcd-flag", "--quota-backend-bytes=300000", "--",
          self, (char *)NULL);
    return EXIT_FAILURE;
}

int main(void)
{
    TCase *cases;
    if (!getenv("ETCDLOCK_TEST_ENDPOINTS")) return start_again();
    Suite *suite = live_suite("full_store", &cases, 30);
    tcase_add_test(cases, full);
    return live_run(suite);
}
