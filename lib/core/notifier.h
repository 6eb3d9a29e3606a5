/* The thread that runs the user's callbacks: never with a lock held, never on the threads that do the work.
 * It is started by the first notice. Every function is called with the client's lock held. */
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
    pthread_t thread;
    bool is_started;
    bool is_stopping;
    bool is_inline; /* tests without threads: notices are run by el_notifier_run_all */
} el_notifier;

int el_notifier_init(el_notifier *notifier, pthread_mutex_t *lock, bool is_inline);

/* Queues the notice unless it is queued already. When it runs it is no longer queued and may free itself. 0,
 * EAGAIN if the thread cannot be started, ECANCELED after stop. */
int el_notifier_post(el_notifier *notifier, el_notice *notice);

/* Takes the notice back if it has not begun to run. */
void el_notifier_withdraw(el_notifier *notifier, el_notice *notice);

/* Waits until no notice about the subject is running, unless called from inside it. Releases the lock while
 * it waits. */
void el_notifier_await(el_notifier *notifier, const void *subject);

/* True on the notifier's own thread. */
bool el_notifier_is_here(const el_notifier *notifier);

/* Runs what is queued, then ends the thread. Releases the lock while it waits. */
void el_notifier_stop(el_notifier *notifier);

void el_notifier_run_all(el_notifier *notifier);

void el_notifier_destroy(el_notifier *notifier);

#endif
