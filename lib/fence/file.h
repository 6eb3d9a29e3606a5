/* A fence file that is open: finding it, making it, and noticing that it is not the one at its path any more.
 */
#ifndef EL_FENCE_FILE_H
#define EL_FENCE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "etcdlock/fence.h"

typedef struct el_fence_file el_fence_file;

struct el_fence_file {
    int fd;
    int folder; /* an O_PATH descriptor: the path is looked at again, whatever becomes of the working folder
                 */
    char *path; /* as the caller gave it */
    const char *base; /* its last part */
    dev_t device;
    ino_t inode;
    bool to_disk;
    uint64_t end; /* up to where this handle has read the cells; 0: nothing yet */
    uint64_t resources;
    uint64_t header_writes;
    el_fence_file *next; /* see descendants.h */
};

/* Opens the file, and makes it if it is not there, unless the flags say not to. Does not read it.
 * 0, or an error with its message; then nothing is left open. Blocks. */
int el_fence_file_open(el_fence_file *file, const char *path, const etcdlock_fence_options *options);

void el_fence_file_close(el_fence_file *file);

/* 0 if the path still leads to this file; else EIDRM or an error, with its message. */
int el_fence_file_present(const el_fence_file *file);

/* Makes an empty store in the folder, whole or not at all. 0; EEXIST: somebody else has; or errno. Writes no
 * message. */
int el_fence_file_create(int folder, const char *base, const etcdlock_fence_options *options);

/* Puts the file's name on the disk. 0 or errno. Blocks. */
int el_fence_file_sync_name(const el_fence_file *file);

#endif
