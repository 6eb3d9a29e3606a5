#include "fence/descendants.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

static atomic_uint generation = 1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_told_of_forks;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static el_fence_file *files;

static void close_both(el_fence_file *file)
{
    if (file->fd >= 0) close(file->fd);
    if (file->folder >= 0) close(file->folder);
    file->fd = file->folder = -1;
}

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

static void in_child(void)
{
    atomic_fetch_add(&generation, 1);
    for (el_fence_file *file = files; file; file = file->next)
        close_both(file);
    files = NULL;
    pthread_mutex_unlock(&mutex);
}

static void watch_forks(void)
{
    is_told_of_forks = pthread_atfork(before_fork, in_parent, in_child) == 0;
}

unsigned el_fence_generation(void)
{
    pthread_once(&once, watch_forks);
    return is_told_of_forks ? atomic_load_explicit(&generation, memory_order_relaxed) : 0;
}

void el_fence_descendants_watch(el_fence_file *file)
{
    pthread_mutex_lock(&mutex);
    file->next = files;
    files = file;
    pthread_mutex_unlock(&mutex);
}

int el_fence_descendants_open(int *fd, int folder, const char *name, int how)
{
    pthread_mutex_lock(&mutex);
    *fd = openat(folder, name, how);
    int error = *fd < 0 ? errno : 0;
    pthread_mutex_unlock(&mutex);
    return error;
}

void el_fence_descendants_forget(el_fence_file *file)
{
    pthread_mutex_lock(&mutex);
    el_fence_file **at = &files;
    while (*at && *at != file)
        at = &(*at)->next;
    if (*at) *at = file->next;
    close_both(file);
    pthread_mutex_unlock(&mutex);
}
