/* A failure on its way to the caller: the error number and the one message about it, written by the layer
 * that failed. */
#ifndef EL_ERROR_H
#define EL_ERROR_H

#include "etcdlock/error.h"

typedef struct el_failure {
    int error; /* 0: none */
    char text[360];
} el_failure;

/* Fills the failure and returns error. NULL for failure: only returns. The text is cut to fit, and one line.
 */
int el_fail(el_failure *failure, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Makes the failure what etcdlock_error_message() tells the calling thread; returns its error number. Error 0
 * leaves the thread's message alone. */
int el_publish(const el_failure *failure);

/* The two in one step, for the outermost functions. */
int el_publish_new(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes control characters '?': names, files and etcd's own words must not break a message's line or move a
 * terminal's cursor. */
void el_one_line(char *text);

#endif
