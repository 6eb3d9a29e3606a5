#include "support/clock_shift.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void must(int good, const char *what)
{
    if (good) return;
    perror(what);
    abort();
}

void clock_shift_start(clock_shift *shift)
{
    strcpy(shift->path, "/tmp/etcdlock-clock-XXXXXX");
    int fd = mkstemp(shift->path);
    must(fd >= 0 && ftruncate(fd, sizeof(clock_offsets)) == 0, "clock_shift: file");
    shift->offsets = mmap(NULL, sizeof(clock_offsets), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(shift->offsets != MAP_FAILED, "clock_shift: mmap");
    close(fd);
}

void clock_shift_stop(clock_shift *shift)
{
    munmap(shift->offsets, sizeof(clock_offsets));
    unlink(shift->path);
}

void clock_shift_preload(const clock_shift *shift)
{
    const char *shim = getenv("ETCDLOCK_TEST_CLOCK_SHIM");
    const char *asan = getenv("ASAN_OPTIONS");
    char options[1024];
    must(shim != NULL, "clock_shift: ETCDLOCK_TEST_CLOCK_SHIM is not set");
    setenv("LD_PRELOAD", shim, 1);
    setenv(CLOCK_SHIFT_VARIABLE, shift->path, 1);
    /* It refuses to run where something is loaded before it. */
    snprintf(options, sizeof options, "%s%sverify_asan_link_order=0", asan ? asan : "", asan ? ":" : "");
    setenv("ASAN_OPTIONS", options, 1);
}

void clock_shift_realtime(clock_shift *shift, int64_t s)
{
    shift->offsets->realtime_ns = s * INT64_C(1000000000);
}

void clock_shift_boottime(clock_shift *shift, int64_t s)
{
    shift->offsets->boottime_ns = s * INT64_C(1000000000);
}
