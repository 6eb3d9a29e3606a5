/* The torture run: clients that lock, a nemesis that breaks things, and at the end the judgement. It runs
 * inside `scripts/cluster.sh run -n 3`; scripts/torture.sh, which `make torture` calls, sees to that.
 *
 *     torture --seconds N --seed N --folder DIR --client PROGRAM --script FILE --cluster FILE
 *             [--netns] [--json]
 *     torture --judge --folder DIR [--json]     judges again what an earlier run has left
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/oracle.h"
#include "torture/judge.h"
#include "torture/nemesis.h"
#include "torture/report.h"
#include "torture/shell.h"

enum {
    TICK_US = 10 * 1000,
    PROGRESS_MS = 10000,
    THREADS = 4,
    HEAL_MS = 60000,
    /* Of no faults at the end: a session lost just before has to be noticed, replaced, and to come to its
       turn. */
    RECOVERY_MS = (LONGEST_TTL_S + 6) * 1000,
    FINISH_MS = (LONGEST_TTL_S + 2 * COMMAND_TIMEOUT_MS / 1000 + 5) * 1000,
    /* The lease of a killed client, and etcd's own pace. */
    LEFTOVERS_MS = (LONGEST_TTL_S + 6) * 1000,
    RSS_FIRST_MS = 20000,
    RSS_GROWTH_KB = 16 * 1024,
    EXIT_USAGE = 2,
    EXIT_INTERRUPTED = 130,
};

typedef struct torture {
    crew crew;
    nemesis nemesis;
    report report;
    judgement judgement;
    char *members[MEMBERS];
    int64_t seconds;
    int64_t healed_ns, told_to_finish_ns;
    bool only_judges;
} torture;

static volatile sig_atomic_t is_interrupted;

static void on_signal(int number)
{
    (void)number;
    is_interrupted = 1;
}

static int64_t since_ms(int64_t then_ns)
{
    return (oracle_now_ns() - then_ns) / 1000000;
}

/* Until the time is over, faults or not. */
static void run(torture *t, int64_t until_ms, bool with_faults)
{
    static int64_t told_ms;
    chance of_faults = {t->report.seed};
    fault next = schedule_next(&of_faults, &(fault){.at_ms = 2000});
    while (!is_interrupted && since_ms(t->report.began_ns) < until_ms) {
        int64_t now_ms = since_ms(t->report.began_ns);
        if (with_faults && next.at_ms <= now_ms) {
            nemesis_do(&t->nemesis, &next);
            next = schedule_next(&of_faults, &next);
        }
        nemesis_look(&t->nemesis);
        crew_look(&t->crew);
        if (t->report.rss_begin_kb == 0 && now_ms > RSS_FIRST_MS)
            t->report.rss_begin_kb = crew_rss_kb(&t->crew, 0);
        if (now_ms - told_ms >= PROGRESS_MS) {
            report_progress(t->crew.folder, t->report.began_ns, &t->nemesis);
            told_ms = now_ms;
        }
        usleep(TICK_US);
    }
}

/* ---- nothing left behind
 * ----------------------------------------------------------------------------------------- */

static long long count_watchers(const torture *t)
{
    long long sum = 0;
    for (int m = 0; m < MEMBERS; m++) {
        long long n = shell_number("curl -s -m 5 http://%s/metrics | "
                                   "sed -n 's/^etcd_debugging_mvcc_watcher_total //p'",
                                   t->members[m]);
        if (n < 0) return -1;
        sum += n;
    }
    return sum;
}

static void judge_leftovers(torture *t)
{
    breaches *b = &t->judgement.breaches;
    int64_t began_ns = oracle_now_ns();
    long long keys, leases, watchers;
    do {
        keys =
            shell_number("timeout 5 etcdctl get --prefix %s --keys-only | grep -c . || true", TORTURE_PREFIX);
        leases = shell_number("timeout 5 etcdctl lease list | sed -n 's/^found \\([0-9]*\\) leases/\\1/p'");
        watchers = count_watchers(t);
        if (keys == 0 && leases == 0 && watchers == 0) return;
        usleep(100 * 1000);
    } while (since_ms(began_ns) < LEFTOVERS_MS);
    breach(b, "left behind: %lld keys, %lld leases, %lld watchers (-1: could not be asked)", keys, leases,
           watchers);
}

/* ---- from the beginning to the end
 * ------------------------------------------------------------------------------- */

static void finish(torture *t)
{
    breaches *b = &t->judgement.breaches;
    if (!nemesis_heal(&t->nemesis, HEAL_MS)) breach(b, "the cluster did not become healthy again");
    t->healed_ns = oracle_now_ns();
    run(t, since_ms(t->report.began_ns) + RECOVERY_MS, false);
    t->report.rss_end_kb = crew_rss_kb(&t->crew, 0);
    t->told_to_finish_ns = oracle_now_ns();
    int stuck = crew_end(&t->crew, FINISH_MS);
    t->report.ended_ns = oracle_now_ns();
    if (stuck > 0) breach(b, "%d clients did not end within %d ms", stuck, FINISH_MS);
    for (int i = 0; i < CLIENTS; i++)
        if (!t->crew.slots[i].has_ended_well) breach(b, "client %d did not end well", i);
    if (t->crew.crashed > 0) breach(b, "%d clients ended by themselves; %s", t->crew.crashed, t->crew.crash);
    if (t->report.rss_begin_kb > 0 && t->report.rss_end_kb > 2 * t->report.rss_begin_kb + RSS_GROWTH_KB)
        breach(b, "a client grew from %lld to %lld kB", (long long)t->report.rss_begin_kb,
               (long long)t->report.rss_end_kb);
    /* First: a connection on which a proxy has lost bytes stays open for as long as the proxy does. */
    crew_stop_proxies(&t->crew);
    judge_leftovers(t);
    /* What etcd has to say goes with the cluster; whoever looks into a breach needs it. */
    for (int m = 1; m <= MEMBERS; m++)
        shell_number("cp \"$CLUSTER_DIR/%d/log\" %s/member-%d.log", m, t->crew.folder, m);
}

static bool read_members(torture *t)
{
    const char *endpoints = getenv("ETCDLOCK_TEST_ENDPOINTS");
    char *rest = endpoints ? strdup(endpoints) : NULL;
    if (!rest) return false;
    t->crew.endpoints = endpoints;
    for (int m = 0; m < MEMBERS; m++)
        if (!(t->members[m] = strtok_r(m == 0 ? rest : NULL, ",", &rest))) return false;
    return true;
}

static bool parse(torture *t, int argc, char **argv)
{
    static const struct option options[] = {
        {"seconds", required_argument, NULL, 't'}, {"seed", required_argument, NULL, 's'},
        {"folder", required_argument, NULL, 'f'},  {"client", required_argument, NULL, 'c'},
        {"script", required_argument, NULL, 'x'},  {"cluster", required_argument, NULL, 'k'},
        {"netns", no_argument, NULL, 'n'},         {"json", no_argument, NULL, 'j'},
        {"judge", no_argument, NULL, 'o'},         {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 't':
            t->seconds = atoll(optarg);
            break;
        case 's':
            t->report.seed = strtoull(optarg, NULL, 10);
            break;
        case 'f':
            t->crew.folder = optarg;
            break;
        case 'c':
            t->crew.program = optarg;
            break;
        case 'x':
            t->nemesis.script = optarg;
            break;
        case 'k':
            t->nemesis.cluster = optarg;
            break;
        case 'n':
            t->nemesis.has_netns = true;
            break;
        case 'o':
            t->only_judges = true;
            break;
        case 'j':
            t->report.is_json = true;
            break;
        default:
            return false;
        }
    }
    if (t->only_judges) return t->crew.folder;
    return t->seconds > 0 && t->crew.folder && t->crew.program && t->nemesis.script && t->nemesis.cluster;
}

static void torment(torture *t)
{
    t->crew.threads = THREADS;
    t->crew.seed = t->report.seed;
    t->nemesis.crew = &t->crew;
    tale_open(t->crew.folder);
    t->report.began_ns = oracle_now_ns();
    crew_start(&t->crew, t->members);
    nemesis_start(&t->nemesis);
    run(t, t->seconds * 1000, true);
    finish(t);
    t->report.left_out = t->nemesis.skipped;
    t->report.failed = t->nemesis.failed;
}

int main(int argc, char **argv)
{
    static torture t;
    struct sigaction interrupt = {.sa_handler = on_signal};
    story s;
    if (!parse(&t, argc, argv) || (!t.only_judges && !read_members(&t))) {
        fprintf(stderr, "torture: started by scripts/torture.sh, which see\n");
        return EXIT_USAGE;
    }
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGTERM, &interrupt, NULL);
    if (!t.only_judges) torment(&t);
    story_read(&s, t.crew.folder);
    judge_run(&t.judgement, &s, t.crew.folder);
    if (!t.only_judges && !is_interrupted)
        judge_recovery(&t.judgement.breaches, &s, t.healed_ns, t.told_to_finish_ns);
    report_print(&t.report, &s, &t.judgement);
    story_free(&s);
    if (is_interrupted) return EXIT_INTERRUPTED;
    return t.judgement.breaches.n > 0;
}
