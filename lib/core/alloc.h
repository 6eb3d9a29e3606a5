/* The library's one way to allocate, so that tests can make the n-th allocation fail. */
#ifndef EL_ALLOC_H
#define EL_ALLOC_H

#include <stddef.h>

/* Zeroed memory, or NULL. size 0 gives a unique pointer. */
void *el_alloc(size_t size);
void *el_realloc(void *memory, size_t size); /* as realloc: on NULL the old block is untouched */
void el_free(void *memory);                  /* NULL is allowed */
char *el_strdup(const char *text);           /* NULL gives NULL */
void *el_memdup(const void *memory, size_t size);

/* Tests: let `countdown` more allocations succeed and every later one fail; -1: never fail (the default). */
void el_alloc_fail_after(long countdown);
/* Tests: allocations asked for since the last el_alloc_fail_after, and blocks alive now. */
long el_alloc_asked(void);
long el_alloc_alive(void);

#endif
