/* How much memory the library itself has asked for, gRPC's left out. A program that wants to know is linked
 * so that the library's allocator is called by way of this file. */
#ifndef BENCH_COUNTED_H
#define BENCH_COUNTED_H

#include <stdint.h>

/* As malloc has set it aside, in bytes. */
int64_t counted_bytes(void);

#endif
