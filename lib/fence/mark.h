/* The highest token of one resource in a fence file. */
#ifndef EL_FENCE_MARK_H
#define EL_FENCE_MARK_H

#include <stdint.h>

#include "fence/file.h"
#include "fence/table.h"

/* Needs the gate of the resource, and its turn. Admits a token that is not lower than the highest, and keeps
 * it. 0; ESTALE, with the highest in *highest and no message; or an error with its message. */
int el_fence_mark_raise(const el_fence_file *file, el_fence_resource *resource, uint64_t token,
                        uint64_t *highest);

/* Needs the same. Makes the highest 0. 0 or an error with its message. */
int el_fence_mark_clear(const el_fence_file *file, el_fence_resource *resource);

/* Needs nothing. 0 or an error with its message. */
int el_fence_mark_look(const el_fence_file *file, const el_fence_resource *resource, uint64_t *highest);

#endif
