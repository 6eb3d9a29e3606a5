/* The demo's account for people: reads the JSON that account.c prints from standard input and shows it as a
 * timeline, what happened, and the checks. Exit status 0 if the account says that all is well, 1 if not, 2 if
 * it cannot be read. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 96, MOST_INPUT = 1 << 20, EXIT_INPUT = 2 };

static int64_t duration_ms;

/* 0 where it is missing, as for what never happened. */
static int64_t get(const cJSON *object, const char *key)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(number) ? (int64_t)number->valuedouble : 0;
}

static const cJSON *part(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static const char *text(const cJSON *object, const char *key)
{
    const char *found = cJSON_GetStringValue(part(object, key));
    return found ? found : "";
}

/* ---- the timeline ---- */

static size_t column(int64_t ms)
{
    if (ms < 0) return 0;
    size_t found = duration_ms > 0 ? (size_t)(ms * (COLUMNS - 1) / duration_ms) : 0;
    return found < COLUMNS ? found : COLUMNS - 1;
}

static void fill(char *row, char mark, int64_t from_ms, int64_t to_ms)
{
    for (size_t i = column(from_ms); i <= column(to_ms); i++)
        row[i] = mark;
}

static void clear(char *row)
{
    memset(row, ' ', COLUMNS);
    row[COLUMNS] = '\0';
}

/* Later marks lie over earlier ones: what is rare and short comes last. */
static void print_worker(const cJSON *account, int64_t worker)
{
    char row[COLUMNS + 1];
    const cJSON *hold;
    const cJSON *killed = part(account, "killed");
    const cJSON *frozen = part(account, "frozen");
    const cJSON *refused = part(account, "refused");
    clear(row);
    cJSON_ArrayForEach(hold, part(account, "holds"))
    {
        int64_t from_ms = get(hold, "from_ms");
        if (get(hold, "worker") == worker) fill(row, '.', from_ms - get(hold, "waited_ms"), from_ms);
    }
    cJSON_ArrayForEach(hold, part(account, "holds"))
    {
        if (get(hold, "worker") == worker) fill(row, '#', get(hold, "from_ms"), get(hold, "to_ms"));
    }
    if (get(frozen, "worker") == worker) fill(row, '~', get(frozen, "at_ms"), get(frozen, "resumed_ms"));
    if (get(killed, "worker") == worker) row[column(get(killed, "at_ms"))] = 'X';
    if (get(refused, "worker") == worker) row[column(get(refused, "at_ms"))] = '!';
    printf("  worker %-2" PRId64 " %s\n", worker, row);
}

static void print_timeline(const cJSON *account)
{
    char row[COLUMNS + 1];
    const cJSON *leader = part(account, "leader");
    double seconds = (double)duration_ms / 1000;
    printf("\nWho held when, over %.1f s; a column is %.2f s\n", seconds, seconds / COLUMNS);
    for (int64_t i = 1; i <= get(account, "workers"); i++)
        print_worker(account, i);
    clear(row);
    if (leader) fill(row, '=', get(leader, "stopped_ms"), get(leader, "back_ms"));
    printf("  etcd      %s\n", row);
    printf("            # holds   . waits   X killed   ~ frozen   ! write refused   = a member of etcd is "
           "down\n");
}

/* ---- what happened, and the checks ---- */

static void print_takeover(const char *what, const cJSON *fault)
{
    if (!fault) return;
    printf("  %-9s worker %" PRId64 ", while it held with token %" PRId64 "; ", what, get(fault, "worker"),
           get(fault, "token"));
    if (part(fault, "takeover_ms")) {
        printf("worker %" PRId64 " took over %" PRId64 " ms later with token %" PRId64 "\n",
               get(fault, "next_worker"), get(fault, "takeover_ms"), get(fault, "next_token"));
    } else {
        printf("nobody took over\n");
    }
}

static void print_incidents(const cJSON *account)
{
    const cJSON *waiting = part(account, "waiting");
    const cJSON *refused = part(account, "refused");
    const cJSON *leader = part(account, "leader");
    printf("\nWhat happened\n");
    printf("  waiting   %" PRId64 " times; median %" PRId64 " ms, longest %" PRId64 " ms\n",
           get(waiting, "times"), get(waiting, "median_ms"), get(waiting, "longest_ms"));
    print_takeover("killed", part(account, "killed"));
    print_takeover("frozen", part(account, "frozen"));
    if (refused) {
        printf("  refused   worker %" PRId64
               ", resumed, went on as if it still held: its write of counter %" PRId64 " with token %" PRId64
               " was refused\n",
               get(refused, "worker"), get(refused, "counter"), get(refused, "token"));
    }
    if (leader) {
        printf("  leader    member %" PRId64 " killed, back after %" PRId64
               " ms; the longest pause between two holders was %" PRId64 " ms\n",
               get(leader, "member"), get(leader, "back_ms") - get(leader, "stopped_ms"),
               get(leader, "longest_pause_ms"));
    }
    printf("  counter   %" PRId64 ", expected %" PRId64 "\n", get(account, "counter"),
           get(account, "counter_expected"));
}

static void print_checks(const cJSON *account)
{
    const cJSON *check;
    printf("\nChecks\n");
    cJSON_ArrayForEach(check, part(account, "checks"))
    {
        printf("  %-7s %-38s %s\n", cJSON_IsTrue(part(check, "ok")) ? "ok" : "FAILED", text(check, "what"),
               text(check, "detail"));
    }
}

int main(void)
{
    char *input = calloc(1, MOST_INPUT);
    size_t size = input ? fread(input, 1, MOST_INPUT - 1, stdin) : 0;
    cJSON *account = cJSON_ParseWithLength(input ? input : "", size);
    free(input);
    if (!account) {
        fprintf(stderr, "account_text: standard input is not the JSON of `account`\n");
        return EXIT_INPUT;
    }
    duration_ms = get(account, "duration_ms");
    print_timeline(account);
    print_incidents(account);
    print_checks(account);
    bool is_ok = cJSON_IsTrue(part(account, "ok"));
    printf("\n%s\n", is_ok ? "Every promise was kept." : "A promise was BROKEN: see FAILED above.");
    cJSON_Delete(account);
    return is_ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
