/* The list of resources in a fence file: reading it, and adding to it. All of it under the gate of the header
 * (offset 0), by one thread of the handle at a time. */
#ifndef EL_FENCE_CATALOGUE_H
#define EL_FENCE_CATALOGUE_H

#include <stddef.h>
#include <stdint.h>

#include "fence/file.h"

/* Called for each resource that was found. Not 0 ends the reading with that error. */
typedef int el_fence_found(const char *name, size_t size, uint64_t offset, void *arg);

/* Reads the header, and what was added since the last time. The first time it also learns how durable the
 * file is, and fails with EINVAL if that is not what was `wanted` (0: whatever it is). 0 or an error with its
 * message: EBADMSG, ENOTSUP, EINVAL, EIO, ... */
int el_fence_catalogue_read(el_fence_file *file, uint32_t wanted, el_fence_found *found, void *arg);

/* Adds a resource without a token; everything has been read before, and it is not there. It is found by the
 * next reading. Kept as the file's durability says. 0 or an error with its message. */
int el_fence_catalogue_add(const el_fence_file *file, const char *name, size_t size);

#endif
