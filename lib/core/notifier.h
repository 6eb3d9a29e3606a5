/* What runs the user's callbacks: never with a lock held, never on the threads that do the work. Either a
 * thread of its own, started when it is first needed, or the program's event loop: then a descriptor is
 * readable while something waits. Every function is called with the client's lock held. */
#ifndef EL_NOTIFIER_H
#define EL_NOTIFIER_H

#include <pthread.h>
#include <stdbool.h>

#include "core/list.h"

/* Something to be told; lives inside what it is about. All zero is one that is not under way. */
typedef struct el_notice {
    el_list link;
    void (*run)(struct el_notice *notice); /* called without the lock */
    bool is_queued;
    void *subject; /* the handle it is about: see el_notifier_await */
} el_notice;

typedef struct el_notifier {
    pthread_mutex_t *lock; /* the client's */
    pthread_cond_t changed;
    el_list queue;
    el_notice *running;
    void *running_subject;
    pthread_t runner; /* the thread that runs it, while one is running */
    pthread_t thread;
    bool is_started;
    bool is_leaving; /* the thread ends: the program's loop takes over */
    bool is_stopping;
    bool is_polled; /* the program's loop runs them, by el_notifier_dispatch */
    bool is_dispatching;
    int fd;         /* -1: none */
    bool is_inline; /* tests without threads: notices are run by el_notifier_run_all */
} el_notifier;

int el_notifier_init(el_notifier *notifier, pthread_mutex_t *lock, bool is_inline);

/* Queues the notice unless it is queued already. When it runs it is no longer queued and may free itself. 0,
 * EAGAIN if the thread cannot be started, ECANCELED after stop. */
int el_notifier_post(el_notifier *notifier, el_notice *notice);

/* Makes sure that there is, or will be, somebody to run what is posted. 0, EAGAIN or ECANCELED. */
int el_notifier_ready(el_notifier *notifier);

/* From now on the program's loop runs the notices; the thread is ended. Releases the lock while it waits for
 * a notice that is running. Returns the descriptor; -1 and *error EDEADLK from inside a notice, ECANCELED
 * after stop, or what eventfd says. */
int el_notifier_poll(el_notifier *notifier, int *error);

/* Runs those that wait now. Releases the lock while they run. 0; EINVAL: not polled; EDEADLK: from inside a
 * notice; EBUSY: another thread is at it. */
int el_notifier_dispatch(el_notifier *notifier);

/* Takes the notice back if it has not begun to run. */
void el_notifier_withdraw(el_notifier *notifier, el_notice *notice);

/* Waits until no notice about the subject is running, unless called from inside it. Releases the lock while
 * it waits. */
void el_notifier_await(el_notifier *notifier, const void *subject);

/* True inside a notice. */
bool el_notifier_is_here(const el_notifier *notifier);

/* Runs what is queued, then ends the thread. Releases the lock while it waits. */
void el_notifier_stop(el_notifier *notifier);

void el_notifier_run_all(el_notifier *notifier);

void el_notifier_destroy(el_notifier *notifier);

#endif
