#include "support/child.h"

#include <check.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>

enum { PATIENCE_MS = 30000 };

void child_start(child *c, child_function *run, void *arg)
{
    int down[2], up[2];
    ck_assert_int_eq(pipe2(down, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(up, O_CLOEXEC), 0);
    c->pid = fork();
    ck_assert_int_ge(c->pid, 0);
    if (c->pid == 0) {
        close(down[1]);
        close(up[0]);
        c->from = down[0];
        c->to = up[1];
        run(c, arg);
        exit(EXIT_SUCCESS);
    }
    close(down[0]);
    close(up[1]);
    c->from = up[0];
    c->to = down[1];
}

static atomic_bool hides_leaks;

/* Asked by AddressSanitizer before it looks; it must find it beside its own. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return hides_leaks;
}

void child_without_threads(void)
{
    hides_leaks = true;
}

void child_send(child *c, int64_t number)
{
    ck_assert_int_eq(write(c->to, &number, sizeof number), sizeof number);
}

int64_t child_receive(child *c)
{
    struct pollfd ready = {.fd = c->from, .events = POLLIN};
    int64_t number;
    ck_assert_msg(poll(&ready, 1, PATIENCE_MS) == 1, "the other process says nothing");
    ck_assert_msg(read(c->from, &number, sizeof number) == sizeof number, "the other process has ended");
    return number;
}

int child_status(child *c)
{
    int status = -1;
    pid_t ended;
    do
        ended = waitpid(c->pid, &status, 0);
    while (ended < 0);
    close(c->from);
    close(c->to);
    return status;
}

void child_end(child *c)
{
    int status = child_status(c);
    ck_assert_msg(status == 0, "the child ended with status 0x%x", (unsigned)status);
}
