#include "fence/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fence/cell.h"
#include "fence/disk.h"

enum {
    DEFAULT_MODE = 0600,
    NAME_ROOM = 300, /* more than any file system takes */
};

static int write_empty_store(int fd, etcdlock_fence_durability durability)
{
    unsigned char pages[EL_FENCE_PAIR] = {0};
    el_fence_cell header = {.kind = EL_FENCE_HEADER,
                            .writes = 1,
                            .version = EL_FENCE_VERSION,
                            .durability = durability,
                            .end = EL_FENCE_PAIR};
    el_fence_cell_encode(&header, 0, pages);
    el_fence_cell_encode(&header, 0, pages + EL_FENCE_PAGE);
    int error = el_fence_disk_write(fd, pages, sizeof(pages), 0);
    if (!error && durability == ETCDLOCK_FENCE_DISK) error = el_fence_disk_sync(fd);
    return error;
}

/* Gives the finished file its name, and never takes the name from another one. */
static int publish(int folder, const char *temporary, const char *base)
{
    if (renameat2(folder, temporary, folder, base, RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return errno;
    /* EPERM: no hard links either. */
    if (linkat(folder, temporary, folder, base, 0)) return errno == EPERM ? ENOTSUP : errno;
    return unlinkat(folder, temporary, 0) ? errno : 0;
}

int el_fence_file_create(int folder, const char *base, const etcdlock_fence_options *options)
{
    char temporary[NAME_ROOM];
    uint64_t number;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number)) return errno;
    int size = snprintf(temporary, sizeof(temporary), "%s.new-%016llx", base, (unsigned long long)number);
    if (size < 0 || (size_t)size >= sizeof(temporary)) return ENAMETOOLONG;
    mode_t mode = options->mode ? (mode_t)options->mode : DEFAULT_MODE;
    int fd = openat(folder, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0) return errno;
    int error = write_empty_store(fd, options->durability ? options->durability
                                                          : (etcdlock_fence_durability)ETCDLOCK_FENCE_DISK);
    if (close(fd) && !error) error = errno;
    if (!error) error = publish(folder, temporary, base);
    if (error) (void)unlinkat(folder, temporary, 0);
    return error;
}

int el_fence_file_sync_name(const el_fence_file *file)
{
    int fd = openat(file->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Whoever may not list the folder may use the file all the same; this syncs more than is needed. */
    if (fd < 0 && errno == EACCES) return syncfs(file->fd) ? errno : 0;
    if (fd < 0) return errno;
    int error = fsync(fd) ? errno : 0;
    close(fd);
    return error;
}
