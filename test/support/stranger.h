/* A TCP listener that is no etcd: it takes connections and says nothing, or answers as a web server. */
#ifndef TEST_STRANGER_H
#define TEST_STRANGER_H

#include <pthread.h>

typedef struct stranger {
    pthread_t thread;
    const char *answer; /* to whatever is sent; NULL: silence */
    int listener;
    char endpoint[32];
} stranger;

void stranger_start(stranger *s, const char *answer);
void stranger_end(stranger *s);

/* "127.0.0.1:PORT" where nobody listens at the moment. */
const char *stranger_nobody(void);

#endif
