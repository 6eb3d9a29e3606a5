/* Runs the commands by which the nemesis acts on the cluster. */
#ifndef TORTURE_SHELL_H
#define TORTURE_SHELL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Runs a line of sh, its text made as by printf, and copies what it prints; false if it ends with another
 * status than 0. */
bool shell_read(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The number that it prints; -1 if it fails. */
long long shell_number(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Begins it and returns its pid. */
pid_t shell_start(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* True if that one has ended, and how. */
bool shell_ended(pid_t pid, int *status);

#endif
