/* The one message about a failure, told to the thread whose call failed. */
#ifndef EL_FENCE_MESSAGE_H
#define EL_FENCE_MESSAGE_H

/* Sets the calling thread's message, cut to fit and made one line, and returns error. */
int el_fence_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For a system call that failed on a file: "fence file PATH: cannot DO: the system's words; ADVICE". The
 * advice is chosen by the error. */
int el_fence_fail_file(int error, const char *path, const char *what);

#endif
