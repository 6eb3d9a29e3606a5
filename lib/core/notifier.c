#include "core/notifier.h"

#include <errno.h>

#include "core/process.h"

int el_notifier_init(el_notifier *notifier, pthread_mutex_t *lock, bool is_inline)
{
    notifier->lock = lock;
    notifier->is_inline = is_inline;
    el_list_init(&notifier->queue);
    return pthread_cond_init(&notifier->changed, NULL);
}

void el_notifier_destroy(el_notifier *notifier)
{
    pthread_cond_destroy(&notifier->changed);
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
        while (el_list_is_empty(&notifier->queue) && !notifier->is_stopping)
            pthread_cond_wait(&notifier->changed, notifier->lock);
        if (el_list_is_empty(&notifier->queue)) break;
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

int el_notifier_post(el_notifier *notifier, el_notice *notice)
{
    if (notice->is_queued) return 0;
    if (notifier->is_stopping) return ECANCELED;
    if (!notifier->is_started && !notifier->is_inline && start(notifier)) return EAGAIN;
    notice->is_queued = true;
    el_list_append(&notifier->queue, &notice->link);
    pthread_cond_broadcast(&notifier->changed);
    return 0;
}

void el_notifier_withdraw(el_notifier *notifier, el_notice *notice)
{
    (void)notifier;
    if (!notice->is_queued) return;
    el_list_remove(&notice->link);
    notice->is_queued = false;
}

bool el_notifier_is_here(const el_notifier *notifier)
{
    return notifier->is_started && pthread_equal(pthread_self(), notifier->thread);
}

void el_notifier_await(el_notifier *notifier, const void *subject)
{
    if (notifier->is_inline || el_notifier_is_here(notifier)) return;
    while (notifier->running && notifier->running_subject == subject)
        pthread_cond_wait(&notifier->changed, notifier->lock);
}

void el_notifier_stop(el_notifier *notifier)
{
    if (notifier->is_inline) {
        pthread_mutex_unlock(notifier->lock);
        el_notifier_run_all(notifier);
        pthread_mutex_lock(notifier->lock);
    }
    notifier->is_stopping = true;
    if (!notifier->is_started) return;
    pthread_cond_broadcast(&notifier->changed);
    pthread_mutex_unlock(notifier->lock);
    pthread_join(notifier->thread, NULL);
    pthread_mutex_lock(notifier->lock);
    notifier->is_started = false;
}

void el_notifier_run_all(el_notifier *notifier)
{
    pthread_mutex_lock(notifier->lock);
    while (!el_list_is_empty(&notifier->queue))
        run_next(notifier);
    pthread_mutex_unlock(notifier->lock);
}
