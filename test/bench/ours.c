/* A worker that locks with this library: one client and one session for the process, as a program has them.
 */
#include <errno.h>
#include <stdlib.h>

#include "bench/worker.h"
#include "etcdlock.h"

static etcdlock_client *client;
static etcdlock_session *session;

static void open_session(const worker_job *job)
{
    etcdlock_client_options options = ETCDLOCK_CLIENT_OPTIONS_INIT;
    etcdlock_session_options wanted = ETCDLOCK_SESSION_OPTIONS_INIT;
    options.endpoints = job->endpoints;
    wanted.ttl_s = job->ttl_s;
    if (etcdlock_client_open(&client, &options) || etcdlock_session_open(&session, client, &wanted))
        worker_give_up("session", etcdlock_error_message());
}

static void *contender_open(const worker_job *job, int number, const char *lock)
{
    etcdlock_mutex *mutex;
    (void)number;
    if (!client) open_session(job);
    if (etcdlock_mutex_new(&mutex, session, lock, NULL)) worker_give_up(lock, etcdlock_error_message());
    return mutex;
}

static int judge(const char *call, int error)
{
    if (error == 0) return 0;
    if (error == EBUSY) return WORKER_BUSY;
    worker_complain(call, etcdlock_error_message());
    return error == ETCDLOCK_ESESSION || error == ETCDLOCK_EENTRY ? WORKER_LOST : WORKER_ERROR;
}

static int lock(void *contender)
{
    return judge("lock", etcdlock_mutex_lock(contender));
}

static int try_lock(void *contender)
{
    return judge("trylock", etcdlock_mutex_trylock(contender));
}

static int unlock(void *contender)
{
    return judge("unlock", etcdlock_mutex_unlock(contender));
}

static void contender_close(void *contender)
{
    if (etcdlock_mutex_token(contender)) (void)etcdlock_mutex_unlock(contender);
    (void)etcdlock_mutex_destroy(contender);
}

static void close_all(void)
{
    (void)etcdlock_session_close(session);
    (void)etcdlock_client_close(client);
}

int main(int argc, char **argv)
{
    static const lock_system system = {.contender_open = contender_open,
                                       .lock = lock,
                                       .try_lock = try_lock,
                                       .unlock = unlock,
                                       .contender_close = contender_close,
                                       .close = close_all};
    return worker_main(argc, argv, &system);
}
