#include "support/fleet.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/loss.h"

enum { PATIENCE_MS = 30000, LOOK_MS = 20 };

/* ---- the beginning ---------------------------------------------------------------------------------------
 */

static void start_proxies(fleet *f)
{
    for (int i = 0; i < FLEET_MEMBERS; i++) {
        proxy_start(&f->ways[i], live_endpoint(i));
        if (i > 0) strcat(f->endpoints, ",");
        strcat(f->endpoints, proxy_endpoint(&f->ways[i]));
    }
    strcpy(f->history_path, "/tmp/fleet-XXXXXX");
    int fd = mkstemp(f->history_path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    oracle_open(&f->history, f->history_path);
}

/* Is shown if the case fails. */
static void print(etcdlock_log_level level, const char *message, void *arg)
{
    (void)level;
    (void)arg;
    printf("%s\n", message);
}

static party open_party(const char *endpoints, const char *name, int64_t ttl_s)
{
    party p;
    etcdlock_client_options options = live_options();
    options.endpoints = endpoints;
    options.log = print;
    options.log_level = ETCDLOCK_LOG_ERROR;
    ck_assert_int_eq(etcdlock_client_open(&p.client, &options), 0);
    p.session = party_session(&p, ttl_s);
    p.mutex = party_mutex(&p, name, 0);
    return p;
}

/* A client begins with a member of its own choice; where the others refuse, it stays with this one. */
static void start_holders(fleet *f, int member, int64_t ttl_s)
{
    for (int i = 0; i < FLEET_MEMBERS; i++) {
        if (member != FLEET_ANY && i != member) proxy_refuse_new(&f->ways[i]);
    }
    for (int i = 0; i < FLEET_LOCKS; i++) {
        snprintf(f->names[i], sizeof f->names[i], "%sfleet%d", live_prefix(), i);
        f->parties[i] = open_party(f->endpoints, f->names[i], ttl_s);
        holder_start(&f->holders[i], f->parties[i].mutex, f->names[i], &f->history);
        ck_assert(holder_is_in(&f->holders[i], PATIENCE_MS));
        poll(NULL, 0, (int)(ttl_s * 1000 / 3 / FLEET_LOCKS));
    }
    for (int i = 0; i < FLEET_MEMBERS; i++)
        proxy_pass(&f->ways[i]);
}

static void start_waiters(fleet *f, int64_t ttl_s, int per_lock)
{
    f->crowd = open_party(getenv("ETCDLOCK_TEST_ENDPOINTS"), live_prefix(), ttl_s);
    for (int i = 0; i < FLEET_WAITERS; i++) {
        const char *name = f->names[i / per_lock];
        party p = {.client = f->crowd.client, .session = party_session(&f->crowd, ttl_s)};
        f->sessions[i] = p.session;
        f->mutexes[i] = party_mutex(&p, name, 0);
        holder_start(&f->waiters[i], f->mutexes[i], name, &f->history);
        party_await_queue(&f->crowd, name, (size_t)(i % per_lock) + 2);
    }
}

void fleet_start(fleet *f, int member, int64_t ttl_s, int per_lock)
{
    memset(f, 0, sizeof *f);
    start_proxies(f);
    start_holders(f, member, ttl_s);
    start_waiters(f, ttl_s, per_lock);
}

/* ---- meanwhile -------------------------------------------------------------------------------------------
 */

int fleet_losses(fleet *f)
{
    int n = 0;
    for (int i = 0; i < FLEET_LOCKS; i++)
        n += f->holders[i].loss != 0;
    return n;
}

int fleet_heirs(fleet *f)
{
    int n = 0;
    for (int i = 0; i < FLEET_WAITERS; i++)
        n += f->waiters[i].has_returned;
    return n;
}

void fleet_watch(fleet *f, int64_t ms)
{
    int64_t until_ms = live_now_ms() + ms;
    do {
        poll(NULL, 0, LOOK_MS);
        int losses = fleet_losses(f), heirs = fleet_heirs(f);
        ck_assert_msg(losses == 0 && heirs == 0, "%d of the holders have lost, %d waiters have returned",
                      losses, heirs);
    } while (live_now_ms() < until_ms);
}

/* ---- the end ---------------------------------------------------------------------------------------------
 */

static void end_holders(fleet *f)
{
    for (int i = 0; i < FLEET_LOCKS; i++) {
        int error = holder_end(&f->holders[i]);
        if (f->holders[i].loss)
            assert_loss(error);
        else
            ck_assert_msg(error == 0, "unlock: %d", error);
        party_close_lost(&f->parties[i]);
    }
}

static void end_waiters(fleet *f)
{
    for (int i = 0; i < FLEET_WAITERS; i++) {
        bool is_in = holder_is_in(&f->waiters[i], PATIENCE_MS);
        ck_assert_msg(f->waiters[i].has_returned, "waiter %d still waits", i);
        f->lost_waiters += !is_in;
        int error = holder_end(&f->waiters[i]);
        if (!is_in || f->waiters[i].loss)
            assert_loss(error);
        else
            ck_assert_msg(error == 0, "waiter's unlock: %d", error);
        ck_assert_int_eq(etcdlock_mutex_destroy(f->mutexes[i]), 0);
        session_close_lost(f->sessions[i]);
    }
    party_close(&f->crowd);
}

void fleet_end(fleet *f, int lost_waiters_max)
{
    oracle_verdict verdict;
    end_holders(f);
    end_waiters(f);
    for (int i = 0; i < FLEET_MEMBERS; i++)
        proxy_stop(&f->ways[i]);
    bool good = oracle_judge(f->history_path, &verdict);
    oracle_close(&f->history);
    unlink(f->history_path);
    ck_assert_msg(good, "%s", verdict.breach);
    ck_assert_msg(f->lost_waiters <= lost_waiters_max, "%d waiters have lost their leases", f->lost_waiters);
}
