/* Closing a client under a call that holds nothing of it, neither session nor lock: the look at a queue. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/alloc.h"
#include "support/live.h"
#include "support/stranger.h"

typedef struct look {
    pthread_t thread;
    etcdlock_client *client;
    long alive; /* allocations before it */
    int error;
} look;

static atomic_bool is_parked, may_go;

/* A thread that waits takes a signal without leaving its wait, and goes on after the handler has returned. */
static void park(int number)
{
    (void)number;
    atomic_store(&is_parked, true);
    while (!atomic_load(&may_go))
        usleep(1000);
}

static void *look_at_queue(void *arg)
{
    look *l = arg;
    etcdlock_queue *queue;
    l->error = etcdlock_queue_get(&queue, l->client, "a");
    return NULL;
}

static bool has_begun(void *arg)
{
    const look *l = arg;
    return el_alloc_alive() > l->alive;
}

static bool has_parked(void *arg)
{
    (void)arg;
    return atomic_load(&is_parked);
}

/* The call is told ECANCELED, and what it still needs of the client is there however late it wakes up. */
START_TEST(late_riser)
{
    struct sigaction action = {.sa_handler = park};
    etcdlock_client_options options = live_options();
    look l = {.error = -1};
    stranger silent;
    long before = el_alloc_alive();
    stranger_start(&silent, NULL);
    options.endpoints = silent.endpoint;
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    ck_assert_int_eq(etcdlock_client_open(&l.client, &options), 0);
    l.alive = el_alloc_alive();
    ck_assert_int_eq(pthread_create(&l.thread, NULL, look_at_queue, &l), 0);
    ck_assert(live_wait_until(has_begun, &l, 5000));
    /* It has begun with the client's lock held; whoever gets that now knows that it waits. */
    ck_assert_int_eq(etcdlock_client_dispatch(l.client), EINVAL);
    ck_assert_int_eq(pthread_kill(l.thread, SIGUSR1), 0);
    ck_assert(live_wait_until(has_parked, NULL, 5000));
    ck_assert_int_eq(etcdlock_client_close(l.client), 0);
    ck_assert_int_gt(el_alloc_alive(), before + 1); /* more than the name it asked for */
    atomic_store(&may_go, true);
    ck_assert_int_eq(pthread_join(l.thread, NULL), 0);
    ck_assert_int_eq(l.error, ECANCELED);
    ck_assert_int_eq(el_alloc_alive(), before);
    stranger_end(&silent);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("close_under_query", &cases, 30);
    tcase_add_test(cases, late_riser);
    return live_run(suite);
}
