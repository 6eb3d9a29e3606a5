#include "support/stranger.h"

#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 512 };

static void serve(const stranger *s, int connection)
{
    char request[4096];
    if (!s->answer || read(connection, request, sizeof request) <= 0) return;
    if (write(connection, s->answer, strlen(s->answer)) < 0) perror("stranger");
}

static void *run(void *arg)
{
    const stranger *s = arg;
    int connections[CONNECTIONS_MAX];
    int n = 0;
    for (;;) {
        int connection = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0) break;
        serve(s, connection);
        if (s->answer || n == CONNECTIONS_MAX) {
            close(connection);
        } else {
            connections[n++] = connection;
        }
    }
    while (n > 0)
        close(connections[--n]);
    return NULL;
}

static int bind_any(struct sockaddr_in *address)
{
    socklen_t size = sizeof *address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_eq(bind(fd, (struct sockaddr *)address, size), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)address, &size), 0);
    return fd;
}

void stranger_start(stranger *s, const char *answer)
{
    struct sockaddr_in address;
    s->answer = answer;
    s->listener = bind_any(&address);
    ck_assert_int_eq(listen(s->listener, 64), 0);
    snprintf(s->endpoint, sizeof s->endpoint, "127.0.0.1:%u", ntohs(address.sin_port));
    ck_assert_int_eq(pthread_create(&s->thread, NULL, run, s), 0);
}

void stranger_end(stranger *s)
{
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->listener);
}

const char *stranger_nobody(void)
{
    static char endpoint[32];
    struct sockaddr_in address;
    close(bind_any(&address));
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%u", ntohs(address.sin_port));
    return endpoint;
}
