#include "core/process.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_uint generation = 1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local int64_t thread_number;
static _Thread_local unsigned thread_generation;

static void in_child(void)
{
    atomic_fetch_add(&generation, 1);
}

static void watch_forks(void)
{
    /* It can fail only for lack of memory at program start; then a child is merely not recognised. */
    (void)pthread_atfork(NULL, NULL, in_child);
}

unsigned el_process_generation(void)
{
    pthread_once(&once, watch_forks);
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

int64_t el_process_thread(void)
{
    unsigned now = el_process_generation();
    if (thread_generation != now) {
        thread_number = syscall(SYS_gettid);
        thread_generation = now;
    }
    return thread_number;
}

int el_process_start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
    static const int own_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof(own_faults) / sizeof(own_faults[0]); i++)
        sigdelset(&blocked, own_faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? EAGAIN : 0;
}
