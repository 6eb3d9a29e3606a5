/* A TCP server that sends back what it gets, and ends a connection once its client has. */
#ifndef TEST_ECHO_H
#define TEST_ECHO_H

#include <pthread.h>

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

#endif
