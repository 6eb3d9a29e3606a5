/* A worker on a table of jobs. A job is claimed by taking its lock in etcd, "jobs/ID": nothing is written to
 * the table for that, so the claim of a worker that dies ends with its session, and another does the job. The
 * payment goes to the database with the token of the lock, in one transaction with the guard's check of it.
 *
 * One line on stdout for each thing that happens: locked, claimed, done, refused, lost. */
#include <errno.h>
#include <etcdlock.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "job_table.h"

enum { EXIT_USAGE = 2, MOST_FAILURES_IN_A_ROW = 6, WAIT_MS = 1000, ENSURE_MS = 200 };

typedef struct worker {
    const char *name;
    const char *database;
    int64_t fill;
    int64_t ttl_s;
    int64_t work_ms;
    int64_t stop_at;     /* stops itself before this payment, counted from 1; 0: never */
    int64_t stop_within; /* the same, but in the middle of its transaction */
    bool is_guarded;
    int64_t payments; /* begun so far */
    job_table *table;
    etcdlock_client *client;
    etcdlock_session *session;
} worker;

static void tell(const char *what, int error)
{
    const char *why = etcdlock_error_message();
    if (error == ESTALE) why = "the guard refuses the holder: it has seen a higher token; was etcd restored?";
    fprintf(stderr, "jobs: %s: %s: %s\n", what, etcdlock_strerror(error), why);
}

static void work_for(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

/* A lost session is over for ever; the next claim needs a new one. */
static int open_session(worker *self)
{
    etcdlock_session_options options = ETCDLOCK_SESSION_OPTIONS_INIT;
    options.ttl_s = self->ttl_s;
    options.label = self->name;
    (void)etcdlock_session_close(self->session); /* says that it was lost, which we know */
    self->session = NULL;
    return etcdlock_session_open(&self->session, self->client, &options);
}

/* The payment, at the end of the work. ensure() is the last question that can be asked before it, and a
 * process may be stopped right after the answer: from there on the guard in the database alone keeps a former
 * holder out. --stop-at stops the process in that place. */
static int finish(worker *self, etcdlock_mutex *mutex, hold *under, const job *what)
{
    int error = etcdlock_mutex_ensure(mutex, ENSURE_MS);
    if (error) return error;
    self->payments++;
    if (self->payments == self->stop_at) (void)raise(SIGSTOP);
    under->stops = self->payments == self->stop_within;
    error = table_finish(self->table, under, what, self->name);
    if (error == 0 || error == ESTALE) {
        printf("job %" PRId64 " %s, token %" PRIu64 "\n", what->id, error ? "refused" : "done", under->token);
    }
    return error;
}

static int do_locked(worker *self, etcdlock_mutex *mutex, const char *lock, int64_t id)
{
    job what;
    hold under = {.lock = lock, .token = etcdlock_mutex_token(mutex), .is_guarded = self->is_guarded};
    printf("job %" PRId64 " locked, token %" PRIu64 "\n", id, under.token);
    int error = table_claim(self->table, &under, id, &what);
    if (error || !what.is_open) return error; /* not open: somebody did it as we came */
    printf("job %" PRId64 " claimed, token %" PRIu64 "\n", id, under.token);
    work_for(self->work_ms);
    return finish(self, mutex, &under, &what);
}

/* Does a job, if its lock can be had within so long. EBUSY, ETIMEDOUT: another worker has it. */
static int do_job(worker *self, int64_t id, int64_t wait_ms)
{
    char lock[40];
    etcdlock_mutex *mutex;
    snprintf(lock, sizeof lock, "jobs/%" PRId64, id);
    int error = etcdlock_mutex_new(&mutex, self->session, lock, NULL);
    if (error) return error;
    error = wait_ms ? etcdlock_mutex_lock_for(mutex, wait_ms) : etcdlock_mutex_trylock(mutex);
    if (!error) {
        error = do_locked(self, mutex, lock, id);
        int unlock_error = etcdlock_mutex_unlock(mutex);
        if (unlock_error == ETCDLOCK_ESESSION || unlock_error == ETCDLOCK_EENTRY)
            printf("job %" PRId64 " lost\n", id);
        if (!error || (error == ESTALE && unlock_error)) error = unlock_error; /* a loss explains a refusal */
    }
    (void)etcdlock_mutex_destroy(mutex);
    return error;
}

/* Does what jobs can be had. If others have all that are open, waits for the first of those: a worker may die
 * at its job. *is_over: none was open. */
static int go_through(worker *self, bool *is_over)
{
    int64_t id = 0;
    int64_t first_busy = 0;
    bool has_worked = false;
    *is_over = true;
    for (;;) {
        int error = table_next(self->table, id, &id);
        if (error) return error;
        if (id == 0) break;
        *is_over = false;
        error = do_job(self, id, 0);
        if (error && error != EBUSY) return error;
        if (error && !first_busy) first_busy = id;
        if (!error) has_worked = true;
    }
    if (has_worked || !first_busy) return 0;
    int error = do_job(self, first_busy, WAIT_MS);
    return error == ETIMEDOUT ? 0 : error;
}

/* What passes by itself, or with a new session; anything else is for a person to look at: also ESTALE, when
 * the guard refuses one who does hold the lock, as after etcd was restored from an old snapshot. */
static bool may_pass(int error)
{
    return error == ETCDLOCK_ESESSION || error == ETCDLOCK_EENTRY || error == ETCDLOCK_EUNKNOWN ||
           error == ETCDLOCK_EUNREACHABLE || error == ETIMEDOUT || error == ECONNABORTED;
}

static int run(worker *self)
{
    int failures = 0;
    bool is_over = false;
    while (!is_over) {
        int error = 0;
        if (!self->session || etcdlock_session_get_state(self->session) == ETCDLOCK_SESSION_LOST)
            error = open_session(self);
        if (!error) error = go_through(self, &is_over);
        if (error) {
            is_over = false;
            if (error != EIO && error != ECONNABORTED) tell("this round failed", error);
            if (!may_pass(error) || ++failures == MOST_FAILURES_IN_A_ROW) return error;
        } else {
            failures = 0;
        }
    }
    return 0;
}

/* ---- the command line ---- */

static const char usage[] =
    "usage: jobs DATABASE --fill N\n"
    "       jobs DATABASE [OPTION]...\n"
    "the first makes N open jobs, the second does open jobs until none is left, along with others\n"
    "\n"
    "  --name NAME     what this worker is called (default: its process id)\n"
    "  --ttl S         time to live of the session, 1 to 3600 s (default 10)\n"
    "  --work-ms MS    how long the work on a job takes (default 200), at most half the time to live\n"
    "  --stop-at N     stops itself (SIGSTOP) before its payment number N; continue it with kill -CONT\n"
    "  --stop-within N stops itself in the middle of the transaction of its payment number N\n"
    "  --no-guard      pays without asking the guard, to show what happens then\n"
    "  --help          this text\n"
    "\n"
    "The etcd cluster is taken from the environment, as for etcdctl: ETCDCTL_ENDPOINTS and so on.\n"
    "Exit status: 0 no open job is left, 1 trouble with etcd or the database, 2 wrong arguments.\n";

static _Noreturn void refuse(const char *what, const char *text)
{
    fprintf(stderr, "jobs: %s%s; --help says more\n", what, text);
    exit(EXIT_USAGE);
}

static int64_t number(const char *option, const char *text, int64_t most)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < 0 || value > most) {
        fprintf(stderr, "jobs: %s takes a number from 0 to %" PRId64 ", not %s\n", option, most, text);
        exit(EXIT_USAGE);
    }
    return value;
}

static void parse(worker *self, int argc, char **argv)
{
    static const struct option options[] = {
        {"fill", required_argument, NULL, 'f'},
        {"name", required_argument, NULL, 'n'},
        {"ttl", required_argument, NULL, 't'},
        {"work-ms", required_argument, NULL, 'w'},
        {"stop-at", required_argument, NULL, 's'},
        {"stop-within", required_argument, NULL, 'i'},
        {"no-guard", no_argument, NULL, 'g'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'f':
            self->fill = number("--fill", optarg, 1000000);
            break;
        case 'n':
            self->name = optarg;
            break;
        case 't':
            self->ttl_s = number("--ttl", optarg, 3600);
            break;
        case 'w':
            self->work_ms = number("--work-ms", optarg, 1800000);
            break;
        case 's':
            self->stop_at = number("--stop-at", optarg, INT64_MAX);
            break;
        case 'i':
            self->stop_within = number("--stop-within", optarg, INT64_MAX);
            break;
        case 'g':
            self->is_guarded = false;
            break;
        case 'h':
            printf("%s\nDATABASE: %s\n", usage, table_argument);
            exit(EXIT_SUCCESS);
        default:
            fputs("jobs: --help lists the options\n", stderr);
            exit(EXIT_USAGE);
        }
    }
    if (optind == argc) refuse("DATABASE", " is missing");
    if (optind + 1 < argc) refuse("unexpected argument ", argv[optind + 1]);
    if (self->ttl_s < 1) refuse("--ttl", " is at least 1");
    if (self->work_ms > self->ttl_s * 500) refuse("--work-ms", " is more than half of --ttl");
    self->database = argv[optind];
}

int main(int argc, char **argv)
{
    char pid[24];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    worker self = {.name = pid, .ttl_s = 10, .work_ms = 200, .is_guarded = true};
    parse(&self, argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line is read as it happens, also through a pipe */

    int error = table_open(&self.table, self.database);
    if (!error && self.fill) {
        error = table_fill(self.table, self.fill);
    } else if (!error) {
        error = etcdlock_client_open(&self.client, NULL);
        if (error) tell("client", error);
        if (!error) error = run(&self);
        (void)etcdlock_session_close(self.session);
        (void)etcdlock_client_close(self.client);
    }
    table_close(self.table);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
