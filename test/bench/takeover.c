#include "bench/takeover.h"

#include <stdio.h>
#include <time.h>

#include "bench/ledger.h"
#include "bench/samples.h"

enum { TTL_S = 3, QUEUED_MS = 500, PATIENCE_US = 60000000 };

static void pause_ms(int64_t ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* Seconds from the kill to the next grant. The kills come at different phases of the holder's renewals, which
 * it makes at a third of the time to live. */
static double take_over(bench *b, party who, int round)
{
    squad holder, waiter;
    slice out;
    squad_order order = bench_order(b, who, "hold", 1, 1);
    order.ttl_s = TTL_S;
    squad_start(&holder, &order);
    order.mode = "wait";
    squad_start(&waiter, &order);
    squad_go(&waiter, clock_us() + PATIENCE_US);
    pause_ms(QUEUED_MS + TTL_S * 1000 / 3 * round / b->rounds);
    int64_t killed_us = clock_us();
    squad_kill(&holder);
    squad_collect(&waiter, &out, killed_us, killed_us + PATIENCE_US);
    squad_dismiss(&waiter);
    double seconds = (double)PATIENCE_US / 1e6;
    if (out.n == 1)
        seconds = (double)(out.all[0].at_us - killed_us) / 1e6;
    else
        fprintf(stderr, "bench: TROUBLE: takeover, %s: no grant: %s\n", party_name(who), out.complaint);
    b->failures += out.n != 1;
    slice_free(&out);
    return seconds;
}

void takeover_run(bench *b)
{
    bool has_go = party_is_there(b, PARTY_GO, "takeover");
    double slowest[PARTIES] = {0};
    for (int round = 0; round < b->rounds; round++) {
        for (party who = PARTY_OURS; who <= PARTY_GO; who++) {
            if (who == PARTY_FLOOR || (who == PARTY_GO && !has_go)) continue;
            fprintf(stderr, "  takeover, round %d of %d: %-10s\r", round + 1, b->rounds, party_name(who));
            double seconds = take_over(b, who, round);
            if (seconds > slowest[who]) slowest[who] = seconds;
        }
    }
    ledger_row row = {.name = "takeover", .measure = "slowest", .unit = "s", .less_is_better = true};
    row.ours = slowest[PARTY_OURS];
    row.peer = "time to live";
    row.peer_value = TTL_S;
    ledger_add(&row);
    if (!has_go) return;
    row.peer = party_name(PARTY_GO);
    row.peer_value = slowest[PARTY_GO];
    ledger_add(&row);
}
