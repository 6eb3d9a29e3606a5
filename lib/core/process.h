/* Which process this is: a handle made before fork() does not belong to the child. */
#ifndef EL_PROCESS_H
#define EL_PROCESS_H

#include <pthread.h>
#include <stdint.h>

/* The generation of this process: raised in each forked child. The first call starts to watch for forks.
 * Does not block and takes no lock. */
unsigned el_process_generation(void);

/* This thread's number, as the kernel and `ps -L` show it. */
int64_t el_process_thread(void);

/* Starts a thread of the library's own: signals sent to the process are the program's affair, so it takes
 * none of them but those of its own faults. 0 or EAGAIN. */
int el_process_start_thread(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
