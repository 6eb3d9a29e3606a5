#include "etcdlock/fence.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fence/caller.h"
#include "fence/descendants.h"
#include "fence/guard.h"
#include "fence/message.h"

enum {
    DEFAULT_WAIT_MS = 10000,
    ALL_MODES = 0777,
    OWNER_MODE = 0600,
};

/* NULL, with a message: no memory. */
static etcdlock_fence *make(void)
{
    etcdlock_fence *fence = el_fence_generation() ? calloc(1, sizeof(*fence)) : NULL;
    if (!fence) {
        el_fence_fail(ENOMEM, "no memory for a fence");
        return NULL;
    }
    fence->generation = el_fence_generation();
    fence->wait_ms = DEFAULT_WAIT_MS;
    pthread_mutex_init(&fence->mutex, NULL);
    return fence;
}

static void destroy(etcdlock_fence *fence)
{
    if (fence->is_in_file) el_fence_file_close(&fence->file);
    el_fence_table_clear(&fence->table);
    pthread_mutex_destroy(&fence->mutex);
    free(fence);
}

int etcdlock_fence_open_memory(etcdlock_fence **out)
{
    if (!out) return el_fence_fail(EINVAL, "no place for the fence was given");
    el_fence_caller caller;
    el_fence_caller_hold(&caller);
    *out = make();
    el_fence_caller_release(&caller);
    return *out ? 0 : ENOMEM;
}

/* Reads the options of a caller that may know fewer fields than we do. */
static int read_options(etcdlock_fence_options *options, const etcdlock_fence_options *given)
{
    memset(options, 0, sizeof(*options));
    if (!given) return 0;
    if (given->size < sizeof(given->size) || given->size > sizeof(*options))
        return el_fence_fail(EINVAL, "fence options: size %zu is not known: use ETCDLOCK_FENCE_OPTIONS_INIT",
                             given->size);
    memcpy(options, given, given->size);
    if (options->durability != 0 && options->durability != ETCDLOCK_FENCE_PROCESS &&
        options->durability != ETCDLOCK_FENCE_DISK)
        return el_fence_fail(EINVAL, "fence options: durability %d is not known", (int)options->durability);
    if (options->flags & ~(unsigned)ETCDLOCK_FENCE_EXISTING)
        return el_fence_fail(EINVAL, "fence options: flags %#x are not known", options->flags);
    if (options->mode & ~(unsigned)ALL_MODES)
        return el_fence_fail(EINVAL, "fence options: mode %#o is more than permissions", options->mode);
    if (options->mode && (options->mode & OWNER_MODE) != OWNER_MODE)
        return el_fence_fail(EINVAL, "fence options: with mode %#o its owner could not open the file again",
                             options->mode);
    return 0;
}

static int read_all(etcdlock_fence *fence, uint32_t durability)
{
    el_fence_call call;
    int error = el_fence_call_begin(&call, fence, fence->wait_ms);
    if (!error) error = el_fence_call_end(&call, el_fence_refresh(&call, durability));
    if (error || !fence->file.to_disk) return error;
    /* Whoever created the file may have died before its name was on the disk. */
    error = el_fence_file_sync_name(&fence->file);
    return error ? el_fence_fail_file(error, fence->file.path, "put its name on the disk") : 0;
}

static int open_file(etcdlock_fence **out, const char *path, const etcdlock_fence_options *said)
{
    etcdlock_fence *fence = make();
    if (!fence) return ENOMEM;
    if (said->wait_ms) fence->wait_ms = said->wait_ms;
    int error = el_fence_file_open(&fence->file, path, said);
    fence->is_in_file = !error;
    if (!error) error = read_all(fence, said->durability);
    if (error)
        destroy(fence);
    else
        *out = fence;
    return error;
}

int etcdlock_fence_open_file(etcdlock_fence **out, const char *path, const etcdlock_fence_options *options)
{
    if (!out) return el_fence_fail(EINVAL, "no place for the fence was given");
    *out = NULL;
    if (!path || !*path) return el_fence_fail(EINVAL, "no path of a fence file was given");
    etcdlock_fence_options said;
    int error = read_options(&said, options);
    if (error) return error;
    el_fence_caller caller;
    el_fence_caller_hold(&caller);
    error = open_file(out, path, &said);
    el_fence_caller_release(&caller);
    return error;
}

int etcdlock_fence_close(etcdlock_fence *fence)
{
    if (!fence) return 0;
    /* In a child the mutex may be locked by a thread that does not exist there. */
    if (fence->generation == el_fence_generation()) {
        pthread_mutex_lock(&fence->mutex);
        unsigned n_inside = fence->n_inside;
        pthread_mutex_unlock(&fence->mutex);
        if (n_inside)
            return el_fence_fail(
                EBUSY, "%u calls of the fence have not returned, or resources are kept: end them first",
                n_inside);
    }
    el_fence_caller caller;
    el_fence_caller_hold(&caller);
    destroy(fence);
    el_fence_caller_release(&caller);
    return 0;
}
