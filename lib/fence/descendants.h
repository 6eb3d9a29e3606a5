/* What a forked child does with the handles of its parent: it cannot use them, since both would pass each
 * other's gates, and it closes their descriptors, so that a gate opens when the parent dies. */
#ifndef EL_FENCE_DESCENDANTS_H
#define EL_FENCE_DESCENDANTS_H

#include "fence/file.h"

/* The generation of this process: raised in each forked child. Does not block. */
unsigned el_fence_generation(void);

/* From now on a child closes the file's descriptors. */
void el_fence_descendants_watch(el_fence_file *file);

/* Closes the file's descriptors, if this process has them, and forgets about it. */
void el_fence_descendants_forget(el_fence_file *file);

#endif
