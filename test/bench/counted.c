#include "bench/counted.h"

#include <malloc.h>
#include <stdatomic.h>

#include "core/alloc.h"

static _Atomic int64_t bytes;

/* The linker's --wrap gives these names: what calls el_alloc reaches __wrap_el_alloc, and the allocator
 * itself is __real_el_alloc. */
void *__real_el_alloc(size_t size);
void *__real_el_realloc(void *memory, size_t size);
void __real_el_free(void *memory);
char *__real_el_strdup(const char *text);
void *__real_el_memdup(const void *memory, size_t size);
void *__wrap_el_alloc(size_t size);
void *__wrap_el_realloc(void *memory, size_t size);
void __wrap_el_free(void *memory);
char *__wrap_el_strdup(const char *text);
void *__wrap_el_memdup(const void *memory, size_t size);

int64_t counted_bytes(void)
{
    return atomic_load(&bytes);
}

static void *add(void *memory)
{
    atomic_fetch_add(&bytes, (int64_t)malloc_usable_size(memory));
    return memory;
}

void *__wrap_el_alloc(size_t size)
{
    return add(__real_el_alloc(size));
}

void *__wrap_el_realloc(void *memory, size_t size)
{
    int64_t old = (int64_t)malloc_usable_size(memory);
    void *grown = __real_el_realloc(memory, size);
    if (grown) atomic_fetch_add(&bytes, (int64_t)malloc_usable_size(grown) - old);
    return grown;
}

void __wrap_el_free(void *memory)
{
    atomic_fetch_sub(&bytes, (int64_t)malloc_usable_size(memory));
    __real_el_free(memory);
}

char *__wrap_el_strdup(const char *text)
{
    return add(__real_el_strdup(text));
}

void *__wrap_el_memdup(const void *memory, size_t size)
{
    return add(__real_el_memdup(memory, size));
}
