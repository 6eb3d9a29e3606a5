/* Memory that is taken piece by piece and given back in one go: what one message is built or decoded in. */
#ifndef EL_CODEC_ARENA_H
#define EL_CODEC_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct el_arena {
    char *at;                      /* where the next piece starts */
    size_t left;                   /* bytes from there to the end of the block */
    struct el_arena_block *blocks; /* newest first; the caller's first space is not among them */
    bool starved;                  /* a piece was refused for lack of memory */
} el_arena;

/* Starts with the caller's own space, which must be aligned for any type and outlive the arena; more is
 * allocated only when that is used up. */
void el_arena_init(el_arena *arena, void *space, size_t size);

/* Memory for any type, not zeroed; size 0 gives a valid pointer. NULL sets `starved`. */
void *el_arena_take(el_arena *arena, size_t size);

/* The same for an array; a product that overflows counts as lack of memory. */
void *el_arena_take_array(el_arena *arena, size_t count, size_t size);

/* Frees every piece; the arena must be initialised again before more is taken. */
void el_arena_release(el_arena *arena);

#endif
