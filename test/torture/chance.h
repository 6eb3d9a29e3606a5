/* Random numbers that a seed repeats. */
#ifndef TORTURE_CHANCE_H
#define TORTURE_CHANCE_H

#include <stdint.h>

typedef struct chance {
    uint64_t state;
} chance;

/* From low to high, both included. */
static inline int64_t chance_between(chance *c, int64_t low, int64_t high)
{
    c->state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = c->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return low + (int64_t)(z % (uint64_t)(high - low + 1));
}

#endif
