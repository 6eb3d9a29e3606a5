#include "support/live.h"

#include <dirent.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>

#include "support/etcdctl.h"
#include "support/runner.h"

/* gRPC keeps an epoll and an eventfd from its first use to the end of the process. */
enum { NAMES_MAX = 64, NAME_ROOM = 1400, POLL_MS = 2, KEPT_BY_GRPC = 2 };

static struct {
    size_t descriptors;
    size_t threads;
    size_t leases;
} before;

/* ---- nothing left behind ---------------------------------------------------------------------------------
 */

static size_t count_entries(const char *folder)
{
    size_t n = 0;
    DIR *listing = opendir(folder);
    ck_assert_ptr_nonnull(listing);
    while (readdir(listing))
        n++;
    closedir(listing);
    return n;
}

static bool is_as_before(void *arg)
{
    (void)arg;
    return count_entries("/proc/self/fd") <= before.descriptors + KEPT_BY_GRPC &&
           count_entries("/proc/self/task") <= before.threads;
}

static bool are_leases_gone(void *arg)
{
    (void)arg;
    return etcdctl_count_leases() <= before.leases;
}

/* Shared with the processes of the cases: what the last of them has left the members in. */
static atomic_bool *is_paused;

static void resume_all(void)
{
    char command[32];
    if (!is_paused || !atomic_exchange(is_paused, false)) return;
    for (int i = 0; live_endpoint(i); i++) {
        snprintf(command, sizeof command, "resume %d", i + 1);
        live_cluster(command);
    }
}

void live_set_up(void)
{
    resume_all();
    before.leases = etcdctl_count_leases();
    before.descriptors = count_entries("/proc/self/fd");
    before.threads = count_entries("/proc/self/task");
}

void live_tear_down(void)
{
    etcdctl_use(NULL);
    ck_assert_msg(etcdctl_count(live_prefix()) == 0, "keys are left: %s",
                  etcdctl("get", "--prefix", live_prefix(), "--keys-only", NULL));
    /* A member that is not the leader may tell of a revocation a moment late. */
    ck_assert_msg(live_wait_until(are_leases_gone, NULL, 10000), "a lease is left");
    ck_assert_msg(live_wait_until(is_as_before, NULL, 10000),
                  "%zu descriptors, were %zu; %zu threads, were %zu", count_entries("/proc/self/fd"),
                  before.descriptors, count_entries("/proc/self/task"), before.threads);
}

Suite *live_suite(const char *name, TCase **cases, int limit_s)
{
    Suite *suite = suite_create(name);
    *cases = tcase_create(name);
    tcase_set_timeout(*cases, limit_s);
    tcase_add_checked_fixture(*cases, live_set_up, live_tear_down);
    suite_add_tcase(suite, *cases);
    return suite;
}

int live_run(Suite *suite)
{
    if (!getenv("ETCDLOCK_TEST_ENDPOINTS")) {
        fprintf(stderr, "ETCDLOCK_TEST_ENDPOINTS is not set: use scripts/run-tests.sh live\n");
        return 77;
    }
    is_paused = mmap(NULL, sizeof(*is_paused), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (is_paused == MAP_FAILED) abort();
    return runner_run(suite);
}

/* ---- names and the cluster
 * --------------------------------------------------------------------------------- */

const char *live_prefix(void)
{
    static char prefix[32];
    /* Not of a child: what it leaves is what the case leaves. */
    if (!prefix[0]) snprintf(prefix, sizeof prefix, "live-%d-", (int)getpid());
    return prefix;
}

const char *live_name(const char *part)
{
    static char names[NAMES_MAX][NAME_ROOM];
    static int n;
    size_t prefix_size = strlen(live_prefix());
    for (int i = 0; i < n; i++)
        if (strncmp(names[i], live_prefix(), prefix_size) == 0 && strcmp(names[i] + prefix_size, part) == 0)
            return names[i];
    ck_assert_int_lt(n, NAMES_MAX);
    snprintf(names[n], NAME_ROOM, "%s%s", live_prefix(), part);
    return names[n++];
}

/* What is usual, and more only where it would not do. */
static int64_t command_timeout_ms(void)
{
    int64_t scaled_ms = 1000 * (int64_t)live_slowness();
    return scaled_ms > 5000 ? scaled_ms : 5000;
}

etcdlock_client_options live_options(void)
{
    etcdlock_client_options options = ETCDLOCK_CLIENT_OPTIONS_INIT;
    options.endpoints = getenv("ETCDLOCK_TEST_ENDPOINTS");
    options.command_timeout_ms = command_timeout_ms();
    options.ca_file = getenv("ETCDLOCK_TEST_CA");
    options.cert_file = getenv("ETCDLOCK_TEST_CERT");
    options.key_file = getenv("ETCDLOCK_TEST_KEY");
    options.user = getenv("ETCDLOCK_TEST_USER");
    options.password = getenv("ETCDLOCK_TEST_PASSWORD");
    return options;
}

void live_set_environment(void)
{
    char timeout[32];
    snprintf(timeout, sizeof timeout, "%lldms", (long long)command_timeout_ms());
    setenv("ETCDCTL_ENDPOINTS", getenv("ETCDLOCK_TEST_ENDPOINTS"), 1);
    setenv("ETCDCTL_COMMAND_TIMEOUT", timeout, 1);
    setenv("ETCDLOCK_PREFIX", live_name(""), 1);
}

const char *live_endpoint(int i)
{
    static char endpoints[8][128];
    const char *rest = getenv("ETCDLOCK_TEST_ENDPOINTS");
    for (int n = 0; n < i && rest; n++) {
        rest = strchr(rest, ',');
        if (rest) rest++;
    }
    if (!rest) return NULL;
    snprintf(endpoints[i], sizeof endpoints[i], "%.*s", (int)strcspn(rest, ","), rest);
    return endpoints[i];
}

int live_cluster_number(const char *command)
{
    char line[512];
    char answer[64] = "";
    snprintf(line, sizeof line, "'%s' %s", getenv("ETCDLOCK_TEST_CLUSTER"), command);
    FILE *output = popen(line, "re");
    ck_assert_ptr_nonnull(output);
    if (!fgets(answer, sizeof answer, output)) answer[0] = '\0';
    ck_assert_msg(pclose(output) == 0, "%s failed", line);
    return atoi(answer);
}

void live_cluster(const char *command)
{
    if (is_paused && strncmp(command, "pause", strlen("pause")) == 0) atomic_store(is_paused, true);
    (void)live_cluster_number(command);
}

/* ---- time
 * -------------------------------------------------------------------------------------------------- */

int64_t live_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

int live_slowness(void)
{
    const char *slower = getenv("CK_TIMEOUT_MULTIPLIER");
    return slower && atoi(slower) > 0 ? atoi(slower) : 1;
}

void live_within(int64_t began_ms, int64_t limit_ms)
{
    int64_t slack_ms = 2500 * live_slowness(); /* virtual machines stand still for a second now and then */
    int64_t took_ms = live_now_ms() - began_ms;
    ck_assert_msg(took_ms <= limit_ms + slack_ms, "took %lld ms, allowed are %lld", (long long)took_ms,
                  (long long)limit_ms);
}

bool live_wait_until(bool (*condition)(void *arg), void *arg, int64_t ms)
{
    int64_t until_ms = live_now_ms() + ms;
    for (;;) {
        bool is_last = live_now_ms() >= until_ms; /* taken first: the look may take its time, too */
        if (condition(arg)) return true;
        if (is_last) return false;
        poll(NULL, 0, POLL_MS);
    }
}

void live_await_renewals(etcdlock_session *session, etcdlock_mutex *mutex, int n)
{
    int64_t last_ms = INT64_MAX;
    while (n > 0) {
        ck_assert_int_eq(etcdlock_mutex_ensure(mutex, 500), 0);
        int64_t remaining_ms = etcdlock_session_remaining_ms(session);
        if (remaining_ms > last_ms) n--;
        last_ms = remaining_ms;
        poll(NULL, 0, POLL_MS);
    }
}

static bool is_healthy(void *arg)
{
    (void)arg;
    return etcdctl_status("endpoint", "health", "--cluster", NULL) == 0;
}

void live_await_health(void)
{
    ck_assert(live_wait_until(is_healthy, NULL, 30000));
}

bool live_readable(int fd, int64_t ms)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    ck_assert_int_ge(fd, 0);
    return poll(&ready, 1, (int)ms) == 1 && (ready.revents & POLLIN);
}

/* ---- parties
 * ----------------------------------------------------------------------------------------------- */

etcdlock_session *party_session(const party *p, int64_t ttl_s)
{
    etcdlock_session_options options = ETCDLOCK_SESSION_OPTIONS_INIT;
    etcdlock_session *session;
    options.ttl_s = ttl_s;
    int error = etcdlock_session_open(&session, p->client, &options);
    ck_assert_msg(error == 0, "session_open: %d %s", error, etcdlock_error_message());
    return session;
}

etcdlock_mutex *party_mutex(const party *p, const char *name, unsigned flags)
{
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    etcdlock_mutex *mutex;
    options.flags = flags;
    int error = etcdlock_mutex_new(&mutex, p->session, name, &options);
    ck_assert_msg(error == 0, "mutex_new: %d %s", error, etcdlock_error_message());
    return mutex;
}

party party_open(const char *name, int64_t ttl_s)
{
    party p;
    etcdlock_client_options options = live_options();
    ck_assert_int_eq(etcdlock_client_open(&p.client, &options), 0);
    p.session = party_session(&p, ttl_s);
    p.mutex = party_mutex(&p, name, 0);
    return p;
}

void party_close(party *p)
{
    int error = etcdlock_mutex_destroy(p->mutex);
    ck_assert_msg(error == 0, "mutex_destroy: %d %s", error, etcdlock_error_message());
    error = etcdlock_session_close(p->session);
    ck_assert_msg(error == 0, "session_close: %d %s", error, etcdlock_error_message());
    error = etcdlock_client_close(p->client);
    ck_assert_msg(error == 0, "client_close: %d %s", error, etcdlock_error_message());
    memset(p, 0, sizeof *p);
}

typedef struct queue_wish {
    etcdlock_client *client;
    const char *name;
    size_t n;
    size_t seen;
} queue_wish;

static bool is_queue_so_long(void *arg)
{
    queue_wish *wish = arg;
    etcdlock_queue *queue;
    if (etcdlock_queue_get(&queue, wish->client, wish->name)) return false;
    wish->seen = etcdlock_queue_contenders(queue);
    etcdlock_queue_free(queue);
    return wish->seen == wish->n;
}

void party_await_queue(const party *p, const char *name, size_t n)
{
    queue_wish wish = {.client = p->client, .name = name, .n = n};
    ck_assert_msg(live_wait_until(is_queue_so_long, &wish, 10000), "%zu in the queue, not %zu", wish.seen, n);
}
