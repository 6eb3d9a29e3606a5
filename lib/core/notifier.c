#include "core/notifier.h"

#include <errno.h>
#include <unistd.h>

#include <sys/eventfd.h>

#include "core/process.h"

int el_notifier_init(el_notifier *notifier, pthread_mutex_t *lock, bool is_inline)
{
    notifier->lock = lock;
    notifier->is_inline = is_inline;
    notifier->fd = -1;
    el_list_init(&notifier->queue);
    return pthread_cond_init(&notifier->changed, NULL);
}

void el_notifier_destroy(el_notifier *notifier)
{
    if (notifier->fd >= 0) close(notifier->fd);
    pthread_cond_destroy(&notifier->changed);
}

/* The descriptor is readable exactly while something waits. */
static void show(el_notifier *notifier)
{
    eventfd_t ignored;
    if (notifier->fd < 0) return;
    if (el_list_is_empty(&notifier->queue)) {
        (void)eventfd_read(notifier->fd, &ignored);
    } else {
        (void)eventfd_write(notifier->fd, 1);
    }
}

/* With the lock held on entry and on return. */
static void run_next(el_notifier *notifier)
{
    el_list *link = el_list_take(&notifier->queue);
    if (!link) return;
    el_notice *notice = EL_CONTAINER(link, el_notice, link);
    notice->is_queued = false;
    notifier->running = notice;
    notifier->running_subject = notice->subject;
    notifier->runner = pthread_self();
    pthread_mutex_unlock(notifier->lock);
    notice->run(notice);
    pthread_mutex_lock(notifier->lock);
    notifier->running = NULL;
    notifier->running_subject = NULL;
    pthread_cond_broadcast(&notifier->changed);
}

static void *run(void *argument)
{
    el_notifier *notifier = argument;
    pthread_mutex_lock(notifier->lock);
    for (;;) {
        while (el_list_is_empty(&notifier->queue) && !notifier->is_stopping && !notifier->is_leaving)
            pthread_cond_wait(&notifier->changed, notifier->lock);
        if (el_list_is_empty(&notifier->queue) || notifier->is_leaving) break;
        run_next(notifier);
    }
    pthread_mutex_unlock(notifier->lock);
    return NULL;
}

static int start(el_notifier *notifier)
{
    if (el_process_start_thread(&notifier->thread, run, notifier)) return EAGAIN;
    notifier->is_started = true;
    return 0;
}

int el_notifier_ready(el_notifier *notifier)
{
    if (notifier->is_stopping) return ECANCELED;
    if (notifier->is_started || notifier->is_polled || notifier->is_inline) return 0;
    return start(notifier);
}

int el_notifier_post(el_notifier *notifier, el_notice *notice)
{
    if (notice->is_queued) return 0;
    int error = el_notifier_ready(notifier);
    if (error) return error;
    bool was_empty = el_list_is_empty(&notifier->queue);
    notice->is_queued = true;
    el_list_append(&notifier->queue, &notice->link);
    if (notifier->is_polled) {
        if (was_empty) show(notifier);
    } else {
        pthread_cond_broadcast(&notifier->changed);
    }
    return 0;
}

void el_notifier_withdraw(el_notifier *notifier, el_notice *notice)
{
    if (!notice->is_queued) return;
    el_list_remove(&notice->link);
    notice->is_queued = false;
    if (notifier->is_polled && el_list_is_empty(&notifier->queue)) show(notifier);
}

bool el_notifier_is_here(const el_notifier *notifier)
{
    return notifier->running && pthread_equal(pthread_self(), notifier->runner);
}

void el_notifier_await(el_notifier *notifier, const void *subject)
{
    if (notifier->is_inline || el_notifier_is_here(notifier)) return;
    while (notifier->running && notifier->running_subject == subject)
        pthread_cond_wait(&notifier->changed, notifier->lock);
}

/* ---- the program's loop
 * --------------------------------------------------------------------------------------- */

static void end_thread(el_notifier *notifier)
{
    if (!notifier->is_started) return;
    pthread_cond_broadcast(&notifier->changed);
    pthread_mutex_unlock(notifier->lock);
    pthread_join(notifier->thread, NULL);
    pthread_mutex_lock(notifier->lock);
    notifier->is_started = false;
}

int el_notifier_poll(el_notifier *notifier, int *error)
{
    *error = 0;
    /* Its own thread, which another thread may be ending right now. */
    if (el_notifier_is_here(notifier) && notifier->is_started) *error = EDEADLK;
    if (notifier->is_stopping) *error = ECANCELED;
    if (*error) return -1;
    while (notifier->is_leaving) /* another thread has asked for it at the same time */
        pthread_cond_wait(&notifier->changed, notifier->lock);
    if (notifier->is_polled) return notifier->fd;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        *error = errno;
        return -1;
    }
    notifier->fd = fd;
    notifier->is_leaving = true;
    notifier->is_polled = true;
    end_thread(notifier);
    notifier->is_leaving = false;
    pthread_cond_broadcast(&notifier->changed);
    if (!el_list_is_empty(&notifier->queue)) show(notifier);
    return fd;
}

/* As many as there are now: what the callbacks add is for the next time, so that a loop gets its turn. */
static void run_waiting(el_notifier *notifier)
{
    size_t n = 0;
    for (const el_list *link = notifier->queue.next; link != &notifier->queue; link = link->next)
        n++;
    while (n-- > 0 && !el_list_is_empty(&notifier->queue))
        run_next(notifier);
}

int el_notifier_dispatch(el_notifier *notifier)
{
    if (!notifier->is_polled) return EINVAL;
    if (el_notifier_is_here(notifier)) return EDEADLK;
    if (notifier->is_dispatching || notifier->is_leaving) return EBUSY;
    notifier->is_dispatching = true;
    run_waiting(notifier);
    notifier->is_dispatching = false;
    pthread_cond_broadcast(&notifier->changed);
    if (el_list_is_empty(&notifier->queue)) show(notifier);
    return 0;
}

/* ---- the end
 * ----------------------------------------------------------------------------------------------------- */

void el_notifier_stop(el_notifier *notifier)
{
    while (notifier->is_dispatching || notifier->is_leaving)
        pthread_cond_wait(&notifier->changed, notifier->lock);
    notifier->is_dispatching = true; /* one notice at a time: a dispatch of another thread is refused */
    while ((notifier->is_inline || notifier->is_polled) && !el_list_is_empty(&notifier->queue))
        run_next(notifier);
    notifier->is_dispatching = false;
    notifier->is_stopping = true;
    end_thread(notifier);
}

void el_notifier_run_all(el_notifier *notifier)
{
    pthread_mutex_lock(notifier->lock);
    while (!el_list_is_empty(&notifier->queue))
        run_next(notifier);
    pthread_mutex_unlock(notifier->lock);
}
