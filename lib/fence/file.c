#include "fence/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fence/descendants.h"
#include "fence/message.h"

enum { ATTEMPTS = 100 };

static int open_folder(el_fence_file *file)
{
    char *slash = strrchr(file->path, '/');
    file->base = slash ? slash + 1 : file->path;
    if (!*file->base) return el_fence_fail_file(EISDIR, file->path, "open it");
    char *folder = NULL;
    if (slash) {
        folder = strndup(file->path, slash == file->path ? 1 : (size_t)(slash - file->path));
        if (!folder) return el_fence_fail(ENOMEM, "no memory for a fence file");
    }
    const int how = O_PATH | O_DIRECTORY | O_CLOEXEC;
    int error = el_fence_descendants_open(&file->folder, AT_FDCWD, folder ? folder : ".", how);
    free(folder);
    return error ? el_fence_fail_file(error, file->path, "open its folder") : 0;
}

/* Not waiting for the other end of a pipe, should it be one. */
static int open_once(el_fence_file *file)
{
    const int how = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
    return el_fence_descendants_open(&file->fd, file->folder, file->base, how);
}

static int open_or_create(el_fence_file *file, const etcdlock_fence_options *options)
{
    int error = open_once(file);
    bool may_create = !(options->flags & ETCDLOCK_FENCE_EXISTING);
    for (int i = 0; error == ENOENT && may_create && i < ATTEMPTS; i++) {
        error = el_fence_file_create(file->folder, file->base, options);
        if (error && error != EEXIST) return el_fence_fail_file(error, file->path, "create it");
        error = open_once(file);
    }
    return error ? el_fence_fail_file(error, file->path, "open it") : 0;
}

static int identify(el_fence_file *file)
{
    struct stat status;
    if (fstat(file->fd, &status)) return el_fence_fail_file(errno, file->path, "look at it");
    if (!S_ISREG(status.st_mode))
        return el_fence_fail(EBADMSG, "%.200s is not a regular file: a guard needs a file of its own",
                             file->path);
    file->device = status.st_dev;
    file->inode = status.st_ino;
    return 0;
}

int el_fence_file_open(el_fence_file *file, const char *path, const etcdlock_fence_options *options)
{
    memset(file, 0, sizeof(*file));
    file->fd = file->folder = -1;
    file->path = strdup(path);
    if (!file->path) return el_fence_fail(ENOMEM, "no memory for a fence file");
    el_fence_descendants_watch(file);
    int error = open_folder(file);
    if (!error) error = open_or_create(file, options);
    if (!error) error = identify(file);
    if (error) el_fence_file_close(file);
    return error;
}

void el_fence_file_close(el_fence_file *file)
{
    el_fence_descendants_forget(file);
    free(file->path);
    file->path = NULL;
}

int el_fence_file_present(const el_fence_file *file)
{
    struct stat now;
    if (fstatat(file->folder, file->base, &now, AT_SYMLINK_NOFOLLOW)) {
        if (errno != ENOENT) return el_fence_fail_file(errno, file->path, "look at it");
    } else if (now.st_dev == file->device && now.st_ino == file->inode) {
        return 0;
    }
    return el_fence_fail(
        EIDRM,
        "fence file %.200s was removed or replaced while it was open: others may use another "
        "one; find out which is right, put it back, and open it again",
        file->path);
}
