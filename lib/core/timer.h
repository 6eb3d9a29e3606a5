/* Timers: what has to happen when the clock has come so far, with no allocation per timer. */
#ifndef EL_TIMER_H
#define EL_TIMER_H

#include <stdbool.h>
#include <stdint.h>

/* Lives inside the struct that it belongs to; all zero is a timer that is not set. */
typedef struct el_timer {
    void (*fire)(struct el_timer *timer); /* it is no longer set when this is called */
    int64_t due_ns;
    /* Timers due at the same time fire in the order in which they were set; 0: it is not set. */
    uint64_t order;
    struct el_timer *child;    /* first child in the heap */
    struct el_timer *sibling;  /* next child of the same parent */
    struct el_timer *previous; /* previous sibling, or the parent of a first child */
} el_timer;

static inline bool el_timer_is_set(const el_timer *timer)
{
    return timer->order != 0;
}

/* A pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986). All zero is an empty one. */
typedef struct el_timers {
    el_timer *root;
    uint64_t last_order;
} el_timers;

/* Sets the timer, also one that is set already, to another time. */
void el_timers_set(el_timers *timers, el_timer *timer, int64_t due_ns);
void el_timers_clear(el_timers *timers, el_timer *timer);

/* When the next one is due; INT64_MAX if none is set. */
int64_t el_timers_next_ns(const el_timers *timers);

/* Takes out the first timer that is due; NULL if there is none. The caller calls its fire. */
el_timer *el_timers_take_due(el_timers *timers, int64_t now_ns);

#endif
