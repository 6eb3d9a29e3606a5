#include "core/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_long fail_after = -1;
static atomic_long asked;
static atomic_long alive;

static int must_fail(void)
{
    atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed);
    long left = atomic_load_explicit(&fail_after, memory_order_relaxed);
    if (left < 0) return 0;
    while (left > 0) {
        if (atomic_compare_exchange_weak(&fail_after, &left, left - 1)) return 0;
    }
    return 1;
}

void *el_alloc(size_t size)
{
    if (must_fail()) return NULL;
    void *memory = calloc(1, size ? size : 1);
    if (memory) atomic_fetch_add_explicit(&alive, 1, memory_order_relaxed);
    return memory;
}

void *el_realloc(void *memory, size_t size)
{
    if (must_fail()) return NULL;
    void *moved = realloc(memory, size ? size : 1);
    if (moved && !memory) atomic_fetch_add_explicit(&alive, 1, memory_order_relaxed);
    return moved;
}

void el_free(void *memory)
{
    if (!memory) return;
    atomic_fetch_sub_explicit(&alive, 1, memory_order_relaxed);
    free(memory);
}

void *el_memdup(const void *memory, size_t size)
{
    void *copy = el_alloc(size);
    if (copy && size) memcpy(copy, memory, size);
    return copy;
}

char *el_strdup(const char *text)
{
    return text ? el_memdup(text, strlen(text) + 1) : NULL;
}

void el_alloc_fail_after(long countdown)
{
    atomic_store(&asked, 0);
    atomic_store(&fail_after, countdown);
}

long el_alloc_asked(void)
{
    return atomic_load(&asked);
}

long el_alloc_alive(void)
{
    return atomic_load(&alive);
}
