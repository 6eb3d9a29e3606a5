/* A worker that locks over several redis servers, by the algorithm that Redis's documents call Redlock: SET
 * NX PX on each of them, held with a majority, released by a script that deletes only what is ours, tried
 * again after a random 1 to 3 ms. The servers are asked at the same time, as those documents advise. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "bench/worker.h"

enum { MOST_SERVERS = 9, NAME_ROOM = 256, TOKEN_ROOM = 36, PAUSE_LEAST_US = 1000, PAUSE_SPREAD_US = 2000 };

typedef struct contender {
    redisContext *servers[MOST_SERVERS];
    int n;
    char name[NAME_ROOM];
    char token[TOKEN_ROOM];
    char script[64]; /* its hash, the same at all servers */
    long long ttl_ms;
    unsigned seed;
} contender;

static void connect_to(contender *c, const char *endpoint)
{
    static const char release[] =
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
    char host[64];
    const char *colon = strrchr(endpoint, ':');
    if (!colon || (size_t)(colon - endpoint) >= sizeof host || c->n == MOST_SERVERS)
        worker_give_up("redis endpoint", endpoint);
    snprintf(host, sizeof host, "%.*s", (int)(colon - endpoint), endpoint);
    redisContext *server = redisConnect(host, atoi(colon + 1));
    if (!server || server->err) worker_give_up(endpoint, server ? server->errstr : "memory is short");
    redisReply *reply = redisCommand(server, "SCRIPT LOAD %s", release);
    if (!reply || reply->type != REDIS_REPLY_STRING) worker_give_up(endpoint, "refuses the script");
    snprintf(c->script, sizeof c->script, "%s", reply->str);
    freeReplyObject(reply);
    c->servers[c->n++] = server;
}

static void *contender_open(const worker_job *job, int number, const char *lock)
{
    contender *c = calloc(1, sizeof *c);
    char *endpoints = strdup(job->endpoints), *rest = NULL;
    unsigned char random[16];
    if (!c || !endpoints || getrandom(random, sizeof random, 0) != sizeof random)
        worker_give_up("contender", "no memory or no random numbers");
    for (char *one = strtok_r(endpoints, ",", &rest); one; one = strtok_r(NULL, ",", &rest))
        connect_to(c, one);
    free(endpoints);
    snprintf(c->name, sizeof c->name, "%s", lock);
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(c->token + 2 * i, 3, "%02x", random[i]);
    c->ttl_ms = job->ttl_s * 1000;
    c->seed = (unsigned)number * 2654435761u + random[0];
    return c;
}

/* Sends what was appended to all, then reads all; returns how many said yes. */
static int count_yes(contender *c)
{
    int yes = 0;
    for (int i = 0; i < c->n; i++) {
        int is_written = 0;
        while (!is_written && redisBufferWrite(c->servers[i], &is_written) == REDIS_OK)
            continue;
    }
    for (int i = 0; i < c->n; i++) {
        redisReply *reply = NULL;
        if (redisGetReply(c->servers[i], (void **)&reply) != REDIS_OK) continue;
        if (reply->type == REDIS_REPLY_ERROR) worker_complain("redis", reply->str);
        yes +=
            reply->type == REDIS_REPLY_STATUS || (reply->type == REDIS_REPLY_INTEGER && reply->integer == 1);
        freeReplyObject(reply);
    }
    return yes;
}

static int release(contender *c)
{
    for (int i = 0; i < c->n; i++)
        redisAppendCommand(c->servers[i], "EVALSHA %s 1 %s %s", c->script, c->name, c->token);
    return count_yes(c);
}

static int try_lock(void *contender_)
{
    contender *c = contender_;
    int64_t began_us = clock_us();
    for (int i = 0; i < c->n; i++)
        redisAppendCommand(c->servers[i], "SET %s %s NX PX %lld", c->name, c->token, c->ttl_ms);
    int yes = count_yes(c);
    /* A hundredth for clocks that run unlike, and 2 ms, as the documents have it. */
    int64_t left_ms = c->ttl_ms - (clock_us() - began_us) / 1000 - c->ttl_ms / 100 - 2;
    if (yes > c->n / 2 && left_ms > 0) return 0;
    (void)release(c);
    return WORKER_BUSY;
}

static int lock(void *contender_)
{
    contender *c = contender_;
    while (try_lock(c) != 0) {
        int64_t pause_us = PAUSE_LEAST_US + rand_r(&c->seed) % PAUSE_SPREAD_US;
        struct timespec pause = {.tv_nsec = pause_us * 1000};
        nanosleep(&pause, NULL);
    }
    return 0;
}

static int unlock(void *contender_)
{
    contender *c = contender_;
    return release(c) > c->n / 2 ? 0 : WORKER_LOST;
}

static void contender_close(void *contender_)
{
    contender *c = contender_;
    (void)release(c);
    for (int i = 0; i < c->n; i++)
        redisFree(c->servers[i]);
    free(c);
}

static void close_all(void)
{
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
