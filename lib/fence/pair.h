/* A cell in its two copies, and the order of writes by which no crash loses both.
 *
 * The n-th write of a cell goes to one copy first: the first one if n is odd, else the second; it is synced
 * (where the store is for the disk), and only then is the other copy written, which needs no sync of its own.
 * So a write always begins with the copy that may not be on the disk yet, while the other one is. A write
 * that is cut off leaves a whole copy: the older, if it was cut off in the first of the two.
 *
 * Two copies that are equal are *at rest*. When one is damaged and the other whole, the whole one holds the
 * highest token that anybody was told is admitted: a caller is told only when both have been written. So
 * damage to one copy never sets a token back, and damage to both is an error. */
#ifndef EL_FENCE_PAIR_H
#define EL_FENCE_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fence/cell.h"

typedef struct el_fence_pair {
    int fd;
    bool to_disk;
    uint64_t offset; /* of the first copy */
    bool is_whole[2];
    int newest; /* which copy; -1: none is whole, or both claim to be the same write and differ */
    bool is_at_rest;
    el_fence_cell copy[2];
} el_fence_pair;

/* Makes the pair of copies out of two pages' bytes at the cell's place, `size` bytes in each. */
void el_fence_pair_judge(el_fence_pair *pair, const unsigned char *first, const unsigned char *second,
                         size_t size);

/* Reads both copies; fd, to_disk and offset say which. Needs the gate. 0 or errno. */
int el_fence_pair_read(el_fence_pair *pair, size_t room);

/* As read, but needs no gate: what is being written just now can look damaged for a moment, or older than
 * known_writes, in both copies if the reader is slow between the two, so it is read again some times before
 * that is believed. 0 or errno. Blocks at most some milliseconds. */
int el_fence_pair_glance(el_fence_pair *pair, size_t room, uint64_t known_writes);

/* Writes `cell` as the next write of a pair that was read under the lock and is not damaged; brings it to
 * rest first if it is not. 0 or errno; on failure the newest copy may be the old or the new one. */
int el_fence_pair_write(el_fence_pair *pair, el_fence_cell *cell);

/* Brings a pair to rest: both copies, and on the disk. 0 or errno. */
int el_fence_pair_settle(el_fence_pair *pair);

/* Writes both copies of a cell to a place that means nothing yet, as its first write. Does not sync. 0 or
 * errno. */
int el_fence_pair_create(int fd, uint64_t offset, el_fence_cell *cell);

#endif
