#include "fence/store.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATHS = 8 };

static char folder[200];

const char *store_folder(void)
{
    if (!*folder) {
        const char *place = getenv("TMPDIR");
        snprintf(folder, sizeof(folder), "%s/etcdlock-fence-XXXXXX", place ? place : "/tmp");
        ck_assert_ptr_nonnull(mkdtemp(folder));
    }
    return folder;
}

const char *store_path(const char *name)
{
    static char paths[PATHS][600];
    static unsigned turn;
    char *path = paths[turn++ % PATHS];
    snprintf(path, sizeof(paths[0]), "%s/%s", store_folder(), name);
    return path;
}

void store_remove(void)
{
    if (!*folder) return;
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        ck_assert_int_eq(remove(store_path(entry->d_name)), 0);
    }
    closedir(dir);
    ck_assert_int_eq(rmdir(folder), 0);
    *folder = '\0';
}

int store_try(const char *name, etcdlock_fence_durability durability, etcdlock_fence **out)
{
    etcdlock_fence_options options = ETCDLOCK_FENCE_OPTIONS_INIT;
    options.durability = durability;
    return etcdlock_fence_open_file(out, store_path(name), &options);
}

etcdlock_fence *store_open_file(const char *name, etcdlock_fence_durability durability, int64_t wait_ms)
{
    etcdlock_fence *fence;
    etcdlock_fence_options options = ETCDLOCK_FENCE_OPTIONS_INIT;
    options.durability = durability;
    options.wait_ms = wait_ms;
    int error = etcdlock_fence_open_file(&fence, store_path(name), &options);
    ck_assert_msg(error == 0, "error %d: %s", error, etcdlock_fence_error_message());
    return fence;
}

etcdlock_fence *store_open(store_kind kind)
{
    if (kind == STORE_PROCESS) return store_open_file("fence", ETCDLOCK_FENCE_PROCESS, 0);
    if (kind == STORE_DISK) return store_open_file("fence", ETCDLOCK_FENCE_DISK, 0);
    etcdlock_fence *fence;
    ck_assert_int_eq(etcdlock_fence_open_memory(&fence), 0);
    return fence;
}

void store_close(etcdlock_fence *fence)
{
    ck_assert_int_eq(etcdlock_fence_close(fence), 0);
}

uint64_t store_highest(etcdlock_fence *fence, const char *resource)
{
    uint64_t token = 12345;
    int error = etcdlock_fence_highest(fence, resource, &token);
    ck_assert_msg(error == 0, "error %d: %s", error, etcdlock_fence_error_message());
    return token;
}

int store_n_files(void)
{
    DIR *dir = opendir(store_folder());
    ck_assert_ptr_nonnull(dir);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

int store_n_descriptors(void)
{
    int n = 0;
    for (int fd = 3; fd < 200; fd++) {
        char link[64], target[600];
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t size = readlink(link, target, sizeof(target) - 1);
        target[size < 0 ? 0 : size] = '\0';
        n += strncmp(target, store_folder(), strlen(store_folder())) == 0;
    }
    return n;
}

unsigned char *store_read(const char *name, size_t *size)
{
    int fd = open(store_path(name), O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    struct stat status;
    ck_assert_int_eq(fstat(fd, &status), 0);
    *size = (size_t)status.st_size;
    unsigned char *bytes = malloc(*size + 1);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_int_eq(read(fd, bytes, *size), (ssize_t)*size);
    close(fd);
    return bytes;
}

void store_write(const char *name, const void *bytes, size_t size)
{
    int fd = open(store_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}
