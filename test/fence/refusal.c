#include "fence/refusal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 2000 };

refusals refusal = {.allocations = -1};

/* What is allocated: others free memory by the same name that did not come from here. */
static void *blocks[BLOCKS];

void refusal_none(void)
{
    refusal = (refusals){.allocations = -1, .alive = refusal.alive};
}

/* The linker sends the library's calls to __wrap_NAME, and __real_NAME to the system's NAME. */
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
char *__wrap_strndup(const char *text, size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);
int __real_renameat2(int from, const char *name, int to, const char *new_name, unsigned flags);
int __wrap_renameat2(int from, const char *name, int to, const char *new_name, unsigned flags);
int __real_linkat(int from, const char *name, int to, const char *new_name, int flags);
int __wrap_linkat(int from, const char *name, int to, const char *new_name, int flags);
int __real_openat(int folder, const char *name, int how, ...);
int __wrap_openat(int folder, const char *name, int how, ...);
int __real_pthread_atfork(void (*before)(void), void (*parent)(void), void (*in_child)(void));
int __wrap_pthread_atfork(void (*before)(void), void (*parent)(void), void (*in_child)(void));

static bool is_refused(void)
{
    if (refusal.allocations < 0 || refusal.allocations-- > 0) return false;
    errno = ENOMEM;
    return true;
}

static void *counted(void *memory)
{
    if (!memory) return NULL;
    int i = 0;
    while (i < BLOCKS - 1 && blocks[i])
        i++;
    blocks[i] = memory;
    refusal.alive++;
    return memory;
}

static void forget(const void *memory)
{
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i] != memory) continue;
        blocks[i] = NULL;
        refusal.alive--;
        return;
    }
}

void *__wrap_calloc(size_t n, size_t size)
{
    return is_refused() ? NULL : counted(__real_calloc(n, size));
}

char *__wrap_strdup(const char *text)
{
    return is_refused() ? NULL : counted(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t size)
{
    return is_refused() ? NULL : counted(__real_strndup(text, size));
}

void __wrap_free(void *memory)
{
    if (memory) forget(memory);
    __real_free(memory);
}

int __wrap_renameat2(int from, const char *name, int to, const char *new_name, unsigned flags)
{
    if (refusal.before_rename) refusal.before_rename();
    if (!refusal.no_replace) return __real_renameat2(from, name, to, new_name, flags);
    errno = refusal.no_replace;
    return -1;
}

int __wrap_linkat(int from, const char *name, int to, const char *new_name, int flags)
{
    if (!refusal.no_links) return __real_linkat(from, name, to, new_name, flags);
    errno = refusal.no_links;
    return -1;
}

int __wrap_openat(int folder, const char *name, int how, ...)
{
    va_list rest;
    va_start(rest, how);
    mode_t mode = how & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    int fd = __real_openat(folder, name, how, mode);
    if (refusal.after_open && strcmp(name, "fence") == 0) refusal.after_open();
    return fd;
}

int __wrap_pthread_atfork(void (*before)(void), void (*parent)(void), void (*in_child)(void))
{
    return refusal.no_forks ? refusal.no_forks : __real_pthread_atfork(before, parent, in_child);
}
