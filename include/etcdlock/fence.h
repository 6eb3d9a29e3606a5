/* A guard for the resource's side of a lock: it remembers the highest fencing token that a resource has seen,
 * and refuses a lower one. Only so is a holder stopped that was frozen and does not know that its time is
 * over.
 *
 * This header belongs to a small library of its own, libetcdlock-fence (pkg-config etcdlock-fence), which
 * needs nothing but the C library: a resource is no client of etcd. Of error.h it uses numbers only.
 * doc/fencing.md says which guard fits which resource.
 *
 * A *resource* is a name of 1 to 1,024 bytes, any but NUL. A *token* is what etcdlock_mutex_token gave to the
 * holder; 0 is never one. A token is admitted if it is at least as high as every token admitted before for
 * the same resource. Tokens of different locks cannot be compared: guard a resource by one lock only.
 *
 * There are two guards. The one in memory is for the threads of one process and forgets when it is closed.
 * The one in a file is for any number of processes of one host, and any number of handles in each; the file
 * must be on a local file system. It grows with the number of resources, not of checks: by about 60 bytes and
 * twice the name for each. A name that was used once stays, in the file and in the memory of each handle.
 *
 * All functions may be called by any number of threads. Each returns 0 or an error number and leaves errno
 * alone; etcdlock_fence_error_message says what went wrong. On any error nothing is admitted. None of them is
 * a cancellation point, and none may be called in a signal handler.
 *
 * After fork() a handle belongs to the parent alone: the child gets ETCDLOCK_EFORKED and opens its own. */
#ifndef ETCDLOCK_FENCE_H
#define ETCDLOCK_FENCE_H

#include <stddef.h>
#include <stdint.h>

#include "etcdlock/error.h"
#include "etcdlock/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct etcdlock_fence etcdlock_fence;

/* The longest name of a resource, in bytes without the NUL. */
#define ETCDLOCK_FENCE_RESOURCE_MAX 1024

typedef enum etcdlock_fence_durability {
    /* An admitted token outlives the process, however it ends (SIGKILL included), but not the machine: after
     * a power failure or a crash of the kernel the newest tokens may be forgotten, or the file may be found
     * damaged (EBADMSG). No fsync. For resources that a reboot empties as well. */
    ETCDLOCK_FENCE_PROCESS = 1,
    /* An admitted token is on the disk before the call returns: it outlives a power failure too, as far as
     * the disk does what fdatasync asks of it and leaves no sector half-written. A token higher than all
     * before costs one fdatasync; one that equals the highest costs none. */
    ETCDLOCK_FENCE_DISK = 2,
} etcdlock_fence_durability;

enum {
    /* Do not create the file: a store that has gone is then an error (ENOENT) and not an empty store, which
     * would admit every token. For all but the first start of a resource. */
    ETCDLOCK_FENCE_EXISTING = 1u << 0,
};

typedef struct etcdlock_fence_options {
    size_t size;                          /* sizeof(etcdlock_fence_options), set by the INIT macro */
    etcdlock_fence_durability durability; /* 0: what the file was made with; DISK for a new file */
    unsigned flags;                       /* ETCDLOCK_FENCE_EXISTING */
    unsigned mode;                        /* permissions of a file that is created, less the umask, 0600 among
                                           * them; 0: 0600 */
    int64_t wait_ms; /* how long a call waits while others keep the resource; 0: 10,000; negative: no limit */
} etcdlock_fence_options;

#define ETCDLOCK_FENCE_OPTIONS_INIT ETCDLOCK_SIZED(etcdlock_fence_options)

/* Makes a guard in memory, empty. Its calls wait at most 10 s for one another; etcdlock_fence_begin_for sets
 * another limit. Does not block. On failure *out is set to NULL. Close it with etcdlock_fence_close.
 * EINVAL: NULL; ENOMEM. */
ETCDLOCK_API int etcdlock_fence_open_memory(etcdlock_fence **out) ETCDLOCK_CHECK_RESULT;

/* Opens the guard in the file at `path`, and creates it if there is none (not with ETCDLOCK_FENCE_EXISTING):
 * whole or not at all, also if several processes do it at once. A process killed while creating may leave a
 * file PATH.new-…, which may be removed. options may be NULL: all defaults. Blocks for the disk, and while
 * another process adds a resource. The descriptors are closed on exec. On failure *out is set to NULL. Close
 * it with etcdlock_fence_close.
 *
 * What is there but is not a whole store is never replaced:
 *
 * EBADMSG: the file is not a fence file, is empty, cut short, or damaged in both of its copies; ENOTSUP: it
 * was made by a newer version of the library, or the file system lacks locks of open file descriptions, or
 * any way to create without replacing; EINVAL: NULL, an empty path, options of unknown size, an unknown
 * durability, flag or mode, or another durability than the file was made with; ELOOP: path is a symbolic link
 * (its folders may be); ENOENT: no such folder, or with ETCDLOCK_FENCE_EXISTING no such file; EACCES, EROFS,
 * EISDIR, ENOTDIR, ENOSPC, EDQUOT, EMFILE, EIO, ...: what the system says of the file, which must be readable
 * and writable, while its folders need only be passable; ETIMEDOUT: another process has been adding a
 * resource for longer than wait_ms; ENAMETOOLONG (21 bytes are added to its name while it is made); ENOMEM.
 */
ETCDLOCK_API int etcdlock_fence_open_file(etcdlock_fence **out, const char *path,
                                          const etcdlock_fence_options *options) ETCDLOCK_CHECK_RESULT;

/* Admits the token, and remembers it as the guard's durability says, or refuses it.
 *
 * A check says that the token was good at one moment of the call. A process that is frozen after the check
 * and before its write writes all the same when it wakes up, whoever was admitted meanwhile. Where nothing
 * else protects the write, use begin and end. A check is enough where what comes after it cannot be late:
 * within the same critical section or transaction of the resource itself.
 *
 * Blocks while another thread, handle or process is between begin and end of this resource, at most wait_ms.
 * Threads of a handle come in the order in which they asked. Between handles no order is promised: of two
 * that come again and again each has its turn in turn, of more it is chance.
 *
 * ESTALE: a higher token has been admitted; said without waiting;
 * ETIMEDOUT: others kept the resource for wait_ms; or, for a new resource, the list of them;
 * EDEADLK: this thread is between begin and end of this resource by this handle;
 * EINVAL: NULL, token 0, a name that is empty or too long;
 * EBADMSG: the store is damaged in both copies, or has gone back to an earlier state, as an old copy put over
 * it would; EIDRM: the file was removed, or another was put in its place, so that others may be using that
 * one: close, find out which file is right, and open again; ENOSPC, EDQUOT, EIO, ENOLCK, ...: the store could
 * not be read or written. The token was not admitted, but may count as seen; ENOMEM; ETCDLOCK_EFORKED. */
ETCDLOCK_API int etcdlock_fence_check(etcdlock_fence *fence, const char *resource,
                                      uint64_t token) ETCDLOCK_CHECK_RESULT;

/* Checks as above and, if the token is admitted, keeps everybody else out of this resource until end,
 * whatever their tokens: other threads, other handles, other processes. So the check and the caller's write
 * between begin and end are one step. Other resources are not kept.
 *
 * The thread that began must end. A process that dies in between sets the resource free, with the token
 * remembered; what it had written by then is for the next one to put right. A process that is *frozen* in
 * between keeps the resource, by design: nobody may write before its late write. Others then get ETIMEDOUT
 * after wait_ms (begin_for: after ms; negative: no limit; 0: without waiting). Resume or kill that process;
 * `fuser PATH` lists those that have the file open.
 *
 * Errors as check; EDEADLK: this thread keeps this resource already. Threads that begin several resources in
 * different orders, or one resource by two handles, can wait for each other, until the limit. */
ETCDLOCK_API int etcdlock_fence_begin(etcdlock_fence *fence, const char *resource,
                                      uint64_t token) ETCDLOCK_CHECK_RESULT;
ETCDLOCK_API int etcdlock_fence_begin_for(etcdlock_fence *fence, const char *resource, uint64_t token,
                                          int64_t ms) ETCDLOCK_CHECK_RESULT;

/* Lets others in again. Does not block. Whatever it returns but EPERM, EINVAL and ETCDLOCK_EFORKED, the
 * resource is no longer kept by this thread.
 *
 * EPERM: this thread does not keep the resource by this handle; EIDRM: the file was removed or replaced since
 * begin: those who opened another one were not kept out; EINVAL: NULL, a refused name; ETCDLOCK_EFORKED. */
ETCDLOCK_API int etcdlock_fence_end(etcdlock_fence *fence, const char *resource);

/* Writes to *token the highest token seen for the resource, 0 if there was none or since it was reset. Does
 * not wait for those between begin and end. On failure *token is 0.
 *
 * EINVAL, EBADMSG, EIDRM, EIO, ENOMEM, ETCDLOCK_EFORKED: as check; ETIMEDOUT: the resource is not known to
 * this handle, and another process has been adding one for wait_ms. */
ETCDLOCK_API int etcdlock_fence_highest(etcdlock_fence *fence, const char *resource,
                                        uint64_t *token) ETCDLOCK_CHECK_RESULT;

/* Called for one resource of a guard, with no lock held: it may call the guard, but not close it. resource
 * lives until the function returns. Not 0 ends the walk. */
typedef int etcdlock_fence_visit(const char *resource, uint64_t token, void *arg);

/* Calls the function for every resource with a token, in the order in which they were first seen, for an
 * operator who looks at a store. Returns what the function returned, if that was not 0. Blocks for the disk;
 * does not wait for those between begin and end. Errors as highest. */
ETCDLOCK_API int etcdlock_fence_walk(etcdlock_fence *fence, etcdlock_fence_visit *visit, void *arg);

/* Forgets the highest token of one resource, as durably as tokens are remembered: the next token is admitted,
 * whatever it is.
 *
 * DANGER: a holder that was frozen before can write again after this. It is for an operator and for one case:
 * etcd was restored from a snapshot in such a way that its revisions went back, so that the tokens of good
 * holders are refused. Make sure first that every earlier holder is gone. doc/fencing.md has the procedure.
 *
 * Waits for those between begin and end, as check does. Errors as check, and ENOENT: the resource was never
 * seen. */
ETCDLOCK_API int etcdlock_fence_reset(etcdlock_fence *fence, const char *resource) ETCDLOCK_CHECK_RESULT;

/* Frees the handle; the store and its tokens stay in the file. Does not block. NULL is allowed.
 * EBUSY: a call of another thread has not returned, or a resource is kept: nothing was done. In a child
 * process after fork() it frees the child's copy and returns 0. */
ETCDLOCK_API int etcdlock_fence_close(etcdlock_fence *fence);

/* What the last failed call of this thread to this library was about: what failed, where, and what to do
 * about it; "" if none failed yet. A successful call leaves it alone, as errno is left. Valid until the next
 * failing call of this thread. Does not block. */
ETCDLOCK_API const char *etcdlock_fence_error_message(void);

#ifdef __cplusplus
}
#endif

#endif
