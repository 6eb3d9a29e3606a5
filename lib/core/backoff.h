/* How long to wait before asking again. */
#ifndef EL_BACKOFF_H
#define EL_BACKOFF_H

#include <stdint.h>

/* Exponential back-off with full jitter: anything from 0 to base * 2^attempts, at most `limit`, where
 * `attempts` failed before. (Brooker, "Exponential Backoff And Jitter", 2015: full jitter spreads competing
 * clients best.) */
int64_t el_backoff_ns(unsigned attempts, int64_t base_ns, int64_t limit_ns, uint64_t random);

#define EL_MS 1000000ll
#define EL_S  1000000000ll

#endif
