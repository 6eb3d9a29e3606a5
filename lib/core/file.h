/* The contents of a file, whole. */
#ifndef EL_FILE_H
#define EL_FILE_H

#include <stddef.h>

/* Reads to the end, so that pipes (`<(command)`) work as well. *contents is el_alloc'ed and NUL-terminated,
 * *size does not count that NUL. 0; EFBIG: over 1 MiB; its errno; ENOMEM; *contents is then NULL. Changes
 * errno. */
int el_file_read(const char *path, char **contents, size_t *size);

#endif
