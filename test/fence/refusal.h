/* Calls of the system that are refused to libetcdlock-fence, in the programs that are linked with the
 * wrappers of refusal.c (see the Makefile). */
#ifndef TEST_FENCE_REFUSAL_H
#define TEST_FENCE_REFUSAL_H

typedef struct refusals {
    long allocations; /* so many succeed yet, the next one fails, then all succeed; negative: all succeed */
    long alive;       /* allocated and not freed */
    int no_replace;   /* the error of renameat2; 0: it works; so below */
    int no_links;     /* of linkat */
    int no_forks;     /* of pthread_atfork */
    void (*before_rename)(void);
    void (*after_open)(void); /* of a file named "fence" */
} refusals;

extern refusals refusal;

/* Nothing is refused any more. */
void refusal_none(void);

#endif
