/* What a holder can ask of its hold: the token, the time left, the key, a descriptor for its loss. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <sys/eventfd.h>

#include "core/backoff.h"
#include "core/client.h"
#include "core/process.h"
#include "recipes/dropin.h"
#include "recipes/mutex.h"

/* The const of the public functions is about the user's view; the state behind the handle has a lock. */
static el_mutex *enter(const etcdlock_mutex *handle, el_failure *failure)
{
    el_mutex *mutex;
    failure->error = 0;
    if (el_dropin_resolve((etcdlock_mutex *)(uintptr_t)handle, false, &mutex, failure)) return NULL;
    if (el_client_enter(mutex->client)) {
        el_fail(failure, ETCDLOCK_EFORKED, "the mutex was made before fork() and belongs to the parent");
        return NULL;
    }
    return mutex;
}

uint64_t etcdlock_mutex_token(const etcdlock_mutex *handle)
{
    el_failure failure;
    el_mutex *mutex = enter(handle, &failure);
    if (!mutex) return 0;
    el_hold *hold = el_mutex_hold_of(mutex, el_process_thread());
    uint64_t token = hold && el_hold_is_good(hold) ? hold->token : 0;
    el_client_leave(mutex->client);
    return token;
}

int64_t etcdlock_mutex_remaining_ms(const etcdlock_mutex *handle)
{
    el_failure failure;
    el_mutex *mutex = enter(handle, &failure);
    if (!mutex) return 0;
    el_hold *hold = el_mutex_hold_of(mutex, el_process_thread());
    int64_t left_ns = hold && el_hold_is_good(hold) ? el_session_remaining_ns(hold->contender->session) : 0;
    el_client_leave(mutex->client);
    return left_ns / EL_MS;
}

int etcdlock_mutex_key(const etcdlock_mutex *handle, char *buffer, size_t size)
{
    el_failure failure;
    if (!buffer) return el_publish_new(EINVAL, "mutex_key: buffer is NULL");
    el_mutex *mutex = enter(handle, &failure);
    if (!mutex) return el_publish(&failure);
    el_hold *hold = el_mutex_hold_of(mutex, el_process_thread());
    if (!hold || !el_hold_is_good(hold)) {
        el_fail(&failure, EPERM, "mutex_key: the mutex is not held by the caller");
    } else if (hold->contender->place.key.size >= size) {
        el_fail(&failure, ERANGE, "mutex_key: the key needs %zu bytes", hold->contender->place.key.size + 1);
    } else {
        memcpy(buffer, hold->contender->place.key.data, hold->contender->place.key.size);
        buffer[hold->contender->place.key.size] = '\0';
    }
    el_client_leave(mutex->client);
    return el_publish(&failure);
}

int etcdlock_mutex_lost_fd(etcdlock_mutex *handle)
{
    el_failure failure;
    el_mutex *mutex;
    if (el_dropin_resolve(handle, true, &mutex, &failure) || el_client_enter(mutex->client)) return -1;
    if (mutex->lost_fd < 0) {
        mutex->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        for (el_list *link = mutex->holds.next; mutex->lost_fd >= 0 && link != &mutex->holds;
             link = link->next) {
            if (EL_CONTAINER(link, el_hold, link)->state != EL_HOLD_LOST || mutex->is_fd_set) continue;
            (void)eventfd_write(mutex->lost_fd, 1);
            mutex->is_fd_set = true;
        }
    }
    int fd = mutex->lost_fd;
    el_client_leave(mutex->client);
    return fd;
}

/* ---- ensure
 * ---------------------------------------------------------------------------------------------------- */

typedef struct moved_waiter {
    el_renewal_waiter base;
    pthread_cond_t changed;
} moved_waiter;

static void moved(el_renewal_waiter *base)
{
    moved_waiter *w = EL_CONTAINER(base, moved_waiter, base);
    pthread_cond_signal(&w->changed);
}

/* Waits for one renewal, for at most limit_ns, and while the session lasts. */
static void await_renewal(el_session *session, int64_t limit_ns)
{
    moved_waiter w = {.base = {.moved = moved}};
    pthread_condattr_t attributes;
    struct timespec until;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&w.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t until_ns = until.tv_sec * EL_S + until.tv_nsec + limit_ns;
    until.tv_sec = (time_t)(until_ns / EL_S);
    until.tv_nsec = (long)(until_ns % EL_S);
    el_list_append(&session->renewal_waiters, &w.base.link);
    el_keepalive_now(session);
    while (!el_list_is_empty(&w.base.link)) { /* `moved` comes after it was taken out */
        if (pthread_cond_timedwait(&w.changed, &session->client->lock, &until) == ETIMEDOUT) break;
    }
    el_list_remove(&w.base.link);
    pthread_cond_destroy(&w.changed);
}

static int ensure(el_mutex *mutex, int64_t min_ms, el_failure *failure)
{
    el_client *client = mutex->client;
    int64_t thread = el_process_thread();
    int64_t give_up_ns = el_now(client) + client->command_timeout_ns;
    for (;;) {
        el_hold *hold = el_mutex_hold_of(mutex, thread);
        if (!hold) return el_fail(failure, EPERM, "ensure: the mutex is not held by the caller");
        if (hold->state == EL_HOLD_HELD) el_session_check(hold->contender->session);
        if (hold->state != EL_HOLD_HELD) {
            *failure = *hold->lost;
            return failure->error;
        }
        el_session *session = hold->contender->session;
        int64_t most_ms = (session->ttl_ns - session->margin_ns) / EL_MS;
        if (min_ms > most_ms)
            return el_fail(
                failure, EINVAL,
                "ensure: min_ms is %lld, but this session never has more than %lld ms left: ask etcd for a "
                "longer time to live",
                (long long)min_ms, (long long)most_ms);
        int64_t left_ns = el_session_remaining_ns(session);
        if (left_ns >= min_ms * EL_MS) return 0;
        int64_t patience_ns = give_up_ns - el_now(client);
        if (patience_ns <= 0)
            return el_fail(failure, ETIMEDOUT,
                           "ensure: held, but only %lld ms are left and no renewal was answered",
                           (long long)(left_ns / EL_MS));
        await_renewal(session, left_ns < patience_ns ? left_ns : patience_ns);
    }
}

int etcdlock_mutex_ensure(etcdlock_mutex *handle, int64_t min_ms)
{
    el_failure failure;
    el_mutex *mutex;
    if (min_ms < 0)
        return el_publish_new(EINVAL, "ensure: min_ms is %lld, must not be negative", (long long)min_ms);
    if (el_dropin_resolve(handle, false, &mutex, &failure)) return el_publish(&failure);
    if (el_client_enter(mutex->client))
        return el_publish_new(ETCDLOCK_EFORKED,
                              "ensure: the mutex was made before fork() and belongs to the parent");
    failure.error = 0;
    mutex->n_operations++;
    (void)ensure(mutex, min_ms, &failure);
    mutex->n_operations--;
    el_client_leave(mutex->client);
    return el_publish(&failure);
}
