#include "support/oracle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- writing the history
 * ----------------------------------------------------------------------------------- */

static void must(bool good, const char *what)
{
    if (good) return;
    perror(what);
    abort();
}

int64_t oracle_now_ns(void)
{
    struct timespec now;
    /* Not through the library, where the preloaded clock may lie. */
    must(syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now) == 0, "oracle: clock");
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void oracle_open(oracle *o, const char *path)
{
    o->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    must(o->fd >= 0, path);
}

void oracle_close(oracle *o)
{
    must(close(o->fd) == 0, "oracle: close");
    o->fd = -1;
}

void oracle_append(const oracle *o, const oracle_record *record)
{
    ssize_t n = write(o->fd, record, sizeof *record);
    must(n == (ssize_t)sizeof *record, "oracle: write");
}

static oracle_record record_of(const char *name, oracle_event event, uint64_t token)
{
    oracle_record record = {.event = event, .pid = (int32_t)getpid(), .token = token};
    errno = ENAMETOOLONG;
    must(strlen(name) < sizeof record.name, name);
    strcpy(record.name, name);
    record.tid = (int32_t)syscall(SYS_gettid);
    record.at_ns = oracle_now_ns();
    return record;
}

static void tell(const oracle *o, const char *name, oracle_event event, uint64_t token,
                 int64_t valid_until_ns, bool shared)
{
    oracle_record record = record_of(name, event, token);
    record.valid_until_ns = valid_until_ns;
    record.shared = shared;
    oracle_append(o, &record);
}

void oracle_enter(const oracle *o, const char *name, uint64_t token, int64_t valid_until_ns)
{
    tell(o, name, ORACLE_ENTER, token, valid_until_ns, false);
}

void oracle_enter_shared(const oracle *o, const char *name, uint64_t token, int64_t valid_until_ns)
{
    tell(o, name, ORACLE_ENTER, token, valid_until_ns, true);
}

void oracle_still(const oracle *o, const char *name, uint64_t token, int64_t valid_until_ns)
{
    tell(o, name, ORACLE_STILL, token, valid_until_ns, false);
}

void oracle_leave(const oracle *o, const char *name, uint64_t token, int64_t valid_until_ns, bool lost)
{
    tell(o, name, lost ? ORACLE_LOSS : ORACLE_UNLOCK, token, valid_until_ns, false);
}

void oracle_wrote(const oracle *o, const char *name, uint64_t token, int64_t order)
{
    oracle_record record = record_of(name, ORACLE_WRITE, token);
    record.order = order;
    oracle_append(o, &record);
}

void oracle_killed(const oracle *o, pid_t pid)
{
    oracle_record record = record_of("", ORACLE_KILLED, 0);
    record.pid = (int32_t)pid;
    oracle_append(o, &record);
}

/* ---- judging it
 * -------------------------------------------------------------------------------------------- */

/* One stay in a lock: its ENTER record, and when it was over. */
typedef struct hold {
    const oracle_record *enter;
    int64_t end_ns;
} hold;

typedef struct history {
    oracle_record *records;
    size_t n;
    const oracle_record *
        *sorted; /* the records of holds, by lock and token; then of writes, by lock and order */
    hold *holds;
    oracle_verdict *verdict;
} history;

static bool breach(const history *h, const char *rule, const oracle_record *one, const oracle_record *other)
{
    size_t used =
        (size_t)snprintf(h->verdict->breach, sizeof h->verdict->breach,
                         "%s: lock %s, token %llu, process %d/%d, event %d at %lld ns, valid until %lld ns",
                         rule, one->name, (unsigned long long)one->token, (int)one->pid, (int)one->tid,
                         (int)one->event, (long long)one->at_ns, (long long)one->valid_until_ns);
    if (other && used < sizeof h->verdict->breach)
        snprintf(h->verdict->breach + used, sizeof h->verdict->breach - used,
                 "; before it: token %llu, process %d/%d, event %d at %lld ns, order %lld, not %lld",
                 (unsigned long long)other->token, (int)other->pid, (int)other->tid, (int)other->event,
                 (long long)other->at_ns, (long long)other->order, (long long)one->order);
    return false;
}

static int compare(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

/* Records of one hold stand together, in the order in which they were written. */
static int by_hold(const void *a, const void *b)
{
    const oracle_record *x = *(const oracle_record *const *)a, *y = *(const oracle_record *const *)b;
    int order = strcmp(x->name, y->name);
    if (order == 0 && x->token != y->token) order = x->token < y->token ? -1 : 1;
    if (order == 0) order = x < y ? -1 : x > y;
    return order;
}

static int by_store(const void *a, const void *b)
{
    const oracle_record *x = *(const oracle_record *const *)a, *y = *(const oracle_record *const *)b;
    int order = strcmp(x->name, y->name);
    if (order == 0) order = compare(x->order, y->order);
    return order;
}

static int by_entry(const void *a, const void *b)
{
    const hold *x = a, *y = b;
    int order = strcmp(x->enter->name, y->enter->name);
    if (order == 0) order = compare(x->enter->at_ns, y->enter->at_ns);
    if (order == 0) order = x->enter->token < y->enter->token ? -1 : x->enter->token > y->enter->token;
    return order;
}

static int64_t death_ns(const history *h, const oracle_record *enter)
{
    for (size_t i = 0; i < h->n; i++) {
        const oracle_record *r = &h->records[i];
        if (r->event == ORACLE_KILLED && r->pid == enter->pid && r->at_ns >= enter->at_ns) return r->at_ns;
    }
    return INT64_MAX;
}

/* Each group of records with one lock and token must be an ENTER and what follows it. */
static bool gather_holds(history *h, size_t n)
{
    const oracle_record *last = NULL;
    hold *current = NULL;
    bool left = false;
    for (size_t i = 0; i < n; i++) {
        const oracle_record *r = h->sorted[i];
        bool same = last && strcmp(last->name, r->name) == 0 && last->token == r->token;
        last = r;
        if (r->event == ORACLE_ENTER) {
            if (same) return breach(h, "a token was given twice", r, current ? current->enter : NULL);
            current = &h->holds[h->verdict->holds++];
            current->enter = r;
            current->end_ns = r->valid_until_ns;
            left = false;
            continue;
        }
        if (!same || !current) return breach(h, "left or held without having entered", r, NULL);
        if (left) return breach(h, "held after having left", r, current->enter);
        if (r->pid != current->enter->pid) return breach(h, "left by another process", r, current->enter);
        current->end_ns = r->valid_until_ns;
        if (r->event == ORACLE_STILL) continue;
        left = true;
        if (r->event == ORACLE_LOSS) h->verdict->losses++;
        if (r->at_ns < current->end_ns) current->end_ns = r->at_ns;
    }
    if (h->verdict->kills > 0) {
        for (size_t i = 0; i < h->verdict->holds; i++) {
            int64_t dead_ns = death_ns(h, h->holds[i].enter);
            if (dead_ns < h->holds[i].end_ns) h->holds[i].end_ns = dead_ns;
        }
    }
    return true;
}

/* The latest of the earlier holds of one lock, by end and by token; of all and of those who do not share. */
typedef struct earlier {
    const hold *last_end, *last_token;
} earlier;

static void remember(earlier *e, const hold *held)
{
    if (!e->last_end || held->end_ns > e->last_end->end_ns) e->last_end = held;
    if (!e->last_token || held->enter->token > e->last_token->enter->token) e->last_token = held;
}

static bool judge_holds(history *h)
{
    earlier all = {0}, alone = {0};
    const char *name = NULL;
    qsort(h->holds, h->verdict->holds, sizeof *h->holds, by_entry);
    for (size_t i = 0; i < h->verdict->holds; i++) {
        const hold *now = &h->holds[i];
        if (!name || strcmp(name, now->enter->name) != 0) {
            all = alone = (earlier){0};
            name = now->enter->name;
        }
        /* Who was stopped between the grant and the record knows himself that he holds nothing any more. */
        if (now->enter->at_ns >= now->end_ns) {
            h->verdict->stale++;
            continue;
        }
        const earlier *against = now->enter->shared ? &alone : &all;
        if (against->last_end && against->last_end->end_ns > now->enter->at_ns)
            return breach(h, "two holders at once", now->enter, against->last_end->enter);
        if (against->last_token && against->last_token->enter->token >= now->enter->token)
            return breach(h, "a token not greater than one before", now->enter, against->last_token->enter);
        remember(&all, now);
        if (!now->enter->shared) remember(&alone, now);
    }
    return true;
}

static bool judge_writes(const history *h, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const oracle_record *now = h->sorted[i], *before = h->sorted[i - 1];
        if (strcmp(now->name, before->name) != 0) continue;
        if (now->order == before->order) return breach(h, "two writes in one place", now, before);
        if (now->token < before->token) return breach(h, "a stale write was accepted", now, before);
    }
    return true;
}

static size_t pick(const history *h, bool writes)
{
    size_t n = 0;
    for (size_t i = 0; i < h->n; i++) {
        int event = h->records[i].event;
        bool wanted = writes ? event == ORACLE_WRITE : event >= ORACLE_ENTER && event <= ORACLE_LOSS;
        if (wanted) h->sorted[n++] = &h->records[i];
    }
    return n;
}

static bool judge(history *h)
{
    for (size_t i = 0; i < h->n; i++) {
        oracle_record *r = &h->records[i];
        if (!memchr(r->name, 0, sizeof r->name) || r->event < ORACLE_ENTER || r->event > ORACLE_KILLED) {
            r->name[sizeof r->name - 1] = '\0';
            return breach(h, "a record makes no sense", r, NULL);
        }
        if (r->event == ORACLE_KILLED) h->verdict->kills++;
        if (r->event == ORACLE_WRITE) h->verdict->writes++;
    }
    size_t n = pick(h, false);
    qsort(h->sorted, n, sizeof(oracle_record *), by_hold);
    if (!gather_holds(h, n) || !judge_holds(h)) return false;
    n = pick(h, true);
    qsort(h->sorted, n, sizeof(oracle_record *), by_store);
    return judge_writes(h, n);
}

/* Reads all of it; false if it is no whole number of records. */
static bool read_history(history *h, const char *path)
{
    struct stat status;
    FILE *file = fopen(path, "rbe");
    must(file && fstat(fileno(file), &status) == 0, path);
    size_t size = (size_t)status.st_size;
    h->n = size / sizeof *h->records;
    h->records = malloc(size + 1);
    must(h->records && fread(h->records, 1, size, file) == size, path);
    fclose(file);
    return size % sizeof *h->records == 0;
}

bool oracle_judge(const char *path, oracle_verdict *verdict)
{
    history h = {.verdict = verdict};
    memset(verdict, 0, sizeof *verdict);
    bool good = read_history(&h, path);
    if (!good) snprintf(verdict->breach, sizeof verdict->breach, "a torn record");
    h.sorted = calloc(h.n + 1, sizeof(oracle_record *));
    h.holds = calloc(h.n + 1, sizeof *h.holds);
    must(h.sorted && h.holds, "oracle: calloc");
    good = good && judge(&h);
    free(h.holds);
    free(h.sorted);
    free(h.records);
    return good;
}
