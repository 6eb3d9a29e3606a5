/* What a call leaves as it found it: the calling thread's errno, and whether the thread can be cancelled. */
#ifndef EL_FENCE_CALLER_H
#define EL_FENCE_CALLER_H

typedef struct el_fence_caller {
    int error; /* its errno */
    int cancel_state;
} el_fence_caller;

/* From here on the thread cannot be cancelled: it would take a turn or a descriptor with it. */
void el_fence_caller_hold(el_fence_caller *caller);

void el_fence_caller_release(const el_fence_caller *caller);

#endif
