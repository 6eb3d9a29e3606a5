/* The demo's account: reads the journal of the workers (see worker.c), judges whether every promise was kept,
 * and prints who held the lock when, how long they waited and what became of the killed and the frozen one,
 * as one JSON object. account_text.c makes it readable for people.
 *
 *     account --ttl S --file FILE JOURNAL
 *
 * scripts/demo.sh adds its own deeds to the journal, in the same form: started (counter: the worker's
 * number), killed, frozen, resumed, failed (counter: the exit status), leader-stopped and leader-back (pid:
 * the member). */
#include <cjson/cJSON.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORKERS = 32, MOST_CHECKS = 16, SLACK_MS = 2000, EXIT_USAGE = 2 };

typedef struct event {
    int64_t ms; /* since the first event */
    int pid;
    char name[16];
    int64_t token; /* revisions of a fresh cluster: small enough for JSON's numbers */
    int64_t counter;
} event;

/* One stay under the lock. */
typedef struct hold {
    int worker; /* its number, from 1 */
    int64_t token;
    int64_t waited_ms;
    int64_t from_ms;
    int64_t to_ms;   /* of the event that ended its work */
    const char *end; /* name of that event: written, refused, killed ...; "" if there is none */
} hold;

typedef struct check {
    const char *what;
    bool is_ok;
    char detail[200];
} check;

/* A holder that stopped answering, and the one who came after it. */
typedef struct takeover {
    const event *fault; /* NULL: never happened */
    const hold *next;   /* NULL: nobody took over */
    int64_t after_ms;
} takeover;

static struct {
    event *events;
    size_t event_count;
    hold *holds;
    size_t hold_count;
    int pids[MOST_WORKERS + 1]; /* by number */
    int workers;
    int64_t ttl_ms;
    int64_t counter; /* in the file, at the end */
    int64_t span_ms;
    takeover kill;
    takeover freeze;
    const event *refused;
    const event *leader_stopped;
    int64_t leader_pause_ms; /* the longest time without a new holder after the leader was stopped */
    check checks[MOST_CHECKS];
    size_t check_count;
} all;

static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "account: %s: %s\n", what, why);
    exit(EXIT_USAGE);
}

/* ---- reading ---- */

static bool parse_event(const char *line, event *out)
{
    cJSON *json = cJSON_Parse(line);
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(json, "event");
    const char *const keys[] = {"ms", "pid", "token", "counter"};
    int64_t values[4];
    bool is_ok = cJSON_IsString(name);
    for (int i = 0; i < 4 && is_ok; i++) {
        const cJSON *number = cJSON_GetObjectItemCaseSensitive(json, keys[i]);
        is_ok = cJSON_IsNumber(number);
        if (is_ok) values[i] = (int64_t)number->valuedouble;
    }
    if (is_ok) {
        *out = (event){.ms = values[0], .pid = (int)values[1], .token = values[2], .counter = values[3]};
        snprintf(out->name, sizeof out->name, "%s", name->valuestring);
    }
    cJSON_Delete(json);
    return is_ok;
}

static bool is(const event *it, const char *name)
{
    return strcmp(it->name, name) == 0;
}

static void read_journal(const char *path)
{
    char line[512];
    size_t room = 0;
    FILE *stream = fopen(path, "r");
    if (!stream) give_up(path, strerror(errno));
    while (fgets(line, sizeof line, stream)) {
        if (all.event_count == room) {
            room = room ? room * 2 : 256;
            event *grown = realloc(all.events, room * sizeof *grown);
            if (!grown) give_up(path, "out of memory");
            all.events = grown;
        }
        if (!parse_event(line, &all.events[all.event_count++])) give_up(path, "has a line that is no event");
    }
    fclose(stream);
    if (all.event_count == 0) give_up(path, "is empty");
    int64_t first_ms = all.events[0].ms;
    for (size_t i = 0; i < all.event_count; i++) {
        event *it = &all.events[i];
        it->ms = it->ms > first_ms ? it->ms - first_ms : 0;
        if (it->ms > all.span_ms) all.span_ms = it->ms;
        if (!is(it, "started")) continue;
        if (it->counter < 1 || it->counter > MOST_WORKERS)
            give_up(path, "has a worker's number out of range");
        all.pids[it->counter] = it->pid;
        if (it->counter > all.workers) all.workers = (int)it->counter;
    }
}

static void read_counter(const char *path)
{
    FILE *stream = fopen(path, "r");
    if (!stream) give_up(path, strerror(errno));
    if (fscanf(stream, "%" SCNd64, &all.counter) != 1) give_up(path, "has no counter");
    fclose(stream);
}

/* ---- what it means ---- */

static int worker_of(int pid)
{
    for (int i = 1; i <= all.workers; i++) {
        if (all.pids[i] == pid) return i;
    }
    return 0;
}

/* The first event of that name from there on; pid 0: of any worker. */
static const event *find(size_t from, const char *name, int pid)
{
    for (size_t i = from; i < all.event_count; i++) {
        if (is(&all.events[i], name) && (pid == 0 || all.events[i].pid == pid)) return &all.events[i];
    }
    return NULL;
}

static bool is_lost(const hold *it)
{
    for (size_t i = 0; i < all.event_count; i++) {
        if (is(&all.events[i], "lost") && all.events[i].token == it->token) return true;
    }
    return false;
}

static int64_t count(const char *name)
{
    int64_t found = 0;
    for (size_t i = 0; i < all.event_count; i++)
        found += is(&all.events[i], name);
    return found;
}

/* Work ends where the worker's own journal says so, or where it was killed; it was only paused where frozen.
 */
static void end_hold(hold *it, size_t from)
{
    static const char *const ends[] = {"written", "refused", "released", "lost", "killed", "failed"};
    for (size_t i = from; i < all.event_count; i++) {
        for (size_t k = 0; k < sizeof ends / sizeof *ends && all.events[i].pid == all.pids[it->worker]; k++) {
            if (!is(&all.events[i], ends[k])) continue;
            it->end = ends[k];
            it->to_ms = all.events[i].ms;
            return;
        }
    }
}

static void find_holds(void)
{
    all.holds = calloc(all.event_count, sizeof *all.holds);
    if (!all.holds) give_up("journal", "out of memory");
    for (size_t i = 0; i < all.event_count; i++) {
        const event *it = &all.events[i];
        if (!is(it, "held")) continue;
        hold *made = &all.holds[all.hold_count++];
        *made = (hold){.worker = worker_of(it->pid),
                       .token = it->token,
                       .from_ms = it->ms,
                       .to_ms = all.span_ms,
                       .end = ""};
        for (size_t k = i; k-- > 0;) {
            if (all.events[k].pid != it->pid || !is(&all.events[k], "waiting")) continue;
            made->waited_ms = it->ms - all.events[k].ms;
            break;
        }
        end_hold(made, i);
    }
}

static takeover find_takeover(const char *name)
{
    takeover found = {.fault = find(0, name, 0)};
    for (size_t i = 0; found.fault && i < all.hold_count && !found.next; i++) {
        if (all.holds[i].token > found.fault->token) found.next = &all.holds[i];
    }
    if (found.next) found.after_ms = found.next->from_ms - found.fault->ms;
    return found;
}

static void find_leader_pause(void)
{
    all.leader_stopped = find(0, "leader-stopped", 0);
    const event *back = find(0, "leader-back", 0);
    if (!all.leader_stopped || !back) return;
    int64_t last_ms = all.leader_stopped->ms;
    for (size_t i = 0; i < all.hold_count && last_ms < back->ms; i++) {
        int64_t ms = all.holds[i].from_ms;
        if (ms <= last_ms) continue;
        if (ms - last_ms > all.leader_pause_ms) all.leader_pause_ms = ms - last_ms;
        last_ms = ms;
    }
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static void waiting_times(int64_t *median_ms, int64_t *longest_ms)
{
    int64_t *waits = calloc(all.hold_count + 1, sizeof *waits);
    if (!waits) give_up("journal", "out of memory");
    for (size_t i = 0; i < all.hold_count; i++)
        waits[i] = all.holds[i].waited_ms;
    qsort(waits, all.hold_count, sizeof *waits, compare);
    *median_ms = waits[all.hold_count / 2];
    *longest_ms = all.hold_count ? waits[all.hold_count - 1] : 0;
    free(waits);
}

/* ---- the checks ---- */

__attribute__((format(printf, 3, 4))) static void say(const char *what, bool is_ok, const char *detail, ...)
{
    check *made = &all.checks[all.check_count++];
    va_list arguments;
    *made = (check){.what = what, .is_ok = is_ok};
    va_start(arguments, detail);
    vsnprintf(made->detail, sizeof made->detail, detail, arguments);
    va_end(arguments);
}

/* A hold that the library reported as lost is left out: that others come in then is right. The frozen
 * worker's is one. */
static void check_exclusion(void)
{
    const hold *last = NULL;
    int64_t overlaps = 0;
    int64_t falls = 0;
    for (size_t i = 0; i < all.hold_count; i++) {
        const hold *it = &all.holds[i];
        if (i > 0 && it->token <= all.holds[i - 1].token) falls++;
        if (last && it->from_ms < last->to_ms) overlaps++;
        if (!is_lost(it)) last = it;
    }
    say("one holder at a time", overlaps == 0 && all.hold_count > 0, "%zu holds, %" PRId64 " overlap",
        all.hold_count, overlaps);
    say("tokens rise strictly", falls == 0 && all.hold_count > 1,
        "%" PRId64 " to %" PRId64 ", %" PRId64 " do not rise", all.hold_count ? all.holds[0].token : 0,
        all.hold_count ? all.holds[all.hold_count - 1].token : 0, falls);
}

static void check_counter(void)
{
    int64_t expected = count("written");
    int64_t last = 0;
    int64_t gaps = 0;
    for (size_t i = 0; i < all.event_count; i++) {
        if (!is(&all.events[i], "written")) continue;
        gaps += all.events[i].counter != last + 1;
        last = all.events[i].counter;
    }
    say("the counter is what was written", all.counter == expected && gaps == 0 && expected > 0,
        "%" PRId64 " in the file, %" PRId64 " successful writes, %" PRId64 " out of order", all.counter,
        expected, gaps);
}

/* An entry goes with its lease, at the latest a TTL after the last renewal; should etcd elect a new leader
 * just then, that one starts each lease's time anew. */
static void check_takeover(const char *what, const takeover *it)
{
    int64_t limit_ms = 2 * all.ttl_ms + SLACK_MS;
    if (!it->next) {
        say(what, false, "%s", it->fault ? "nobody took over" : "it never came to that");
        return;
    }
    say(what, it->next->worker != worker_of(it->fault->pid) && it->after_ms <= limit_ms,
        "worker %d after %" PRId64 " ms; TTL %" PRId64 " ms, limit %" PRId64 " ms", it->next->worker,
        it->after_ms, all.ttl_ms, limit_ms);
}

static void check_fencing(void)
{
    const event *fault = all.freeze.fault;
    if (!fault) return; /* check_takeover has said so */
    const event *refused = all.refused;
    const event *lost = find((size_t)(fault - all.events), "lost", fault->pid);
    const event *again = lost ? find((size_t)(lost - all.events), "held", fault->pid) : NULL;
    say("the frozen worker's write was refused",
        refused && refused->pid == fault->pid && refused->token == fault->token,
        "%" PRId64 " refused; its token %" PRId64 ", the next one's %" PRId64, count("refused"), fault->token,
        all.freeze.next ? all.freeze.next->token : 0);
    say("it was told of its loss and went on", lost && lost->token == fault->token && again,
        "lost %s, held again %s", lost ? "told" : "not told", again ? "with a new session" : "never");
}

static void check_the_end(void)
{
    int finished = 0;
    int lasting = 0;
    for (int i = 1; i <= all.workers; i++) {
        if (find(0, "killed", all.pids[i])) continue;
        lasting++;
        finished += find(0, "done", all.pids[i]) && !find(0, "failed", all.pids[i]);
    }
    const event *back = find(0, "leader-back", 0);
    say("the lock outlives the etcd leader",
        all.leader_stopped && back && find((size_t)(back - all.events), "held", 0),
        "longest pause between two holders %" PRId64 " ms", all.leader_pause_ms);
    say("all others finish", lasting > 0 && finished == lasting, "%d of %d workers", finished, lasting);
}

static bool check_all(void)
{
    bool is_ok = true;
    all.kill = find_takeover("killed");
    all.freeze = find_takeover("frozen");
    all.refused = find(0, "refused", 0);
    find_leader_pause();
    check_exclusion();
    check_counter();
    check_takeover("another takes over from the killed", &all.kill);
    check_takeover("another takes over from the frozen", &all.freeze);
    check_fencing();
    check_the_end();
    for (size_t i = 0; i < all.check_count; i++)
        is_ok = is_ok && all.checks[i].is_ok;
    return is_ok;
}

/* ---- as JSON ---- */

static void put(cJSON *object, const char *key, int64_t value)
{
    cJSON_AddNumberToObject(object, key, (double)value);
}

static void put_takeover(cJSON *root, const char *key, const takeover *it)
{
    if (!it->fault) return;
    cJSON *object = cJSON_AddObjectToObject(root, key);
    put(object, "worker", worker_of(it->fault->pid));
    put(object, "token", it->fault->token);
    put(object, "at_ms", it->fault->ms);
    if (!it->next) return;
    put(object, "next_worker", it->next->worker);
    put(object, "next_token", it->next->token);
    put(object, "takeover_ms", it->after_ms);
}

static void put_incidents(cJSON *root)
{
    const event *resumed = find(0, "resumed", 0);
    const event *back = find(0, "leader-back", 0);
    put_takeover(root, "killed", &all.kill);
    put_takeover(root, "frozen", &all.freeze);
    if (resumed && all.freeze.fault) {
        put(cJSON_GetObjectItemCaseSensitive(root, "frozen"), "resumed_ms", resumed->ms);
    }
    if (all.refused) {
        cJSON *object = cJSON_AddObjectToObject(root, "refused");
        put(object, "worker", worker_of(all.refused->pid));
        put(object, "token", all.refused->token);
        put(object, "counter", all.refused->counter);
        put(object, "at_ms", all.refused->ms);
    }
    if (all.leader_stopped && back) {
        cJSON *object = cJSON_AddObjectToObject(root, "leader");
        put(object, "member", all.leader_stopped->pid);
        put(object, "stopped_ms", all.leader_stopped->ms);
        put(object, "back_ms", back->ms);
        put(object, "longest_pause_ms", all.leader_pause_ms);
    }
}

static void put_lists(cJSON *root)
{
    cJSON *checks = cJSON_AddArrayToObject(root, "checks");
    for (size_t i = 0; i < all.check_count; i++) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "what", all.checks[i].what);
        cJSON_AddBoolToObject(object, "ok", all.checks[i].is_ok);
        cJSON_AddStringToObject(object, "detail", all.checks[i].detail);
        cJSON_AddItemToArray(checks, object);
    }
    cJSON *holds = cJSON_AddArrayToObject(root, "holds");
    for (size_t i = 0; i < all.hold_count; i++) {
        const hold *it = &all.holds[i];
        cJSON *object = cJSON_CreateObject();
        put(object, "worker", it->worker);
        put(object, "token", it->token);
        put(object, "waited_ms", it->waited_ms);
        put(object, "from_ms", it->from_ms);
        put(object, "to_ms", it->to_ms);
        cJSON_AddStringToObject(object, "end", it->end);
        cJSON_AddItemToArray(holds, object);
    }
}

static void print_account(bool is_ok)
{
    int64_t median_ms;
    int64_t longest_ms;
    cJSON *root = cJSON_CreateObject();
    waiting_times(&median_ms, &longest_ms);
    cJSON_AddBoolToObject(root, "ok", is_ok);
    put(root, "ttl_ms", all.ttl_ms);
    put(root, "workers", all.workers);
    put(root, "duration_ms", all.span_ms);
    cJSON *waiting = cJSON_AddObjectToObject(root, "waiting");
    put(waiting, "times", (int64_t)all.hold_count);
    put(waiting, "median_ms", median_ms);
    put(waiting, "longest_ms", longest_ms);
    put_incidents(root);
    put(root, "lost_holds", count("lost"));
    put(root, "counter", all.counter);
    put(root, "counter_expected", count("written"));
    put_lists(root);
    char *text = cJSON_PrintUnformatted(root);
    if (!text) give_up("output", "out of memory");
    puts(text);
    cJSON_free(text);
    cJSON_Delete(root);
}

static const char usage[] = "usage: account --ttl S --file FILE JOURNAL\n"
                            "judges the journal of the demo's workers and prints the account as JSON\n\n"
                            "  --ttl S      the time to live of their sessions, in seconds\n"
                            "  --file FILE  the counter that they shared\n\n"
                            "Exit status: 0 every check holds, 1 one does not, 2 wrong arguments or input.\n";

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"ttl", required_argument, NULL, 't'},
        {"file", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    const char *file = NULL;
    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 't') all.ttl_ms = strtoll(optarg, NULL, 10) * 1000;
        if (option == 'f') file = optarg;
        if (option == 'h') return fputs(usage, stdout) < 0;
        if (option == '?') return EXIT_USAGE;
    }
    if (all.ttl_ms <= 0) give_up("--ttl", "takes the seconds of the workers' sessions; --help says more");
    if (!file || optind + 1 != argc)
        give_up("arguments", "--file FILE and one journal are needed; --help says more");
    read_journal(argv[optind]);
    read_counter(file);
    find_holds();
    bool is_ok = check_all();
    print_account(is_ok);
    free(all.holds);
    free(all.events);
    return is_ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
