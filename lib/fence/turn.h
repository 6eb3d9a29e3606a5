/* Whose turn it is among the threads that share a handle: one at a time, first come first served, with a
 * limit. */
#ifndef EL_FENCE_TURN_H
#define EL_FENCE_TURN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct el_fence_waiter el_fence_waiter;

/* All zero: nobody's turn. */
typedef struct el_fence_turn {
    const void *owner; /* the thread whose turn it is, as el_fence_self names it; NULL: nobody's */
    el_fence_waiter *first;
    el_fence_waiter *last;
} el_fence_turn;

/* Points in time are nanoseconds of CLOCK_MONOTONIC; NEVER has no end. */
#define EL_FENCE_NEVER INT64_MAX

int64_t el_fence_now(void);
/* The point `ms` from now; negative: NEVER. */
int64_t el_fence_deadline(int64_t ms);

/* Different for each living thread, never NULL. */
const void *el_fence_self(void);

/* Waits for the turn, with `mutex` locked at the call and the return, let go while waiting. The turn is
 * handed to the longest waiter, so that a thread which comes back at once cannot starve the others. 0;
 * ETIMEDOUT; EDEADLK: it is this thread's turn already. Writes no message. */
int el_fence_turn_take(el_fence_turn *turn, pthread_mutex_t *mutex, int64_t deadline);

/* Ends this thread's turn. The mutex must be locked. */
void el_fence_turn_pass(el_fence_turn *turn);

#endif
