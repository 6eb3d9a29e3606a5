/* What a lock protects in a torture run: a file of writes that takes no write whose token is lower than the
 * last one's, checked and written under flock. */
#ifndef TORTURE_RESOURCE_H
#define TORTURE_RESOURCE_H

#include <stddef.h>
#include <stdint.h>

typedef struct resource_write {
    uint64_t token;
    int64_t counter; /* one more than in the write before */
    int32_t pid, tid;
} resource_write;

/* The file of one lock, for one thread: flock tells threads apart by descriptor. Aborts if it cannot. */
int resource_open(const char *folder, int lock);
/* The counter that was written; 0: refused, the token is stale. */
int64_t resource_put(int resource, uint64_t token);
/* All of them, to be freed. */
resource_write *resource_read(const char *folder, int lock, size_t *n);

#endif
