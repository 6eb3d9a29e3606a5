/* The unit of a fence file: a few checksummed bytes which are kept twice. Only bytes here, no files.
 *
 * A file is a row of pairs of pages of 4,096 bytes. A cell is at the same place in both pages of its pair, so
 * that its two copies share no block of the disk. A cell never straddles pages. All numbers are
 * little-endian:
 *
 *   0  checksum   CRC-32C of the cell's place in the file (the offset of the first copy, 8 bytes) and of all
 *                 that follows
 *   4  size       of the body, 2 bytes
 *   6  kind       2 bytes
 *   8  writes     how often this cell has been written, 8 bytes: of two whole copies the higher is the newer
 *  16  body       HEADER: magic 16, version 4, durability 4, end 8, resources 8; RESOURCE: token 8, name;
 * SKIP: none
 *
 * Pair 0 has the header. The resources follow in the order in which they came, up to the header's `end`; a
 * SKIP says that the next one is in the next pair. What lies at or behind `end` is left over from somebody
 * who died while adding, and means nothing. */
#ifndef EL_FENCE_CELL_H
#define EL_FENCE_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EL_FENCE_PAGE = 4096,
    EL_FENCE_PAIR = 2 * EL_FENCE_PAGE,
    EL_FENCE_CELL_HEAD = 16,
    EL_FENCE_BODY_MAX = 8 + 1024,
    EL_FENCE_CELL_MAX = EL_FENCE_CELL_HEAD + EL_FENCE_BODY_MAX, /* a multiple of 8 */
    EL_FENCE_VERSION = 1,
};

typedef enum el_fence_kind {
    EL_FENCE_HEADER = 1,
    EL_FENCE_RESOURCE = 2,
    EL_FENCE_SKIP = 3,
} el_fence_kind;

typedef struct el_fence_cell {
    el_fence_kind kind;
    uint64_t writes;
    /* HEADER */
    uint32_t version;
    uint32_t durability; /* an etcdlock_fence_durability */
    uint64_t end;        /* offset of the first copy of the cell that comes next */
    uint64_t resources;  /* how many there are before `end` */
    /* RESOURCE */
    uint64_t token; /* the highest; 0: none since it was reset */
    size_t name_size;
    char name[1024];
} el_fence_cell;

/* The bytes a RESOURCE with such a name takes up in each page, a multiple of 8; so for the other kinds. */
size_t el_fence_cell_room(el_fence_kind kind, size_t name_size);

/* Writes the cell as it stands at `offset`; bytes has EL_FENCE_CELL_MAX of room. Returns how many it filled,
 * which is el_fence_cell_room. */
size_t el_fence_cell_encode(const el_fence_cell *cell, uint64_t offset, unsigned char *bytes);

/* Reads a cell from up to `size` bytes. False: they are not a whole cell of that place. A header of another
 * version is whole if its magic and checksum are right; only its version is filled then. */
bool el_fence_cell_decode(el_fence_cell *cell, uint64_t offset, const unsigned char *bytes, size_t size);

/* True if the bytes begin like a header, whole or not. */
bool el_fence_cell_is_header_like(const unsigned char *bytes, size_t size);

#endif
