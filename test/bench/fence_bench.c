/* `make bench-fence`: what a check costs, in memory, in a file without fsync, and in a file for the disk; and
 * how large the file is after two million checks of one resource. The files are in TMPDIR, or /tmp. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "etcdlock/fence.h"

enum {
    IN_MEMORY = 5000000,
    IN_FILE = 2000000,
    ON_DISK = 500,
    MANY = 10000,
};

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void must(int error)
{
    if (!error) return;
    fprintf(stderr, "fence_bench: error %d: %s\n", error, etcdlock_fence_error_message());
    exit(1);
}

/* Checks with tokens that rise by `rise` each time. */
static void measure(const char *what, etcdlock_fence *fence, unsigned n, unsigned rise)
{
    uint64_t token;
    must(etcdlock_fence_check(fence, "account/17", 1));
    must(etcdlock_fence_highest(fence, "account/17", &token));
    double began = now_ns();
    for (unsigned i = 0; i < n; i++) {
        token += rise;
        must(etcdlock_fence_check(fence, "account/17", token));
    }
    printf("%-52s %10.0f ns a check\n", what, (now_ns() - began) / n);
}

static void measure_many(const char *what, etcdlock_fence *fence)
{
    char name[32];
    double began = 0;
    for (uint64_t round = 1; round <= 2; round++) {
        began = now_ns();
        for (int i = 0; i < MANY; i++) {
            snprintf(name, sizeof(name), "account/%d", i);
            must(etcdlock_fence_check(fence, name, 1000000000 + round));
        }
    }
    printf("%-52s %10.0f ns a check\n", what, (now_ns() - began) / MANY);
}

static etcdlock_fence *open_file(const char *path, etcdlock_fence_durability durability)
{
    etcdlock_fence *fence;
    etcdlock_fence_options options = ETCDLOCK_FENCE_OPTIONS_INIT;
    options.durability = durability;
    must(etcdlock_fence_open_file(&fence, path, &options));
    return fence;
}

int main(void)
{
    char folder[256], path[300];
    const char *place = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%.200s/etcdlock-fence-XXXXXX", place ? place : "/tmp");
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof(path), "%s/fence", folder);
    etcdlock_fence *fence;
    must(etcdlock_fence_open_memory(&fence));
    measure("in memory, the same token", fence, IN_MEMORY, 0);
    measure("in memory, rising tokens", fence, IN_MEMORY, 1);
    measure_many("in memory, 10,000 resources", fence);
    must(etcdlock_fence_close(fence));
    fence = open_file(path, ETCDLOCK_FENCE_PROCESS);
    measure("in a file (PROCESS), the same token", fence, IN_FILE / 2, 0);
    measure("in a file (PROCESS), rising tokens", fence, IN_FILE / 2, 1);
    struct stat status;
    if (stat(path, &status) == 0)
        printf("%-52s %10lld bytes\n", "the file after two million checks", (long long)status.st_size);
    measure_many("in a file (PROCESS), 10,000 resources", fence);
    must(etcdlock_fence_close(fence));
    unlink(path);
    fence = open_file(path, ETCDLOCK_FENCE_DISK);
    measure("in a file (DISK), the same token", fence, IN_FILE / 10, 0);
    measure("in a file (DISK), rising tokens", fence, ON_DISK, 1);
    must(etcdlock_fence_close(fence));
    unlink(path);
    rmdir(folder);
    return 0;
}
