/* `make test-fence-crash`: many kills, and a report.
 *
 *   fence_crash [--kills N] [--seed N]      exit status 1 if a rule was broken */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fence/crash.h"

static int refuse(const char *what)
{
    fprintf(stderr, "fence_crash: %s; usage: fence_crash [--kills N] [--seed N]\n", what);
    return 2;
}

static void print(const crash_plan *plan, const crash_report *report, double seconds)
{
    printf("fence crash: %u kills in %.0f s, %u of them inside of a call; seed %llu\n", report->kills,
           seconds, report->in_call, (unsigned long long)plan->seed);
    printf("  %u stores, the largest of %llu bytes; %u half-made ones were left beside\n", report->stores,
           (unsigned long long)report->largest, report->left_over);
    printf("  %llu tokens admitted (%llu of them kept the resource for a write), %llu refused\n",
           (unsigned long long)report->admitted, (unsigned long long)report->kept,
           (unsigned long long)report->refused);
    if (*report->broken)
        printf("  BROKEN: %s\n", report->broken);
    else
        printf("  no token was forgotten, none was refused wrongly, no write met another\n");
}

int main(int argc, char **argv)
{
    crash_plan plan = {.kills = 10000, .seed = (uint64_t)time(NULL)};
    for (int i = 1; i + 1 < argc; i += 2) {
        char *end;
        unsigned long long number = strtoull(argv[i + 1], &end, 10);
        if (*end || end == argv[i + 1]) return refuse("that is no number");
        if (strcmp(argv[i], "--kills") == 0)
            plan.kills = (unsigned)number;
        else if (strcmp(argv[i], "--seed") == 0)
            plan.seed = number;
        else
            return refuse("unknown option");
    }
    if (argc % 2 == 0) return refuse("an option without its value");
    if (plan.kills < 100 || plan.kills > 10000000) return refuse("100 to 10,000,000 kills");
    char folder[300];
    const char *place = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%.250s/etcdlock-fence-XXXXXX", place ? place : "/tmp");
    if (!mkdtemp(folder)) return refuse("no folder for the stores");
    plan.folder = folder;
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    crash_report report;
    bool kept = crash_run(&plan, &report);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    print(&plan, &report,
          (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9);
    rmdir(folder);
    return kept ? 0 : 1;
}
