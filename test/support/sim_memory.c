#include "support/sim_memory.h"

#include <stdlib.h>
#include <string.h>

struct sim_chunk {
    struct sim_chunk *older;
    size_t used, size;
    _Alignas(16) char bytes[];
};

void *sim_alloc(size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (!memory) abort();
    return memory;
}

void *sim_grow(void *items, size_t *capacity, size_t needed, size_t item_size)
{
    if (needed <= *capacity) return items;
    size_t wanted = *capacity ? *capacity : 8;
    while (wanted < needed)
        wanted *= 2;
    void *moved = realloc(items, wanted * item_size);
    if (!moved) abort();
    *capacity = wanted;
    return moved;
}

el_span sim_span_dup(el_span bytes)
{
    char *copy = sim_alloc(bytes.size);
    if (bytes.size) memcpy(copy, bytes.data, bytes.size);
    return (el_span){copy, bytes.size};
}

void sim_span_free(el_span bytes)
{
    free((void *)(uintptr_t)bytes.data);
}

int sim_span_compare(el_span a, el_span b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
    if (order) return order;
    return (a.size > b.size) - (a.size < b.size);
}

el_span sim_text(const char *text)
{
    return (el_span){text, strlen(text)};
}

void *sim_arena_take(sim_arena *arena, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    struct sim_chunk *chunk = arena->chunks;
    if (!chunk || chunk->size - chunk->used < size) {
        size_t room = size > 1008 ? size : 1008;
        chunk = sim_alloc(sizeof *chunk + room);
        chunk->size = room;
        chunk->older = arena->chunks;
        arena->chunks = chunk;
    }
    void *memory = chunk->bytes + chunk->used;
    chunk->used += size;
    return memory;
}

el_span sim_arena_span(sim_arena *arena, el_span bytes)
{
    char *copy = sim_arena_take(arena, bytes.size);
    if (bytes.size) memcpy(copy, bytes.data, bytes.size);
    return (el_span){copy, bytes.size};
}

void sim_arena_free(sim_arena *arena)
{
    while (arena->chunks) {
        struct sim_chunk *chunk = arena->chunks;
        arena->chunks = chunk->older;
        free(chunk);
    }
}

static void copy_range(sim_arena *arena, el_range_request *range)
{
    range->key = sim_arena_span(arena, range->key);
    range->range_end = sim_arena_span(arena, range->range_end);
}

static void copy_txn(sim_arena *arena, el_txn_request *txn);

static const el_op *copy_ops(sim_arena *arena, const el_op *ops, size_t n)
{
    el_op *copies = sim_arena_take(arena, n * sizeof *copies);
    for (size_t i = 0; i < n; i++) {
        copies[i] = ops[i];
        switch (ops[i].kind) {
        case EL_OP_RANGE:
            copy_range(arena, &copies[i].range);
            break;
        case EL_OP_PUT:
            copies[i].put.key = sim_arena_span(arena, ops[i].put.key);
            copies[i].put.value = sim_arena_span(arena, ops[i].put.value);
            break;
        case EL_OP_DELETE:
            copies[i].del.key = sim_arena_span(arena, ops[i].del.key);
            copies[i].del.range_end = sim_arena_span(arena, ops[i].del.range_end);
            break;
        case EL_OP_TXN: {
            el_txn_request *nested = sim_arena_take(arena, sizeof *nested);
            *nested = *ops[i].txn;
            copy_txn(arena, nested);
            copies[i].txn = nested;
            break;
        }
        }
    }
    return copies;
}

static void copy_txn(sim_arena *arena, el_txn_request *txn)
{
    el_compare *compares = sim_arena_take(arena, txn->n_compares * sizeof *compares);
    for (size_t i = 0; i < txn->n_compares; i++) {
        compares[i] = txn->compares[i];
        compares[i].key = sim_arena_span(arena, compares[i].key);
        compares[i].range_end = sim_arena_span(arena, compares[i].range_end);
        compares[i].value = sim_arena_span(arena, compares[i].value);
    }
    txn->compares = compares;
    txn->success = copy_ops(arena, txn->success, txn->n_success);
    txn->failure = copy_ops(arena, txn->failure, txn->n_failure);
}

el_request *sim_arena_request(sim_arena *arena, const el_request *request)
{
    el_request *copy = sim_arena_take(arena, sizeof *copy);
    *copy = *request;
    switch (request->verb) {
    case EL_TXN:
        copy_txn(arena, &copy->txn);
        break;
    case EL_RANGE:
        copy_range(arena, &copy->range);
        break;
    case EL_AUTHENTICATE:
        copy->authenticate.user = sim_arena_span(arena, request->authenticate.user);
        copy->authenticate.password = sim_arena_span(arena, request->authenticate.password);
        break;
    case EL_LEASE_GRANT:
    case EL_LEASE_REVOKE:
    case EL_LEASE_KEEPALIVE:
    case EL_LEASE_TIME_TO_LIVE:
    case EL_STATUS:
        break;
    }
    return copy;
}
