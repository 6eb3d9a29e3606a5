#include "support/program.h"

#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>

#include "support/live.h"

enum { WORDS_MAX = 24, PATIENCE_MS = 20000, PATH_ROOM = 4096 };

static const char *endpoints;

void program_use(const char *text)
{
    endpoints = text;
}

static void become(const char *prefix, char **words, int output)
{
    setenv("ETCDCTL_ENDPOINTS", endpoints ? endpoints : getenv("ETCDLOCK_TEST_ENDPOINTS"), 1);
    setenv("ETCDLOCK_PREFIX", prefix, 1);
    unsetenv("ETCDLOCK_TTL");
    dup2(output, STDOUT_FILENO);
    execv(words[0], words);
    perror(words[0]);
    _exit(127);
}

void program_start(program *p, const char *prefix, const char *const *words, size_t n)
{
    char path[PATH_ROOM];
    char *said[WORDS_MAX + 1] = {path};
    size_t n_said = 1;
    int pipe_ends[2];
    ck_assert_uint_le(n, WORDS_MAX);
    snprintf(path, sizeof path, "%s/examples/%s", getenv("OUT"), words[0]);
    for (size_t i = 1; i < n; i++) {
        if (words[i]) said[n_said++] = (char *)(uintptr_t)words[i];
    }
    ck_assert_int_eq(pipe2(pipe_ends, O_CLOEXEC), 0);
    *p = (program){.output = pipe_ends[0], .pid = fork()};
    ck_assert_int_ge(p->pid, 0);
    if (p->pid == 0) become(prefix, said, pipe_ends[1]);
    close(pipe_ends[1]);
}

/* Reads what has come within so long; false if there will be nothing more, or was nothing. */
static bool hear(program *p, int64_t ms)
{
    struct pollfd ready = {.fd = p->output, .events = POLLIN};
    if (poll(&ready, 1, (int)ms) != 1) return false;
    ck_assert_uint_lt(p->size, sizeof p->said - 1);
    ssize_t size = read(p->output, p->said + p->size, sizeof p->said - 1 - p->size);
    if (size > 0) p->size += (size_t)size;
    return size > 0;
}

void program_await(program *p, const char *text)
{
    int64_t until_ms = live_now_ms() + PATIENCE_MS;
    while (!strstr(p->said + p->stop, text)) {
        int64_t left_ms = until_ms - live_now_ms();
        ck_assert_msg(left_ms > 0 && hear(p, left_ms), "\"%s\" was not said, but: %s", text, p->said);
    }
}

void program_await_stop(program *p)
{
    int status;
    ck_assert_int_eq(waitpid(p->pid, &status, WUNTRACED), p->pid);
    ck_assert_msg(WIFSTOPPED(status), "it did not stop itself but ended with status 0x%x", (unsigned)status);
    while (hear(p, 0))
        continue;
    p->stop = p->size;
}

void program_continue(const program *p)
{
    ck_assert_int_eq(kill(p->pid, SIGCONT), 0);
}

int program_status(program *p)
{
    int status;
    while (hear(p, PATIENCE_MS))
        continue;
    close(p->output);
    ck_assert_int_eq(waitpid(p->pid, &status, 0), p->pid);
    return status;
}

void program_end(program *p)
{
    int status = program_status(p);
    ck_assert_msg(status == 0, "it ended with status 0x%x, after saying: %s", (unsigned)status, p->said);
}

static size_t count(const char *said, const char *text)
{
    size_t n = 0;
    for (const char *at = strstr(said, text); at; at = strstr(at + 1, text))
        n++;
    return n;
}

size_t program_count(const program *p, const char *text)
{
    return count(p->said + p->stop, text);
}

size_t program_count_all(const program *p, const char *text)
{
    return count(p->said, text);
}
