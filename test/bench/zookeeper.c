/* A worker that locks with ZooKeeper's C client, by the recipe of its documents: a sequential ephemeral node
 * for each contender; the lowest number holds, and each waiter watches the node before its own. */
#define THREADED
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zookeeper/zookeeper.h>

#include "bench/worker.h"

enum { PATH_ROOM = 512, PATIENCE_S = 10 };

/* Set by one of the client's threads, waited for by one of ours. */
typedef struct flag {
    pthread_mutex_t guard;
    pthread_cond_t is_up;
    bool up;
} flag;

typedef struct contender {
    zhandle_t *zk;
    bool owns_zk;
    flag gone; /* the node before ours */
    char folder[PATH_ROOM];
    char node[2 * PATH_ROOM];
} contender;

static zhandle_t *shared;

static void flag_init(flag *f)
{
    pthread_mutex_init(&f->guard, NULL);
    pthread_cond_init(&f->is_up, NULL);
    f->up = false;
}

static void flag_raise(flag *f)
{
    pthread_mutex_lock(&f->guard);
    f->up = true;
    pthread_cond_signal(&f->is_up);
    pthread_mutex_unlock(&f->guard);
}

static void flag_await(flag *f)
{
    pthread_mutex_lock(&f->guard);
    while (!f->up)
        pthread_cond_wait(&f->is_up, &f->guard);
    pthread_mutex_unlock(&f->guard);
}

static void on_session(zhandle_t *zk, int type, int state, const char *path, void *arg)
{
    (void)zk, (void)path;
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE && arg) flag_raise(arg);
}

/* The first event ends a watch; a session's change of state is told to all watches and ends none. */
static void on_change(zhandle_t *zk, int type, int state, const char *path, void *arg)
{
    (void)zk, (void)state, (void)path;
    if (type != ZOO_SESSION_EVENT) flag_raise(arg);
}

static zhandle_t *connect_to(const worker_job *job)
{
    static flag connected; /* one connection at a time is made */
    flag_init(&connected);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zhandle_t *zk = zookeeper_init(job->endpoints, on_session, (int)job->ttl_s * 1000, NULL, &connected, 0);
    if (!zk) worker_give_up("zookeeper_init", job->endpoints);
    flag_await(&connected);
    zoo_set_context(zk, NULL);
    return zk;
}

static void *contender_open(const worker_job *job, int number, const char *lock)
{
    contender *c = calloc(1, sizeof *c);
    (void)number;
    if (!c) worker_give_up("contender", "memory is short");
    /* Locks of their own are the business of one process, with one connection; a contender for one lock
     * stands for a process. */
    c->owns_zk = strcmp(job->mode, "distinct") != 0;
    if (!c->owns_zk && !shared) shared = connect_to(job);
    c->zk = c->owns_zk ? connect_to(job) : shared;
    flag_init(&c->gone);
    snprintf(c->folder, sizeof c->folder, "/%s", lock);
    int error = zoo_create(c->zk, c->folder, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    if (error != ZOK && error != ZNODEEXISTS) worker_give_up(c->folder, zerror(error));
    return c;
}

static int judge(const char *call, int error)
{
    if (error == ZOK) return 0;
    worker_complain(call, zerror(error));
    return error == ZSESSIONEXPIRED || error == ZINVALIDSTATE || error == ZNONODE ? WORKER_LOST
                                                                                  : WORKER_ERROR;
}

/* The children's names differ only in the number at their end, which is of fixed width. Sets *before to the
 * name of the one before ours, or to "". */
static int find_before(contender *c, char before[PATH_ROOM])
{
    struct String_vector names = {0};
    const char *mine = strrchr(c->node, '/') + 1;
    bool is_mine_there = false;
    int error = zoo_get_children(c->zk, c->folder, 0, &names);
    before[0] = '\0';
    if (error != ZOK) return judge("get children", error);
    for (int i = 0; i < names.count; i++) {
        int order = strcmp(names.data[i], mine);
        is_mine_there |= order == 0;
        if (order < 0 && strcmp(names.data[i], before) > 0) snprintf(before, PATH_ROOM, "%s", names.data[i]);
    }
    deallocate_String_vector(&names);
    return is_mine_there ? 0 : judge("our node", ZNONODE);
}

static int lock(void *contender_)
{
    contender *c = contender_;
    char entry[PATH_ROOM + 8], before[PATH_ROOM], path[2 * PATH_ROOM];
    snprintf(entry, sizeof entry, "%s/e-", c->folder);
    int status = judge("create", zoo_create(c->zk, entry, "", 0, &ZOO_OPEN_ACL_UNSAFE,
                                            ZOO_EPHEMERAL | ZOO_SEQUENCE, c->node, sizeof c->node));
    while (status == 0) {
        status = find_before(c, before);
        if (status != 0 || !before[0]) return status;
        snprintf(path, sizeof path, "%s/%s", c->folder, before);
        c->gone.up = false;
        int error = zoo_wexists(c->zk, path, on_change, &c->gone, NULL);
        if (error == ZOK)
            flag_await(&c->gone);
        else if (error != ZNONODE)
            status = judge("exists", error);
    }
    return status;
}

static int unlock(void *contender_)
{
    contender *c = contender_;
    return judge("delete", zoo_delete(c->zk, c->node, -1));
}

static void contender_close(void *contender_)
{
    contender *c = contender_;
    if (c->owns_zk) zookeeper_close(c->zk);
    free(c);
}

static void close_all(void)
{
    if (shared) zookeeper_close(shared);
}

int main(int argc, char **argv)
{
    static const lock_system system = {.contender_open = contender_open,
                                       .lock = lock,
                                       .unlock = unlock,
                                       .contender_close = contender_close,
                                       .close = close_all};
    return worker_main(argc, argv, &system);
}
