/* Which process this is: a handle made before fork() does not belong to the child. */
#ifndef EL_PROCESS_H
#define EL_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* The generation of this process: raised in each forked child. The first call starts to watch for forks.
 * Does not block and takes no lock. */
unsigned el_process_generation(void);

/* This thread's number, as the kernel and `ps -L` show it. */
int64_t el_process_thread(void);

#endif
