#include "fence/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "fence/turn.h"

enum {
    SHORTEST_NAP_NS = 50 * 1000,
    LONGEST_NAP_NS = 20 * 1000 * 1000,
    NAP_SHARE = 8, /* a nap is this part of the time waited so far */
};

static struct flock range(short type, uint64_t offset)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)offset, .l_len = 1};
}

static int set(int fd, short type, uint64_t offset)
{
    struct flock lock = range(type, offset);
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return 0;
    return errno == EACCES ? EAGAIN : errno;
}

/* Those who wait hold the byte behind the gate's, shared. The kernel gives a free lock to whoever asks first,
 * and one who comes back at once would nearly always be first; so whoever sees others waiting joins them. */
static uint64_t bench(uint64_t offset)
{
    return offset + 1;
}

static bool others_wait(int fd, uint64_t offset)
{
    struct flock lock = range(F_WRLCK, bench(offset));
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static int64_t nap_after(int64_t waited, int64_t left)
{
    int64_t nap = waited / NAP_SHARE;
    if (nap < SHORTEST_NAP_NS) nap = SHORTEST_NAP_NS;
    if (nap > LONGEST_NAP_NS) nap = LONGEST_NAP_NS;
    return nap < left ? nap : left;
}

/* Naps, since a wait for such a lock cannot be given a limit without taking a signal from the program. */
static int wait_for(int fd, uint64_t offset, int64_t deadline, el_fence_hopeless *hopeless, void *arg)
{
    int64_t began = el_fence_now();
    for (int64_t now = began;;) {
        struct timespec nap = {0, (long)nap_after(now - began, deadline - now)};
        nanosleep(&nap, NULL);
        int error = set(fd, F_WRLCK, offset);
        if (error != EAGAIN) return error;
        if (hopeless && hopeless(arg)) return ESTALE;
        now = el_fence_now();
        if (now >= deadline) return ETIMEDOUT;
    }
}

int el_fence_gate_enter(int fd, uint64_t offset, int64_t deadline, el_fence_hopeless *hopeless, void *arg)
{
    bool may_wait = el_fence_now() < deadline;
    if (!may_wait || !others_wait(fd, offset)) {
        int error = set(fd, F_WRLCK, offset);
        if (error != EAGAIN) return error;
        if (hopeless && hopeless(arg)) return ESTALE;
        if (!may_wait) return ETIMEDOUT;
    }
    int error = set(fd, F_RDLCK, bench(offset));
    if (error) return error;
    error = wait_for(fd, offset, deadline, hopeless, arg);
    (void)set(fd, F_UNLCK, bench(offset));
    return error;
}

void el_fence_gate_leave(int fd, uint64_t offset)
{
    (void)set(fd, F_UNLCK, offset);
}
