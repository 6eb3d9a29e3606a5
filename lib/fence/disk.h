/* The calls that change a fence file, in one table, so that a test can stop them at any byte. */
#ifndef EL_FENCE_DISK_H
#define EL_FENCE_DISK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct el_fence_disk_calls {
    ssize_t (*write_at)(int fd, const void *bytes, size_t size, off_t offset); /* as pwrite */
    int (*sync)(int fd);                                                       /* as fdatasync */
} el_fence_disk_calls;

extern el_fence_disk_calls el_fence_disk;

/* All of the bytes, whatever it takes. 0 or errno. Blocks. */
int el_fence_disk_write(int fd, const void *bytes, size_t size, uint64_t offset);

/* Up to `size` bytes; *got is less at the end of the file only. 0 or errno. Blocks. */
int el_fence_disk_read(int fd, void *bytes, size_t size, uint64_t offset, size_t *got);

/* 0 or errno. Blocks. */
int el_fence_disk_sync(int fd);

#endif
