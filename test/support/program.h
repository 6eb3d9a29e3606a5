/* A program of examples/ as a process of a test case: what it says, and its life as a frozen holder. */
#ifndef TEST_PROGRAM_H
#define TEST_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct program {
    pid_t pid;
    int output;
    char said[16384]; /* what has been read of its standard output */
    size_t size;
    size_t stop; /* where it stopped itself in that; 0 if it never did */
} program;

/* The endpoints of the programs that are started from now on; NULL: those of the test's cluster again. The
 * text is borrowed. */
void program_use(const char *endpoints);

/* Starts an example: n words, of which the first is its name; those that are NULL are left out. The prefix is
 * put before all its keys. What it writes to stderr goes to the test's. */
void program_start(program *p, const char *prefix, const char *const *words, size_t n);

/* Waits until it has stopped itself; fails the case if it ends instead. */
void program_await_stop(program *p);
/* Lets it go on after that. */
void program_continue(const program *p);

/* Waits until it has said this, after its stop if there was one; fails the case if it ends without, or after
 * 20 s. */
void program_await(program *p, const char *text);

/* Waits for its end; returns the status of waitpid. Nothing more can be done with it but to ask what it said.
 */
int program_status(program *p);
/* Waits for its end, and fails the case unless it ended with status 0. */
void program_end(program *p);

/* How often it has said this, as far as it was waited for: after its stop, if there was one, or in all. What
 * a slow machine does to it before, as long as it gets to its stop, is no matter of the case. */
size_t program_count(const program *p, const char *text);
size_t program_count_all(const program *p, const char *text);

#endif
