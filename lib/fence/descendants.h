/* What a forked child does with the handles of its parent: it cannot use them, since both would pass each
 * other's gates, and it closes their descriptors, so that a gate opens when the parent dies. */
#ifndef EL_FENCE_DESCENDANTS_H
#define EL_FENCE_DESCENDANTS_H

#include "fence/file.h"

/* The generation of this process: raised in each forked child. 0: the system had no memory
 * for telling us of forks, so that no handle may be made. Does not block. */
unsigned el_fence_generation(void);

/* From now on a child closes the file's descriptors, those that it has and those that it gets. */
void el_fence_descendants_watch(el_fence_file *file);

/* Opens as openat does and puts the descriptor into *fd, which is one of a file that is watched. Forks wait
 * meanwhile, so that no child gets the descriptor without knowing of it. 0 or errno. */
int el_fence_descendants_open(int *fd, int folder, const char *name, int how);

/* Closes the file's descriptors, if this process has them, and forgets about it. */
void el_fence_descendants_forget(el_fence_file *file);

#endif
