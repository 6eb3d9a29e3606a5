#include "fence/disk.h"

#include <errno.h>
#include <unistd.h>

el_fence_disk_calls el_fence_disk = {pwrite, fdatasync};

int el_fence_disk_write(int fd, const void *bytes, size_t size, uint64_t offset)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t written = el_fence_disk.write_at(fd, at, size, (off_t)offset);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return errno;
        if (written == 0) return EIO;
        at += written;
        offset += (uint64_t)written;
        size -= (size_t)written;
    }
    return 0;
}

int el_fence_disk_read(int fd, void *bytes, size_t size, uint64_t offset, size_t *got)
{
    *got = 0;
    while (*got < size) {
        ssize_t part = pread(fd, (char *)bytes + *got, size - *got, (off_t)(offset + *got));
        if (part < 0 && errno == EINTR) continue;
        if (part < 0) return errno;
        if (part == 0) break;
        *got += (size_t)part;
    }
    return 0;
}

int el_fence_disk_sync(int fd)
{
    while (el_fence_disk.sync(fd)) {
        if (errno != EINTR) return errno;
    }
    return 0;
}
