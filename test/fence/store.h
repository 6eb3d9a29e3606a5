/* Guards to test: in memory, and in files of a folder of their own. */
#ifndef TEST_FENCE_STORE_H
#define TEST_FENCE_STORE_H

#include <stdint.h>

#include "etcdlock/fence.h"

typedef enum store_kind {
    STORE_MEMORY,
    STORE_PROCESS, /* a file, ETCDLOCK_FENCE_PROCESS */
    STORE_DISK,
    STORE_KINDS,
} store_kind;

/* The folder of this test, made by the first call. */
const char *store_folder(void);
/* A path in it; valid until the next call but seven. */
const char *store_path(const char *name);
/* Removes the folder and what is in it. */
void store_remove(void);

/* A new guard of that kind; files are named "fence". */
etcdlock_fence *store_open(store_kind kind);

/* The file of that name, with options; fails the case if it cannot be opened. */
etcdlock_fence *store_open_file(const char *name, etcdlock_fence_durability durability, int64_t wait_ms);
/* Tries to; returns the error. */
int store_try(const char *name, etcdlock_fence_durability durability, etcdlock_fence **out);

void store_close(etcdlock_fence *fence);

/* The highest token of a resource; fails the case on an error. */
uint64_t store_highest(etcdlock_fence *fence, const char *resource);

/* How many files are in the folder. */
int store_n_files(void);
/* How many descriptors this process has of the folder and of what is in it. */
int store_n_descriptors(void);

/* All bytes of the file, to be freed. */
unsigned char *store_read(const char *name, size_t *size);
/* Writes them over the file in place, as `cp` does. */
void store_write(const char *name, const void *bytes, size_t size);

#endif
