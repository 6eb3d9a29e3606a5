/* One client process of the torture run: several threads that lock, write and unlock until SIGTERM.
 *
 *     torture_client FOLDER SLOT ENDPOINTS TTL_S THREADS SEED
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "torture/calls.h"
#include "torture/generation.h"
#include "torture/rounds.h"

typedef struct worker {
    pthread_t thread;
    torture_client *c;
    int number;
} worker;

static void say(etcdlock_log_level level, const char *message, void *arg)
{
    (void)arg;
    fprintf(stderr, "%lld %d %s\n", (long long)(oracle_now_ns() / 1000000), (int)level, message);
}

static void *work(void *arg)
{
    worker *w = arg;
    rounds_run(w->c, w->number);
    return NULL;
}

static void run(torture_client *c)
{
    /* By slot: groups as by default, several small ones in flight, each transaction alone. */
    static const unsigned group_max[] = {0, 3, 1};
    worker workers[MOST_THREADS];
    sigset_t end;
    int got;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    /* Before the first thread, so that all inherit it. */
    pthread_sigmask(SIG_BLOCK, &end, NULL);
    etcdlock_client_options options = ETCDLOCK_CLIENT_OPTIONS_INIT;
    options.endpoints = c->endpoints;
    options.command_timeout_ms = COMMAND_TIMEOUT_MS;
    options.log = say;
    options.log_level = ETCDLOCK_LOG_INFO;
    options.group_max = group_max[c->slot % (sizeof group_max / sizeof *group_max)];
    int status = etcdlock_client_open(&c->client, &options);
    if (status != 0) {
        odd(c, __LINE__, status);
        return;
    }
    calls_begin(c);
    for (int i = 0; i < c->threads; i++) {
        workers[i] = (worker){.c = c, .number = i};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) abort();
    }
    sigwait(&end, &got);
    atomic_store(&c->finish, true);
    for (int i = 0; i < c->threads; i++)
        pthread_join(workers[i].thread, NULL);
    generation_end(c);
    calls_end(c);
    status = etcdlock_client_close(c->client);
    if (status != 0 && status != ETCDLOCK_EUNKNOWN) odd(c, __LINE__, status);
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "torture_client FOLDER SLOT ENDPOINTS TTL_S THREADS SEED: started by torture\n");
        return 2;
    }
    torture_client c = {
        .folder = argv[1], .slot = atoi(argv[2]), .endpoints = argv[3], .ttl_s = atoi(argv[4])};
    c.threads = atoi(argv[5]);
    c.seed = strtoull(argv[6], NULL, 10);
    if (c.threads < 1 || c.threads > MOST_THREADS) return 2;
    char path[512];
    snprintf(path, sizeof path, "%s/history", c.folder);
    tale_open(c.folder);
    oracle_open(&c.history, path);
    tale_tell((tale_record){.kind = TALE_STARTED, .slot = c.slot, .what = c.ttl_s, .lock = -1});
    run(&c);
    oracle_close(&c.history);
    return 0;
}
