#include "support/echo.h"

#include <arpa/inet.h>
#include <check.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 64 };

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
