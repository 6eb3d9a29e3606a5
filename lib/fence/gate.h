/* The gate of a cell: one handle at a time, among all handles of all processes that have the file open.
 *
 * It is a lock of the open file description (F_OFD_SETLK) on the first byte of the cell's place: unlike the
 * older locks of a process it keeps out other handles of the same process, and is not dropped when the
 * process closes some other descriptor of the file; unlike flock there is one for each cell. The kernel
 * opens it when the process dies. It does not keep out the threads that share the handle: they take turns. */
#ifndef EL_FENCE_GATE_H
#define EL_FENCE_GATE_H

#include <stdbool.h>
#include <stdint.h>

/* How a handle has used a gate so far; all zero: not at all. */
typedef struct el_fence_gate {
    int64_t entered; /* when it last got in, */
    int64_t left;    /* and when it last let go: in between it kept the gate */
} el_fence_gate;

/* Asked now and then while a call waits: true if waiting is of no use any more. */
typedef bool el_fence_hopeless(void *arg);

/* Waits for the gate of the cell at `offset`. gate and hopeless may be NULL.
 * 0; ETIMEDOUT; ESTALE: hopeless; or errno: ENOLCK, EINVAL (no such locks), ... Writes no message. */
int el_fence_gate_enter(el_fence_gate *gate, int fd, uint64_t offset, int64_t deadline,
                        el_fence_hopeless *hopeless, void *arg);

/* Opens it again. */
void el_fence_gate_leave(el_fence_gate *gate, int fd, uint64_t offset);

#endif
