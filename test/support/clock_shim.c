/* A library to preload (not part of the test programs): the clocks a program reads, shifted by what
 * clock_shift.h says, and its waits until times of those clocks shifted back. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "support/clock_shift.h"

enum { NS_PER_S = 1000000000 };

static clock_offsets none;
static clock_offsets *offsets = &none;

__attribute__((constructor)) static void map_offsets(void)
{
    const char *path = getenv(CLOCK_SHIFT_VARIABLE);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof(clock_offsets), PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) offsets = mapped;
    close(fd);
}

/* The C library's own function; the newest of its versions where the oldest is for another pthread_cond_t. */
static void *next(const char *name)
{
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return found ? found : dlsym(RTLD_NEXT, name);
}

#define REAL(name)                                                                                           \
    static __typeof__(&name) real;                                                                           \
    if (!__atomic_load_n(&real, __ATOMIC_RELAXED))                                                           \
    __atomic_store_n(&real, (__typeof__(&name))next(#name), __ATOMIC_RELAXED)

static int64_t offset_ns(clockid_t clock)
{
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        return offsets->realtime_ns;
    case CLOCK_BOOTTIME:
        return offsets->boottime_ns;
    default:
        return 0;
    }
}

static struct timespec shifted(const struct timespec *from, int64_t by_ns)
{
    struct timespec to = {.tv_sec = from->tv_sec + by_ns / NS_PER_S};
    int64_t ns = from->tv_nsec + by_ns % NS_PER_S;
    if (ns < 0) {
        to.tv_sec--;
        ns += NS_PER_S;
    } else if (ns >= NS_PER_S) {
        to.tv_sec++;
        ns -= NS_PER_S;
    }
    /* A time before the epoch is refused by the kernel, where a past one was meant. */
    if (to.tv_sec < 0) {
        to.tv_sec = 0;
        ns = 0;
    }
    to.tv_nsec = ns;
    return to;
}

/* ---- reading
 * ----------------------------------------------------------------------------------------------- */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    REAL(clock_gettime);
    int error = real(clock, now);
    int64_t by_ns = offset_ns(clock);
    if (!error && by_ns) *now = shifted(now, by_ns);
    return error;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}

int timespec_get(struct timespec *now, int base)
{
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

/* ---- waiting
 * ----------------------------------------------------------------------------------------------- */

static struct timespec deadline(clockid_t clock, const struct timespec *until)
{
    return shifted(until, -offset_ns(clock));
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wish, struct timespec *rest)
{
    REAL(clock_nanosleep);
    if (!(flags & TIMER_ABSTIME)) return real(clock, flags, wish, rest);
    struct timespec until = deadline(clock, wish);
    return real(clock, flags, &until, rest);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict wish)
{
    REAL(sem_timedwait);
    struct timespec until = deadline(CLOCK_REALTIME, wish);
    return real(semaphore, &until);
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict wish)
{
    REAL(sem_clockwait);
    struct timespec until = deadline(clock, wish);
    return real(semaphore, clock, &until);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict wish)
{
    REAL(pthread_mutex_timedlock);
    struct timespec until = deadline(CLOCK_REALTIME, wish);
    return real(mutex, &until);
}

/* glibc keeps the clock of a condition in a bit of this field, and offers no way to ask for it. */
static clockid_t clock_of(const pthread_cond_t *condition)
{
    return condition->__data.__wrefs & 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict wish)
{
    REAL(pthread_cond_timedwait);
    struct timespec until = deadline(clock_of(condition), wish);
    return real(condition, mutex, &until);
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           clockid_t clock, const struct timespec *restrict wish)
{
    REAL(pthread_cond_clockwait);
    struct timespec until = deadline(clock, wish);
    return real(condition, mutex, clock, &until);
}

/* Abseil, inside gRPC, waits by the bare system call. */
long syscall(long number, ...)
{
    REAL(syscall);
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    struct timespec until;
    if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) && a[3]) {
        until = deadline(CLOCK_REALTIME, (const struct timespec *)a[3]);
        a[3] = (long)&until;
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
