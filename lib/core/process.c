#include "core/process.h"

#include <pthread.h>
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
