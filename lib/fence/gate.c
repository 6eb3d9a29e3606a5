#include "fence/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "fence/turn.h"

enum {
    SHORTEST_NAP_NS = 50 * 1000,
    LONGEST_NAP_NS = 4 * 1000 * 1000,
    NAP_SHARE = 8, /* a nap is this part of the time waited so far */
    /* Longer than a nap of the others, the kernel's delay included. */
    SHORTEST_REST_NS = 200 * 1000,
    LONGEST_REST_NS = LONGEST_NAP_NS + 1000 * 1000,
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
 * and one who comes back at once would nearly always be first; so whoever sees others waiting joins them, and
 * rests first for as long as it has just kept the gate. Of two each has its turn then, of more a chance. */
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

/* Those who have waited while we kept the gate nap for no more than a part of that time. */
static int64_t rest_after(const el_fence_gate *gate, int64_t now, int64_t left)
{
    int64_t rest = gate->left - gate->entered;
    if (rest < SHORTEST_REST_NS) rest = SHORTEST_REST_NS;
    if (rest > LONGEST_REST_NS) rest = LONGEST_REST_NS;
    rest -= now - gate->left;
    return rest < left ? rest : left;
}

static void nap_for(int64_t ns)
{
    if (ns > 0) nanosleep(&(struct timespec){0, (long)ns}, NULL);
}

/* Naps, since a wait for such a lock cannot be given a limit without taking a signal from the program. */
static int wait_for(int fd, uint64_t offset, int64_t deadline, el_fence_hopeless *hopeless, void *arg)
{
    int64_t began = el_fence_now();
    for (int64_t now = began;;) {
        nap_for(nap_after(now - began, deadline - now));
        int error = set(fd, F_WRLCK, offset);
        if (error != EAGAIN) return error;
        if (hopeless && hopeless(arg)) return ESTALE;
        now = el_fence_now();
        if (now >= deadline) return ETIMEDOUT;
    }
}

/* Joins those who wait. */
static int wait_in_turn(const el_fence_gate *gate, int fd, uint64_t offset, int64_t deadline,
                        el_fence_hopeless *hopeless, void *arg)
{
    int error = set(fd, F_RDLCK, bench(offset));
    if (error) return error;
    int64_t now = el_fence_now();
    if (gate) nap_for(rest_after(gate, now, deadline - now));
    error = wait_for(fd, offset, deadline, hopeless, arg);
    (void)set(fd, F_UNLCK, bench(offset));
    return error;
}

static int enter(const el_fence_gate *gate, int fd, uint64_t offset, int64_t deadline,
                 el_fence_hopeless *hopeless, void *arg)
{
    bool may_wait = el_fence_now() < deadline;
    bool is_wanted = may_wait && others_wait(fd, offset);
    if (is_wanted) {
        if (hopeless && hopeless(arg)) return ESTALE;
    } else {
        int error = set(fd, F_WRLCK, offset);
        if (error != EAGAIN) return error;
        if (hopeless && hopeless(arg)) return ESTALE;
        if (!may_wait) return ETIMEDOUT;
    }
    return wait_in_turn(is_wanted ? gate : NULL, fd, offset, deadline, hopeless, arg);
}

int el_fence_gate_enter(el_fence_gate *gate, int fd, uint64_t offset, int64_t deadline,
                        el_fence_hopeless *hopeless, void *arg)
{
    int error = enter(gate, fd, offset, deadline, hopeless, arg);
    if (!error && gate) gate->entered = el_fence_now();
    return error;
}

void el_fence_gate_leave(el_fence_gate *gate, int fd, uint64_t offset)
{
    if (gate) gate->left = el_fence_now();
    (void)set(fd, F_UNLCK, offset);
}
