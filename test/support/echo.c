#include "support/echo.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 64, DIAL_MS = 500, HEAR_MS = 2000 };

static void answer(echo *e, struct pollfd *from)
{
    char bytes[4096];
    ssize_t n = recv(from->fd, bytes, sizeof bytes, 0);
    if (n > 0) {
        e->received += (int)n;
        n = send(from->fd, bytes, (size_t)n, MSG_NOSIGNAL);
    }
    if (n > 0) return;
    if (n == 0) e->ended++;
    if (n < 0) e->reset++;
    close(from->fd);
    from->fd = -1;
}

static void *run(void *arg)
{
    echo *e = arg;
    struct pollfd fds[CONNECTIONS_MAX] = {{.fd = e->listener, .events = POLLIN}};
    nfds_t n = 1;
    for (;;) {
        poll(fds, n, -1);
        if (fds[0].revents & POLLHUP) break;
        for (nfds_t i = 1; i < n; i++) {
            if (fds[i].fd >= 0 && fds[i].revents) answer(e, &fds[i]);
        }
        if (!fds[0].revents) continue;
        ck_assert(n < CONNECTIONS_MAX);
        fds[n++] = (struct pollfd){.fd = accept4(e->listener, NULL, NULL, SOCK_CLOEXEC), .events = POLLIN};
    }
    while (--n > 0)
        if (fds[n].fd >= 0) close(fds[n].fd);
    return NULL;
}

void echo_start(echo *e)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    memset(e, 0, sizeof *e);
    e->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(e->listener, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(e->listener, 64), 0);
    ck_assert_int_eq(getsockname(e->listener, (struct sockaddr *)&address, &size), 0);
    snprintf(e->endpoint, sizeof e->endpoint, "127.0.0.1:%u", ntohs(address.sin_port));
    ck_assert_int_eq(pthread_create(&e->thread, NULL, run, e), 0);
}

void echo_stop(echo *e)
{
    shutdown(e->listener, SHUT_RDWR);
    pthread_join(e->thread, NULL);
    close(e->listener);
}

int echo_dial(const char *endpoint)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    const char *colon = strrchr(endpoint, ':');
    int error = 0;
    socklen_t size = sizeof error;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)atoi(colon + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(fd, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    error = errno;
    if (error == EINPROGRESS) {
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        if (poll(&ready, 1, DIAL_MS) == 1) {
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
        } else {
            error = ETIMEDOUT;
        }
    }
    if (error == 0) return fd;
    close(fd);
    errno = error;
    return -1;
}

void echo_say(int fd, const char *text)
{
    ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

const char *echo_hear(int fd, size_t wanted, int ms)
{
    static char text[128];
    size_t n = 0;
    while (n < wanted) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, ms) != 1) break;
        ssize_t got = recv(fd, text + n, wanted - n, 0);
        if (got <= 0) {
            text[n++] = got == 0 ? '|' : '!';
            break;
        }
        n += (size_t)got;
    }
    text[n] = '\0';
    return text;
}

void echo_expect(int fd, const char *text)
{
    ck_assert_str_eq(echo_hear(fd, strlen(text), HEAR_MS), text);
}
