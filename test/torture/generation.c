#include "torture/generation.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "torture/calls.h"

enum { PAUSE_US = 200 * 1000 };

static pthread_mutex_t over_current = PTHREAD_MUTEX_INITIALIZER;
static generation *current;

void odd(const torture_client *c, int line, int code)
{
    fprintf(stderr, "odd: line %d: %d %s: %s\n", line, code, etcdlock_strerror(code),
            etcdlock_error_message());
    tale_tell((tale_record){.kind = TALE_ODD, .slot = c->slot, .what = line, .code = code, .lock = -1});
}

static void on_lost(etcdlock_mutex *mutex, int error, uint64_t token, void *arg)
{
    const torture_client *c = arg;
    (void)mutex;
    tale_tell((tale_record){
        .kind = TALE_LOSS, .slot = c->slot, .what = HOW_CALLBACK, .code = error, .token = token, .lock = -1});
}

static void on_state(etcdlock_session *session, etcdlock_session_state state, void *arg)
{
    const torture_client *c = arg;
    if (state != ETCDLOCK_SESSION_LOST) return;
    tale_tell((tale_record){.kind = TALE_SESSION,
                            .slot = c->slot,
                            .what = SESSION_WAS_LOST,
                            .lease = etcdlock_session_lease(session),
                            .lock = -1});
}

static void tell_session(const torture_client *c, tale_session what, int64_t lease, int code)
{
    tale_tell((tale_record){
        .kind = TALE_SESSION, .slot = c->slot, .what = what, .lease = lease, .code = code, .lock = -1});
}

static int rows(const torture_client *c)
{
    return calls_way(c) == WAY_BLOCKING ? 1 : c->threads;
}

etcdlock_mutex *generation_mutex(const torture_client *c, const generation *g, int number, int lock)
{
    return g->mutexes[number % rows(c)][lock];
}

static generation *open_one(torture_client *c)
{
    etcdlock_session_options session_options = ETCDLOCK_SESSION_OPTIONS_INIT;
    etcdlock_mutex_options mutex_options = ETCDLOCK_MUTEX_OPTIONS_INIT;
    etcdlock_session *session = NULL;
    session_options.ttl_s = c->ttl_s;
    session_options.on_state = on_state;
    session_options.on_state_arg = c;
    mutex_options.on_lost = on_lost;
    mutex_options.on_lost_arg = c;
    for (;;) {
        if (atomic_load(&c->finish)) return NULL;
        int status = etcdlock_session_open(&session, c->client, &session_options);
        if (status == 0) break;
        tell_session(c, SESSION_NOT_OPENED, 0, status);
        usleep(PAUSE_US);
    }
    generation *g = calloc(1, sizeof *g);
    if (!g) abort();
    g->session = session;
    g->lease = etcdlock_session_lease(session);
    g->users = 1;
    if (rows(c) > 1) mutex_options.flags = ETCDLOCK_HANDLE_OWNED;
    for (int i = 0; i < rows(c) * LOCKS; i++) {
        int status = etcdlock_mutex_new(&g->mutexes[i / LOCKS][i % LOCKS], session, lock_name(i % LOCKS),
                                        &mutex_options);
        if (status != 0) odd(c, __LINE__, status);
    }
    tell_session(c, SESSION_OPENED, g->lease, 0);
    return g;
}

static void close_one(torture_client *c, generation *g)
{
    for (int i = 0; i < rows(c) * LOCKS; i++) {
        int status = etcdlock_mutex_destroy(g->mutexes[i / LOCKS][i % LOCKS]);
        if (status != 0) odd(c, __LINE__, status);
    }
    int status = etcdlock_session_close(g->session);
    if (status != 0 && status != ETCDLOCK_ESESSION && status != ETCDLOCK_EUNKNOWN) odd(c, __LINE__, status);
    tell_session(c, SESSION_CLOSED, g->lease, status);
    free(g);
}

generation *generation_get(torture_client *c)
{
    pthread_mutex_lock(&over_current);
    if (!current) current = open_one(c);
    generation *g = current;
    if (g) g->users++;
    pthread_mutex_unlock(&over_current);
    return g;
}

void generation_put(torture_client *c, generation *g, bool over)
{
    pthread_mutex_lock(&over_current);
    g->users--;
    if (over && current == g) {
        current = NULL;
        g->users--;
    }
    bool unused = g->users == 0;
    pthread_mutex_unlock(&over_current);
    if (unused) close_one(c, g);
}

void generation_end(torture_client *c)
{
    if (current) close_one(c, current);
    current = NULL;
}
