#include "support/etcdctl.h"

#include <check.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>

enum { WORDS_MAX = 24, OUTPUT_SIZE = 128 * 1024 };

static const char *endpoints;
static const char *user;

void etcdctl_use(const char *text)
{
    endpoints = text;
}

void etcdctl_use_user(const char *text)
{
    user = text;
}

enum { VARIABLES = 8, VARIABLE_ROOM = 1024 };

/* The list of "NAME=value", which ends with NULL. */
typedef struct surroundings {
    char text[VARIABLES][VARIABLE_ROOM];
    char *list[VARIABLES + 1];
    int n;
} surroundings;

static void add(surroundings *s, const char *name, const char *value)
{
    if (!value) return;
    ck_assert_int_lt(s->n, VARIABLES);
    snprintf(s->text[s->n], VARIABLE_ROOM, "%s=%s", name, value);
    s->list[s->n] = s->text[s->n];
    s->n++;
}

/* Where the cluster has users, etcdctl is root. */
static const char *who(void)
{
    if (user) return user;
    return getenv("ETCDLOCK_TEST_USER") ? "root:rootpw" : NULL;
}

/* Variables of the case itself, such as ETCDCTL_USER, must not reach it. What it says of errors goes to the
 * file `complaints`, or with the rest of its output: -1. */
static pid_t start(char **words, int *output, int complaints)
{
    surroundings with = {.n = 0};
    posix_spawn_file_actions_t actions;
    int ends[2];
    pid_t pid;
    add(&with, "PATH", getenv("PATH"));
    add(&with, "ETCDCTL_ENDPOINTS", endpoints ? endpoints : getenv("ETCDLOCK_TEST_ENDPOINTS"));
    add(&with, "ETCDCTL_CACERT", getenv("ETCDLOCK_TEST_CA"));
    add(&with, "ETCDCTL_CERT", getenv("ETCDLOCK_TEST_CERT"));
    add(&with, "ETCDCTL_KEY", getenv("ETCDLOCK_TEST_KEY"));
    add(&with, "ETCDCTL_USER", who());
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, complaints >= 0 ? complaints : ends[1], 2);
    ck_assert_int_eq(posix_spawnp(&pid, "etcdctl", &actions, NULL, words, with.list), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    *output = ends[0];
    return pid;
}

static int finish(pid_t pid)
{
    int status;
    pid_t ended;
    do
        ended = waitpid(pid, &status, 0);
    while (ended < 0);
    return status;
}

static int run(char **words, const char **output)
{
    static _Thread_local char text[OUTPUT_SIZE];
    size_t size = 0;
    int from, complaints = memfd_create("etcdctl", MFD_CLOEXEC);
    ck_assert_int_ge(complaints, 0);
    pid_t pid = start(words, &from, complaints);
    for (;;) {
        ssize_t n = read(from, text + size, sizeof text - 1 - size);
        if (n <= 0) break;
        size += (size_t)n;
    }
    close(from);
    int status = finish(pid);
    /* Where all went well these are warnings, of a request that was sent twice, say. */
    ssize_t n = status ? pread(complaints, text + size, sizeof text - 1 - size, 0) : 0;
    if (n > 0) size += (size_t)n;
    text[size] = '\0';
    close(complaints);
    *output = text;
    return status;
}

/* Of the arguments from `word` to the NULL. */
static void gather(char **words, const char *word, va_list rest)
{
    static char name[] = "etcdctl";
    int n = 0;
    words[n++] = name;
    for (const char *next = word; next; next = va_arg(rest, const char *)) {
        ck_assert_int_lt(n, WORDS_MAX - 1);
        words[n++] = (char *)(uintptr_t)next;
    }
    words[n] = NULL;
}

const char *etcdctl(const char *word, ...)
{
    char *words[WORDS_MAX];
    const char *output;
    va_list rest;
    va_start(rest, word);
    gather(words, word, rest);
    va_end(rest);
    int status = run(words, &output);
    ck_assert_msg(status == 0, "etcdctl %s: status 0x%x: %s", word, (unsigned)status, output);
    return output;
}

int etcdctl_status(const char *word, ...)
{
    char *words[WORDS_MAX];
    const char *output;
    va_list rest;
    va_start(rest, word);
    gather(words, word, rest);
    va_end(rest);
    return run(words, &output);
}

static int64_t number_after(const char *text, const char *name)
{
    const char *found = strstr(text, name);
    ck_assert_msg(found != NULL, "no %s in %s", name, text);
    return strtoll(found + strlen(name), NULL, 10);
}

int64_t etcdctl_revision(void)
{
    return number_after(etcdctl("get", "no such key", "-w", "fields", NULL), "\"Revision\" : ");
}

size_t etcdctl_count(const char *prefix)
{
    const char *output = etcdctl("get", "--prefix", prefix, "--keys-only", "-w", "fields", NULL);
    return (size_t)number_after(output, "\"Count\" : ");
}

/* Copies what stands between the quotes after the name. */
static void copy_quoted(char *to, size_t room, const char *text, const char *name)
{
    const char *found = strstr(text, name);
    ck_assert_ptr_nonnull(found);
    const char *from = found + strlen(name);
    const char *end = strchr(from, '\n');
    ck_assert_ptr_nonnull(end);
    snprintf(to, room, "%.*s", (int)(end - 1 - from), from);
}

size_t etcdctl_keys(const char *prefix, etcdctl_key *keys, size_t room)
{
    size_t n = 0;
    const char *text =
        etcdctl("get", "--prefix", prefix, "--sort-by=CREATE", "--order=ASCEND", "-w", "fields", NULL);
    for (text = strstr(text, "\"Key\" : \""); text; text = strstr(text + 1, "\n\"Key\" : \"")) {
        ck_assert_uint_lt(n, room);
        copy_quoted(keys[n].key, sizeof keys[n].key, text, "\"Key\" : \"");
        copy_quoted(keys[n].value, sizeof keys[n].value, text, "\"Value\" : \"");
        keys[n].create_revision = number_after(text, "\"CreateRevision\" : ");
        keys[n].mod_revision = number_after(text, "\"ModRevision\" : ");
        keys[n].lease = number_after(text, "\"Lease\" : ");
        n++;
    }
    return n;
}

bool etcdctl_revoke(int64_t lease)
{
    static char command[] = "etcdctl", object[] = "lease", verb[] = "revoke";
    char id[20];
    char *words[] = {command, object, verb, id, NULL};
    const char *output;
    snprintf(id, sizeof id, "%" PRIx64, (uint64_t)lease);
    return run(words, &output) == 0;
}

bool etcdctl_has_lease(int64_t lease)
{
    char id[24];
    snprintf(id, sizeof id, "\n%016" PRIx64 "\n", (uint64_t)lease);
    return strstr(etcdctl("lease", "list", NULL), id) != NULL;
}

size_t etcdctl_count_leases(void)
{
    return (size_t)number_after(etcdctl("lease", "list", NULL), "found ");
}

int64_t etcdctl_grant(int ttl_s)
{
    char ttl[16];
    snprintf(ttl, sizeof ttl, "%d", ttl_s);
    const char *output = etcdctl("lease", "grant", ttl, NULL);
    ck_assert_int_eq(strncmp(output, "lease ", 6), 0);
    return (int64_t)strtoull(output + 6, NULL, 16);
}

/* ---- a process that holds --------------------------------------------------------------------------------
 */

void etcdctl_lock(etcdctl_holder *holder, const char *name)
{
    static char command[] = "etcdctl", verb[] = "lock", ttl[] = "--ttl=60";
    char *words[] = {command, verb, ttl, (char *)(uintptr_t)name, NULL};
    memset(holder, 0, sizeof *holder);
    holder->pid = start(words, &holder->output, -1);
}

bool etcdctl_holds(etcdctl_holder *holder, int64_t ms)
{
    struct pollfd ready = {.fd = holder->output, .events = POLLIN};
    size_t size = 0;
    while (!strchr(holder->key, '\n')) {
        if (poll(&ready, 1, (int)ms) <= 0) return false;
        ssize_t n = read(holder->output, holder->key + size, sizeof holder->key - 1 - size);
        ck_assert_msg(n > 0, "etcdctl lock has ended: %s", holder->key);
        size += (size_t)n;
    }
    *strchr(holder->key, '\n') = '\0';
    return true;
}

void etcdctl_unlock(etcdctl_holder *holder)
{
    ck_assert_int_eq(kill(holder->pid, SIGINT), 0);
    ck_assert_int_eq(finish(holder->pid), 0);
    close(holder->output);
    /* It leaves its lease to expire. */
    const char *entry = strrchr(holder->key, '/');
    if (entry) etcdctl_revoke((int64_t)strtoull(entry + 1, NULL, 16));
}
