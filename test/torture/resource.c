#include "torture/resource.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void must(int good, const char *what)
{
    if (good) return;
    perror(what);
    abort();
}

int resource_open(const char *folder, int lock)
{
    char path[512];
    snprintf(path, sizeof path, "%s/writes-%d", folder, lock);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(fd >= 0, path);
    return fd;
}

/* A killed writer has written all of it or nothing: a write this small to a regular file is not cut short. */
int64_t resource_put(int resource, uint64_t token)
{
    resource_write last = {0};
    int64_t counter = 0;
    int status;
    do
        status = flock(resource, LOCK_EX);
    while (status != 0 && errno == EINTR);
    must(status == 0, "resource: flock");
    off_t end = lseek(resource, 0, SEEK_END);
    must(end >= 0 && end % (off_t)sizeof last == 0, "resource: torn");
    if (end > 0)
        must(pread(resource, &last, sizeof last, end - (off_t)sizeof last) == (ssize_t)sizeof last,
             "resource: read");
    if (token >= last.token) {
        resource_write next = {.token = token, .counter = last.counter + 1, .pid = (int32_t)getpid()};
        next.tid = (int32_t)syscall(SYS_gettid);
        must(pwrite(resource, &next, sizeof next, end) == (ssize_t)sizeof next, "resource: write");
        counter = next.counter;
    }
    must(flock(resource, LOCK_UN) == 0, "resource: unlock");
    return counter;
}

resource_write *resource_read(const char *folder, int lock, size_t *n)
{
    struct stat status;
    int fd = resource_open(folder, lock);
    must(fstat(fd, &status) == 0, "resource: stat");
    *n = (size_t)status.st_size / sizeof(resource_write);
    resource_write *writes = calloc(*n + 1, sizeof *writes);
    must(writes && pread(fd, writes, *n * sizeof *writes, 0) == (ssize_t)(*n * sizeof *writes),
         "resource: read");
    close(fd);
    return writes;
}
