/* A TCP server that sends back what it gets, and ends a connection once its client has; and a plain client of
 * it. */
#ifndef TEST_ECHO_H
#define TEST_ECHO_H

#include <pthread.h>
#include <stddef.h>

typedef struct echo {
    pthread_t thread;
    int listener;
    char endpoint[32];
    _Atomic int received; /* bytes */
    _Atomic int ended;    /* connections, by FIN */
    _Atomic int reset;    /* connections, by RST */
} echo;

/* Up to 63 connections in all. */
void echo_start(echo *e);
void echo_stop(echo *e);

/* A connection to "host:port" of IPv4; -1 with errno if that fails, or with ETIMEDOUT after half a second. */
int echo_dial(const char *endpoint);
/* Fails the case unless all of it is taken. */
void echo_say(int fd, const char *text);
/* What comes, until there are so many bytes or nothing comes for the time; "|" stands for the other side's
 * end,
 * "!" for a reset. Lives until the next call. */
const char *echo_hear(int fd, size_t bytes, int ms);
/* Fails the case unless exactly this is heard. */
void echo_expect(int fd, const char *text);

#endif
