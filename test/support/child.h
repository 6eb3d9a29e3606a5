/* A forked child of a test case; the two exchange numbers over pipes, so that they go on step by step. */
#ifndef TEST_CHILD_H
#define TEST_CHILD_H

#include <stdint.h>
#include <sys/types.h>

/* One end of the pair; both sides use the same calls. */
typedef struct child {
    pid_t pid; /* of the child; 0 in the child itself */
    int from;
    int to;
} child;

typedef void child_function(child *parent, void *arg);

/* Forks. The child runs the function and exits as a program does whose main returns 0; where a check of
 * Check's fails in it, with another status. */
void child_start(child *c, child_function *run, void *arg);

/* Said by a forked child of a process that had threads: when it exits, no leaks are looked for. What only the
 * stacks of those threads pointed to, gRPC's above all, would count as leaked. */
void child_without_threads(void);

void child_send(child *c, int64_t number);
/* Fails the case if nothing comes within 30 s. */
int64_t child_receive(child *c);

/* Waits for its end; returns the status of waitpid. */
int child_status(child *c);
/* Waits for its end, and fails the case unless it ended well. */
void child_end(child *c);

#endif
