/* One process holds N locks through one session and waits for the same N through another of the same client,
 * without blocking; then lets go of all. Tells what the waiters cost and how long they took.
 *
 *     waiters_ours waiters ENDPOINTS NAME N
 */
#include <dirent.h>
#include <malloc.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/counted.h"
#include "bench/direct.h"
#include "bench/samples.h"
#include "etcdlock.h"
#include "etcdlock/async.h"

enum { NAME_ROOM = 128, TTL_S = 60, SLICE_MS = 100, MOST_FDS = 1024 };

static etcdlock_client *client;
static int granted;

static _Noreturn void give_up(const char *what, const char *why)
{
    fprintf(stderr, "waiters_ours: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static void must(const char *what, int error)
{
    if (error) give_up(what, etcdlock_error_message());
}

static void on_done(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    (void)mutex, (void)token, (void)arg;
    if (error) give_up("callback", etcdlock_strerror(error));
    granted++;
}

static void serve_until(int n)
{
    struct pollfd ready = {.fd = etcdlock_client_fd(client), .events = POLLIN};
    while (granted < n)
        if (poll(&ready, 1, SLICE_MS) > 0) must("dispatch", etcdlock_client_dispatch(client));
}

static etcdlock_mutex **make_locks(etcdlock_session *session, const char *name, int n)
{
    etcdlock_mutex_options options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    etcdlock_mutex **locks = malloc((size_t)n * sizeof(etcdlock_mutex *));
    options.flags = ETCDLOCK_HANDLE_OWNED;
    if (!locks) give_up("memory", "is short");
    for (int i = 0; i < n; i++) {
        char one[NAME_ROOM];
        snprintf(one, sizeof one, "%s-%d", name, i);
        must(one, etcdlock_mutex_new(&locks[i], session, one, &options));
    }
    return locks;
}

/* ---- how many have entered ---------------------------------------------------------------------------- */

static int ask_counter, hear_counter;

static void count_for(const char *endpoints, const char *name, int requests, int answers)
{
    char request;
    el_transport *etcd = direct_open(endpoints);
    while (read(requests, &request, 1) == 1) {
        int64_t n = direct_count(etcd, name);
        if (write(answers, &n, sizeof n) != (ssize_t)sizeof n) break;
    }
    direct_close(etcd);
}

/* A process of its own, so that its questions do not count as ours. Before the first use of gRPC. */
static void counter_start(const char *endpoints, const char *name)
{
    int requests[2], answers[2];
    if (pipe(requests) || pipe(answers)) give_up("pipe", "none to be had");
    pid_t pid = fork();
    if (pid < 0) give_up("fork", "no process to be had");
    if (pid == 0) {
        close(requests[1]);
        count_for(endpoints, name, requests[0], answers[1]);
        _exit(EXIT_SUCCESS);
    }
    close(requests[0]);
    close(answers[1]);
    ask_counter = requests[1];
    hear_counter = answers[0];
}

static void counter_await(int64_t n)
{
    int64_t now = 0;
    while (now < n)
        if (write(ask_counter, "", 1) != 1 || read(hear_counter, &now, sizeof now) != (ssize_t)sizeof now)
            give_up("counter", "has ended");
}

/* ---- what the process has ---------------------------------------------------------------------------- */

static void read_line(const char *path, char *line, int room)
{
    FILE *in = fopen(path, "r");
    if (!in || !fgets(line, room, in)) give_up(path, "cannot be read");
    fclose(in);
}

static int count_files(const char *folder)
{
    int n = -2; /* "." and ".." */
    DIR *open_folder = opendir(folder);
    if (!open_folder) give_up(folder, "cannot be read");
    while (readdir(open_folder))
        n++;
    closedir(open_folder);
    return n;
}

static bool is_ours(unsigned long long inode)
{
    char path[64], target[64], wanted[64];
    int size = snprintf(wanted, sizeof wanted, "socket:[%llu]", inode);
    for (int fd = 0; fd < MOST_FDS; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target) == size && memcmp(target, wanted, (size_t)size) == 0)
            return true;
    }
    return false;
}

/* gRPC gives its threads names; ours are called as the program is. */
static int count_own_threads(void)
{
    char own[32] = "", name[32], path[300];
    int n = 0;
    const struct dirent *task;
    DIR *folder = opendir("/proc/self/task");
    read_line("/proc/self/comm", own, sizeof own);
    while (folder && (task = readdir(folder))) {
        if (task->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        read_line(path, name, sizeof name);
        n += strcmp(name, own) == 0;
    }
    if (!folder) give_up("/proc/self/task", "cannot be read");
    closedir(folder);
    return n;
}

/* Those of this process that are established and whose other end is at this port. */
static int count_connections_in(const char *table_path, unsigned port)
{
    enum { ESTABLISHED = 1 };
    char line[512];
    int n = 0;
    FILE *table = fopen(table_path, "r");
    if (!table) return 0; /* a kernel without IPv6 */
    while (fgets(line, sizeof line, table)) {
        unsigned remote, state;
        unsigned long long inode;
        if (sscanf(line, "%*d: %*[0-9A-F]:%*x %*[0-9A-F]:%x %x %*s %*s %*s %*d %*d %llu", &remote, &state,
                   &inode) == 3)
            n += remote == port && state == ESTABLISHED && is_ours(inode);
    }
    fclose(table);
    return n;
}

static int count_connections(const char *endpoints)
{
    const char *colon = strrchr(endpoints, ':');
    unsigned port = (unsigned)strtoul(colon + 1, NULL, 10);
    return count_connections_in("/proc/self/net/tcp", port) +
           count_connections_in("/proc/self/net/tcp6", port);
}

static int64_t heap_bytes(void)
{
    struct mallinfo2 heap = mallinfo2();
    return (int64_t)(heap.uordblks + heap.hblkhd);
}

/* ---- the run ------------------------------------------------------------------------------------------ */

static void run(const char *endpoints, const char *name, int n)
{
    etcdlock_session *holder, *waiter;
    etcdlock_session_options options = ETCDLOCK_SESSION_OPTIONS_INIT;
    options.ttl_s = TTL_S;
    must("session", etcdlock_session_open(&holder, client, &options));
    must("session", etcdlock_session_open(&waiter, client, &options));
    etcdlock_mutex **held = make_locks(holder, name, n);
    for (int i = 0; i < n; i++)
        must("lock_async", etcdlock_mutex_lock_async(held[i], on_done, NULL));
    serve_until(n);

    int64_t counted_before = counted_bytes(), heap_before = heap_bytes(), began_us = clock_us();
    etcdlock_mutex **waited = make_locks(waiter, name, n);
    for (int i = 0; i < n; i++)
        must("lock_async", etcdlock_mutex_lock_async(waited[i], on_done, NULL));
    counter_await(2 * n);
    double enter_s = (double)(clock_us() - began_us) / 1e6;
    int64_t bytes = counted_bytes() - counted_before, heap = heap_bytes() - heap_before;
    /* Without the folder that is being read, and the counter's two. */
    int threads = count_files("/proc/self/task"), descriptors = count_files("/proc/self/fd") - 3;
    int connections = count_connections(endpoints);

    began_us = clock_us();
    for (int i = 0; i < n; i++)
        must("unlock_async", etcdlock_mutex_unlock_async(held[i], NULL, NULL));
    serve_until(2 * n);
    double serve_s = (double)(clock_us() - began_us) / 1e6;
    printf("{\"bytes_each\":%.0f,\"heap_each\":%.0f,\"threads\":%d,\"all_threads\":%d,\"connections\":%d,"
           "\"descriptors\":%d,"
           "\"enter_s\":%.3f,\"serve_s\":%.3f}\n",
           (double)bytes / n, (double)heap / n, count_own_threads(), threads, connections, descriptors,
           enter_s, serve_s);
    must("session", etcdlock_session_close(holder));
    must("session", etcdlock_session_close(waiter));
    for (int i = 0; i < n; i++) {
        (void)etcdlock_mutex_destroy(held[i]);
        (void)etcdlock_mutex_destroy(waited[i]);
    }
    free(held);
    free(waited);
}

int main(int argc, char **argv)
{
    etcdlock_client_options options = ETCDLOCK_CLIENT_OPTIONS_INIT;
    if (argc != 5 || atoi(argv[4]) < 1) give_up("arguments", "this program is started by bench");
    options.endpoints = argv[2];
    counter_start(argv[2], argv[3]);
    must("client", etcdlock_client_open(&client, &options));
    if (etcdlock_client_fd(client) < 0) give_up("descriptor", etcdlock_error_message());
    run(argv[2], argv[3], atoi(argv[4]));
    must("client", etcdlock_client_close(client));
    return EXIT_SUCCESS;
}
