#include "transport/codec_arena.h"

#include <stdint.h>

#include "core/alloc.h"

enum {
    ALIGNMENT = _Alignof(max_align_t),
    SMALLEST_BLOCK = 4096,
};

typedef struct el_arena_block {
    _Alignas(max_align_t) struct el_arena_block *older;
    size_t size;
} el_arena_block;

void el_arena_init(el_arena *arena, void *space, size_t size)
{
    *arena = (el_arena){.at = space, .left = size - size % ALIGNMENT};
}

/* Blocks double, so that a message of many small pieces costs few allocations. */
static bool grow(el_arena *arena, size_t size)
{
    size_t wanted = arena->blocks ? 2 * arena->blocks->size : SMALLEST_BLOCK;
    if (wanted < size) wanted = size;
    el_arena_block *block = el_alloc(sizeof *block + wanted);
    if (!block) return false;
    block->older = arena->blocks;
    block->size = wanted;
    arena->blocks = block;
    arena->at = (char *)(block + 1);
    arena->left = wanted;
    return true;
}

void *el_arena_take(el_arena *arena, size_t size)
{
    /* A length that a broken message claims must not wrap the sums below. */
    if (size > SIZE_MAX / 4) {
        arena->starved = true;
        return NULL;
    }
    size = size ? (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
    if (size > arena->left && !grow(arena, size)) {
        arena->starved = true;
        return NULL;
    }
    void *piece = arena->at;
    arena->at += size;
    arena->left -= size;
    return piece;
}

void *el_arena_take_array(el_arena *arena, size_t count, size_t size)
{
    return el_arena_take(arena, size && count > SIZE_MAX / size ? SIZE_MAX : count * size);
}

void el_arena_release(el_arena *arena)
{
    while (arena->blocks) {
        el_arena_block *older = arena->blocks->older;
        el_free(arena->blocks);
        arena->blocks = older;
    }
    *arena = (el_arena){0};
}
