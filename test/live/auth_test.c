/* Users and permissions: what a wrong password, a missing one and a forbidden key give. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"

static const char root[] = "root:secret";

static void turn_off(void)
{
    etcdctl_use_user(root);
    (void)etcdctl_status("auth", "disable", NULL);
    etcdctl_use_user(NULL);
    (void)etcdctl_status("user", "delete", "worker", NULL);
    (void)etcdctl_status("user", "delete", "root", NULL);
    (void)etcdctl_status("role", "delete", "worker", NULL);
}

/* The worker may do as it likes under the case's prefix followed by "mine", and nowhere else. */
static void turn_on(void)
{
    turn_off();
    etcdctl("user", "add", root, NULL);
    etcdctl("user", "grant-role", "root", "root", NULL);
    etcdctl("role", "add", "worker", NULL);
    etcdctl("role", "grant-permission", "--prefix", "worker", "readwrite", live_name("mine"), NULL);
    etcdctl("user", "add", "worker:pass:word", NULL);
    etcdctl("user", "grant-role", "worker", "worker", NULL);
    etcdctl("auth", "enable", NULL);
    etcdctl_use_user(root);
}

static party open_as(const char *user, const char *password)
{
    etcdlock_client_options options = live_options();
    party p = {0};
    options.user = user;
    options.password = password;
    options.command_timeout_ms = 3000;
    ck_assert_int_eq(etcdlock_client_open(&p.client, &options), 0);
    return p;
}

/* With the right password a lock is a lock, whichever way it is said; also among waiters. */
START_TEST(right_password)
{
    const char *name = live_name("mine");
    turn_on();
    party p = open_as("worker:pass:word", NULL), other = open_as("worker", "pass:word");
    caller waiter;
    p.session = party_session(&p, 0);
    p.mutex = party_mutex(&p, name, 0);
    other.session = party_session(&other, 0);
    other.mutex = party_mutex(&other, name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_trylock(other.mutex), EBUSY);
    caller_start(&waiter, other.mutex, -1);
    party_await_queue(&p, name, 2);
    ck_assert(!caller_is_done(&waiter, 150));
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(caller_result(&waiter, 5000), 0);
    ck_assert_int_eq(caller_end(&waiter), 0);
    party_close(&p);
    party_close(&other);
    turn_off();
}
END_TEST

/* A wrong password or an unknown user is EACCES, said at once and with the user's name but no password. */
START_TEST(wrong_password)
{
    static const char *const users[][2] = {{"worker", "guess"}, {"nobody", "guess"}};
    turn_on();
    for (int i = 0; i < 2; i++) {
        party p = open_as(users[i][0], users[i][1]);
        etcdlock_session *session;
        int64_t began_ms = live_now_ms();
        int error = etcdlock_session_open(&session, p.client, NULL);
        live_within(began_ms, 1500);
        ck_assert_msg(error == EACCES, "%d %s", error, etcdlock_error_message());
        ck_assert_ptr_null(session);
        ck_assert_ptr_null(strstr(etcdlock_error_message(), "guess"));
        party_close(&p);
    }
    turn_off();
}
END_TEST

/* A key that the user may not touch is EACCES for lock, trylock and query, and the session lives on. */
START_TEST(forbidden_key)
{
    turn_on();
    party p = open_as("worker:pass:word", NULL);
    etcdlock_queue *queue;
    p.session = party_session(&p, 0);
    p.mutex = party_mutex(&p, live_name("other"), 0);
    etcdlock_mutex *mine = party_mutex(&p, live_name("mine"), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), EACCES);
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), EACCES);
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, 1000), EACCES);
    ck_assert_int_eq(etcdlock_queue_get(&queue, p.client, live_name("other")), EACCES);
    ck_assert_ptr_null(queue);
    ck_assert_int_eq(etcdlock_mutex_lock(mine), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(mine), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(mine), 0);
    party_close(&p);
    turn_off();
}
END_TEST

/* Where the folder of a robust lock is granted and its marker is not, the refusal names that key, nothing is
 * left, and the lock is usable without the flag. */
START_TEST(forbidden_marker)
{
    const char *name = live_name("half");
    char marker[200];
    turn_on();
    etcdctl("role", "grant-permission", "--prefix", "worker", "readwrite", live_name("half/"), NULL);
    party p = open_as("worker:pass:word", NULL);
    snprintf(marker, sizeof marker, " %s.robust", name);
    p.session = party_session(&p, 0);
    p.mutex = party_mutex(&p, name, ETCDLOCK_ROBUST);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), EACCES);
    ck_assert_msg(strstr(etcdlock_error_message(), marker) != NULL, "%s", etcdlock_error_message());
    ck_assert_int_eq(etcdlock_mutex_trylock(p.mutex), EACCES);
    etcdlock_mutex *plain = party_mutex(&p, name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(plain), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(plain), 0);
    ck_assert_uint_eq(etcdctl_count(name), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(plain), 0);
    party_close(&p);
    turn_off();
}
END_TEST

/* Authentication that is turned on under a client without a user ends its next call with EACCES. */
START_TEST(no_user)
{
    party p = party_open(live_name("mine"), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    turn_on();
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), EACCES);
    turn_off();
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("auth", &cases, 30);
    tcase_add_unchecked_fixture(cases, NULL, turn_off); /* also after a case that failed */
    tcase_add_test(cases, right_password);
    tcase_add_test(cases, wrong_password);
    tcase_add_test(cases, forbidden_key);
    tcase_add_test(cases, forbidden_marker);
    tcase_add_test(cases, no_user);
    return live_run(suite);
}
