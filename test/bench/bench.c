/* Measures the library against its peers and writes the list of results; scripts/bench.sh starts the servers
 * and then this.
 *
 *     bench run FOLDER CLUSTER_SCRIPT MEMBERS ROUNDS SECONDS RESULTS [CASE,CASE...]
 *     bench table|markdown RESULTS
 *
 * FOLDER has the workers. ETCDLOCK_TEST_ENDPOINTS names etcd, BENCH_REDIS and BENCH_ZOOKEEPER the other
 * servers, BENCH_GO the worker in Go; what is not named is left out. RESULTS is gone on with if it is there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/cases.h"
#include "bench/ledger.h"

static void set_party(bench *b, party who, const char *program, const char *endpoints)
{
    size_t room = sizeof b->parties[who].program;
    if (strchr(program, '/'))
        snprintf(b->parties[who].program, room, "%s", program);
    else
        snprintf(b->parties[who].program, room, "%s/%s", b->folder, program);
    if (access(b->parties[who].program, X_OK) != 0) b->parties[who].program[0] = '\0';
    b->parties[who].endpoints = endpoints && *endpoints ? endpoints : NULL;
}

static int run(char **words)
{
    const char *go = getenv("BENCH_GO"), *results = words[5];
    bench b = {.folder = words[0], .cluster = words[1], .members = atoi(words[2])};
    b.rounds = atoi(words[3]);
    b.seconds = atof(words[4]);
    b.endpoints = getenv("ETCDLOCK_TEST_ENDPOINTS");
    if (!b.endpoints || b.rounds < 1 || b.seconds < 0.1 || (b.members != 1 && b.members != 3)) {
        fprintf(stderr, "bench: ROUNDS takes a number from 1, SECONDS_EACH from 0.1, MEMBERS 1 or 3\n");
        return 2;
    }
    set_party(&b, PARTY_OURS, "ours", b.endpoints);
    set_party(&b, PARTY_FLOOR, "floor", b.endpoints);
    set_party(&b, PARTY_GO, go && *go ? go : "no-go", b.endpoints);
    set_party(&b, PARTY_REDLOCK, "redlock", getenv("BENCH_REDIS"));
    set_party(&b, PARTY_ZOOKEEPER, "zookeeper", getenv("BENCH_ZOOKEEPER"));
    ledger_open(results, access(results, F_OK) == 0);
    if (!cases_run(&b, words[6])) return 2;
    if (b.failures > 0)
        fprintf(stderr, "bench: %d slices had trouble; their figures are not worth much\n", b.failures);
    return b.failures > 0;
}

int main(int argc, char **argv)
{
    if ((argc == 8 || argc == 9) && strcmp(argv[1], "run") == 0) return run(argv + 2);
    if (argc == 3 && strcmp(argv[1], "table") == 0) {
        ledger_print(argv[2]);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "markdown") == 0) {
        ledger_print_markdown(argv[2]);
        return 0;
    }
    fprintf(stderr, "bench: started by scripts/bench.sh\n");
    return 2;
}
