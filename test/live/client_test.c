/* The client: opening with good and bad options, closing, and the log. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/stranger.h"

/* A client opens without a word to etcd and closes; NULL is allowed to close. */
START_TEST(open_and_close)
{
    etcdlock_client_options options = live_options();
    etcdlock_client *client = NULL;
    ck_assert_int_eq(etcdlock_client_open(&client, &options), 0);
    ck_assert_ptr_nonnull(client);
    ck_assert_int_eq(etcdlock_client_close(client), 0);
    options.endpoints = stranger_nobody();
    ck_assert_int_eq(etcdlock_client_open(&client, &options), 0);
    ck_assert_int_eq(etcdlock_client_close(client), 0);
    ck_assert_int_eq(etcdlock_client_close(NULL), 0);
    ck_assert_int_eq(etcdlock_client_open(NULL, &options), EINVAL);
    ck_assert_str_ne(etcdlock_version(), "");
}
END_TEST

/* Options that are malformed or out of range are EINVAL, and the message names them. */
START_TEST(bad_options)
{
    static const char *const endpoints[] = {"host:99999",
                                            "host:0",
                                            "a:1,,b:2",
                                            "http://",
                                            "ftp://h:1",
                                            "h:port",
                                            "[::1:2379",
                                            " ",
                                            "unix:",
                                            ",",
                                            "http://h:1,https://h:2"};
    etcdlock_client_options ok = live_options();
    etcdlock_client *client = (etcdlock_client *)&ok;
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++) {
        etcdlock_client_options options = ok;
        options.endpoints = endpoints[i];
        ck_assert_msg(etcdlock_client_open(&client, &options) == EINVAL, "'%s'", endpoints[i]);
        ck_assert_ptr_null(client);
        ck_assert_msg(strstr(etcdlock_error_message(), "endpoints") != NULL, "%s", etcdlock_error_message());
    }
    etcdlock_client_options bad[6];
    static const char *const names[6] = {"dial_timeout_ms",      "command_timeout_ms", "keepalive_time_ms",
                                         "keepalive_timeout_ms", "log_level",          "size"};
    for (int i = 0; i < 6; i++)
        bad[i] = ok;
    bad[0].dial_timeout_ms = -1;
    bad[1].command_timeout_ms = INT64_MAX;
    bad[2].keepalive_time_ms = 4999;
    bad[3].keepalive_timeout_ms = 1;
    bad[4].log_level = (etcdlock_log_level)5;
    bad[5].size = 3;
    for (int i = 0; i < 6; i++) {
        ck_assert_msg(etcdlock_client_open(&client, &bad[i]) == EINVAL, "%s", names[i]);
        ck_assert_msg(strstr(etcdlock_error_message(), names[i]) != NULL, "%s", etcdlock_error_message());
    }
}
END_TEST

/* A file that is named must be there, whatever it is for; the message says which. */
START_TEST(missing_files)
{
    etcdlock_client_options ok = live_options(), bad[3] = {ok, ok, ok};
    etcdlock_client *client;
    bad[0].config_file = "/nonexistent/config.json";
    bad[1].ca_file = "/nonexistent/ca.pem";
    bad[2].cert_file = "/nonexistent/cert.pem";
    bad[2].key_file = "/nonexistent/key.pem";
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(etcdlock_client_open(&client, &bad[i]), ENOENT);
        ck_assert_ptr_nonnull(strstr(etcdlock_error_message(), "/nonexistent/"));
    }
    bad[1].ca_file = "/etc"; /* a folder */
    ck_assert_int_eq(etcdlock_client_open(&client, &bad[1]), EISDIR);
    bad[1].ca_file = "/etc/passwd";
    ck_assert_int_eq(etcdlock_client_open(&client, &bad[1]), EINVAL);
    bad[2].key_file = NULL;
    ck_assert_int_eq(etcdlock_client_open(&client, &bad[2]), EINVAL);
}
END_TEST

typedef struct opener {
    etcdlock_client *client;
    etcdlock_session *session;
    etcdlock_queue *queue;
    int result;
} opener;

static void *open_session(void *arg)
{
    opener *o = arg;
    o->result = etcdlock_session_open(&o->session, o->client, NULL);
    return NULL;
}

static void *ask_queue(void *arg)
{
    opener *o = arg;
    o->result = etcdlock_queue_get(&o->queue, o->client, "a");
    return NULL;
}

static bool is_log_written(void *arg)
{
    return *(atomic_int *)arg > 0;
}

static void count_messages(etcdlock_log_level level, const char *message, void *arg)
{
    (void)level;
    (void)message;
    ++*(atomic_int *)arg;
}

/* close ends a session_open, or a query, that waits in another thread, also when nobody ever answers. */
START_TEST(close_ends_a_call)
{
    stranger silent;
    char endpoints[80];
    etcdlock_client_options options = live_options();
    stranger_start(&silent, NULL);
    snprintf(endpoints, sizeof endpoints, "%s,%s", silent.endpoint, stranger_nobody());
    options.endpoints = endpoints;
    options.dial_timeout_ms = 50; /* the first message is the sign that the call is under way */
    options.command_timeout_ms = 60000;
    options.log = count_messages;
    for (int i = 0; i < 6; i++) { /* in an attempt, and between two */
        atomic_int messages = 0;
        pthread_t thread;
        opener o = {0};
        options.log_arg = &messages;
        ck_assert_int_eq(etcdlock_client_open(&o.client, &options), 0);
        ck_assert_int_eq(pthread_create(&thread, NULL, _i ? ask_queue : open_session, &o), 0);
        ck_assert(live_wait_until(is_log_written, &messages, 10000));
        int64_t began_ms = live_now_ms();
        int closed = etcdlock_client_close(o.client);
        live_within(began_ms, 1000);
        ck_assert_msg(closed == 0 || closed == ETCDLOCK_EUNKNOWN, "%d", closed);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_int_eq(o.result, ECANCELED);
        ck_assert_ptr_null(o.session);
        ck_assert_ptr_null(o.queue);
    }
    stranger_end(&silent);
}
END_TEST

/* Closing the client revokes the leases of sessions that are still open. */
START_TEST(close_revokes)
{
    party p = party_open(live_name("a"), 60);
    etcdlock_session *second = party_session(&p, 60);
    int64_t leases[2] = {etcdlock_session_lease(p.session), etcdlock_session_lease(second)};
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_client_close(p.client), 0);
    ck_assert(!etcdctl_has_lease(leases[0]));
    ck_assert(!etcdctl_has_lease(leases[1]));
    ck_assert_uint_eq(etcdctl_count(live_prefix()), 0);
    ck_assert_int_eq(etcdlock_session_close(second), 0);
    ck_assert_int_eq(etcdlock_session_close(p.session), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), ECANCELED);
    ck_assert_int_eq(etcdlock_mutex_destroy(p.mutex), 0);
}
END_TEST

typedef struct book {
    etcdlock_client *client;
    pthread_t writer;
    atomic_int n;
    atomic_int worst; /* the highest level seen */
    atomic_int bad;   /* messages with a newline, or from a second thread */
    atomic_int opened, closed;
    atomic_int inner; /* what a call of the library inside said, plus 1 */
} book;

static void write_down(etcdlock_log_level level, const char *message, void *arg)
{
    book *b = arg;
    if (b->n == 0) b->writer = pthread_self();
    if (strchr(message, '\n') || !pthread_equal(b->writer, pthread_self())) b->bad++;
    if ((int)level > b->worst) b->worst = (int)level;
    if (strstr(message, "opened")) {
        etcdlock_queue *queue;
        int error = etcdlock_queue_get(&queue, b->client, "log-test");
        if (!error) etcdlock_queue_free(queue);
        ck_assert_int_eq(etcdlock_client_close(b->client), EDEADLK);
        b->inner = error + 1;
        b->opened++;
    }
    b->n++;
}

/* The log function is called on one thread, with messages up to its level, and may call the library. */
START_TEST(log_messages)
{
    static book b;
    etcdlock_client_options options = live_options();
    options.log = write_down;
    options.log_arg = &b;
    options.log_level = ETCDLOCK_LOG_INFO;
    ck_assert_int_eq(etcdlock_client_open(&b.client, &options), 0);
    party p = {.client = b.client};
    p.session = party_session(&p, 0);
    ck_assert(live_wait_until(is_log_written, &b.opened, 5000));
    ck_assert_int_eq(b.inner, 1);
    party_close(&p);
    ck_assert_int_eq(b.bad, 0);
    ck_assert_int_ge(b.n, 1);
    ck_assert_int_le(b.worst, ETCDLOCK_LOG_INFO);

    memset(&b, 0, sizeof b);
    options.log_level = ETCDLOCK_LOG_ERROR;
    ck_assert_int_eq(etcdlock_client_open(&b.client, &options), 0);
    p.client = b.client;
    p.session = party_session(&p, 0);
    party_close(&p);
    ck_assert_int_eq(b.n, 0); /* nothing was lost */
}
END_TEST

/* Many clients one after the other leave nothing behind. */
START_TEST(again_and_again)
{
    for (int i = 0; i < 20; i++) {
        party p = party_open(live_name("a"), 0);
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
        party_close(&p);
    }
}
END_TEST

/* Every error has a text; messages are those of the thread's last failure, and success leaves them. */
START_TEST(error_texts)
{
    int errors[] = {0,
                    EBUSY,
                    EPERM,
                    ETIMEDOUT,
                    ETCDLOCK_ESESSION,
                    ETCDLOCK_EENTRY,
                    ETCDLOCK_EUNKNOWN,
                    ETCDLOCK_EUNREACHABLE,
                    ETCDLOCK_EFORKED,
                    ETCDLOCK_EKIND,
                    ETCDLOCK_EPROTOCOL,
                    20999,
                    -1};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        ck_assert_ptr_nonnull(etcdlock_strerror(errors[i]));
        ck_assert_str_ne(etcdlock_strerror(errors[i]), "");
    }
    ck_assert_str_eq(etcdlock_error_message(), "");
    ck_assert_int_eq(etcdlock_client_open(NULL, NULL), EINVAL);
    ck_assert_str_ne(etcdlock_error_message(), "");
    party p = party_open(live_name("a"), 0);
    ck_assert_str_ne(etcdlock_error_message(), "");
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("client", &cases, 30);
    tcase_add_test(cases, open_and_close);
    tcase_add_test(cases, bad_options);
    tcase_add_test(cases, missing_files);
    tcase_add_loop_test(cases, close_ends_a_call, 0, 2);
    tcase_add_test(cases, close_revokes);
    tcase_add_test(cases, log_messages);
    tcase_add_test(cases, again_and_again);
    tcase_add_test(cases, error_texts);
    return live_run(suite);
}
