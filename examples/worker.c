/* The demo's worker: takes a lock, adds one to a counter in a file that it shares with other workers, gives
 * the lock back, and so on. What happens to it goes to a journal, one JSON object per line:
 *
 *     {"ms":81234567,"pid":4711,"event":"held","token":42,"counter":0}
 *
 * ms is CLOCK_BOOTTIME, one clock for all processes of a machine. Events: waiting, held, written, refused,
 * released, lost, done. token is the fencing token of the hold, counter what was written or should have been.
 */
#include <errno.h>
#include <etcdlock.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, MOST_FAILURES_IN_A_ROW = 6 };

typedef struct worker {
    const char *name;
    const char *file;
    const char *journal;
    int64_t rounds; /* 0: until SIGTERM */
    int64_t ttl_s;
    int64_t hold_ms;
    int journal_fd;
    etcdlock_client *client;
    etcdlock_session *session;
    etcdlock_mutex *mutex;
} worker;

/* What the shared file holds: the counter, and the token of the hold under which it was written. */
typedef struct record {
    int64_t counter;
    uint64_t token;
} record;

static volatile sig_atomic_t is_told_to_finish;

static void on_sigterm(int signal_number)
{
    (void)signal_number;
    is_told_to_finish = 1;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "worker %d: %s: %s\n", (int)getpid(), what, why);
    exit(EXIT_FAILURE);
}

static void tell(const char *what, int error)
{
    fprintf(stderr, "worker %d: %s: %s: %s\n", (int)getpid(), what, etcdlock_strerror(error),
            etcdlock_error_message());
}

/* ---- time and journal ---- */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void work_for(int64_t ms)
{
    int64_t until_ms = now_ms() + ms;
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
    while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

/* One write to a file opened with O_APPEND: lines of several processes never mix. */
static void note(const worker *self, const char *event, uint64_t token, int64_t counter)
{
    char line[200];
    int size = snprintf(line, sizeof line,
                        "{\"ms\":%" PRId64 ",\"pid\":%d,\"event\":\"%s\",\"token\":%" PRIu64
                        ",\"counter\":%" PRId64 "}\n",
                        now_ms(), (int)getpid(), event, token, counter);
    if (write(self->journal_fd, line, (size_t)size) != size) fail(self->journal, strerror(errno));
}

/* ---- the shared file ---- */

/* Of fixed width, so that a record is replaced by one write, whole. */
#define RECORD_FORMAT "%020" PRId64 " %020" PRIu64 "\n"
enum { RECORD_SIZE = 42 };

static int open_file(const worker *self)
{
    int fd = open(self->file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) fail(self->file, strerror(errno));
    return fd;
}

static record read_record(const worker *self, int fd)
{
    char text[RECORD_SIZE + 1] = "";
    record found = {0, 0};
    ssize_t size = pread(fd, text, RECORD_SIZE, 0);
    if (size < 0) fail(self->file, strerror(errno));
    if (size == 0) return found; /* nobody has written yet */
    char *end = text;
    found.counter = strtoll(text, &end, 10);
    found.token = strtoull(end, &end, 10);
    if (size != RECORD_SIZE || *end != '\n') fail(self->file, "is not a counter of this program");
    return found;
}

static int64_t read_counter(const worker *self)
{
    int fd = open_file(self);
    record found = read_record(self, fd);
    close(fd);
    return found.counter;
}

/* The resource's side of fencing: whoever comes with a lower token than one already seen held the lock
 * earlier and has lost it since, whatever he believes. A database does this in one statement ("update ...
 * where token <= ?"). A plain file cannot check anything by itself, so a flock makes the check and the write
 * one step. That flock is no second lock around the work: it is held for microseconds, by the resource, and
 * only on this machine. */
static bool write_fenced(const worker *self, record wanted)
{
    char text[RECORD_SIZE + 1];
    int fd = open_file(self);
    while (flock(fd, LOCK_EX) != 0) {
        if (errno != EINTR) fail(self->file, strerror(errno));
    }
    bool is_allowed = wanted.token >= read_record(self, fd).token;
    if (is_allowed) {
        snprintf(text, sizeof text, RECORD_FORMAT, wanted.counter, wanted.token);
        if (pwrite(fd, text, RECORD_SIZE, 0) != RECORD_SIZE) fail(self->file, strerror(errno));
    }
    /* Inside the flock, so that the journal has the writes in the order of the file. */
    note(self, is_allowed ? "written" : "refused", wanted.token, wanted.counter);
    close(fd);
    return is_allowed;
}

/* ---- the lock ---- */

/* Also called when a session was lost: a lost one is over for ever, and so are the locks made from it. */
static int open_session(worker *self)
{
    etcdlock_session_options options = ETCDLOCK_SESSION_OPTIONS_INIT;
    options.ttl_s = self->ttl_s;
    options.label = "demo worker";
    (void)etcdlock_mutex_destroy(self->mutex);
    (void)etcdlock_session_close(self->session); /* says that it was lost, which we know */
    self->mutex = NULL;
    self->session = NULL;
    int error = etcdlock_session_open(&self->session, self->client, &options);
    if (!error) error = etcdlock_mutex_new(&self->mutex, self->session, self->name, NULL);
    return error;
}

/* The work under the lock. */
static int use(worker *self, uint64_t token, bool *is_written)
{
    /* Is the lock good for as long as the work will take? */
    int error = etcdlock_mutex_ensure(self->mutex, self->hold_ms);
    if (error) return error;

    record wanted = {.counter = read_counter(self) + 1, .token = token};
    work_for(self->hold_ms);

    /* Here a careful program asks etcdlock_mutex_ensure() once more: a process that was frozen in its work
     * would then learn that the lock is lost. This one does not ask, to show that it is the token that
     * protects the file: a process may freeze after the last question, too. */
    *is_written = write_fenced(self, wanted);
    return 0;
}

/* Unlocks, and tells if there was nothing left to unlock. */
static int give_back(worker *self, uint64_t token)
{
    int error = etcdlock_mutex_unlock(self->mutex);
    bool is_lost = error == ETCDLOCK_ESESSION || error == ETCDLOCK_EENTRY;
    if (error) tell(is_lost ? "the lock had been lost" : "unlock", error);
    note(self, is_lost ? "lost" : "released", token, 0);
    return error;
}

static int do_round(worker *self, bool *is_written)
{
    int error = 0;
    if (!self->mutex || etcdlock_session_get_state(self->session) == ETCDLOCK_SESSION_LOST) {
        error = open_session(self);
        if (error) return error;
    }
    note(self, "waiting", 0, 0);
    error = etcdlock_mutex_lock(self->mutex);
    if (error) return error;
    uint64_t token = etcdlock_mutex_token(self->mutex);
    note(self, "held", token, 0);
    error = use(self, token, is_written);
    int unlock_error = give_back(self, token);
    return error ? error : unlock_error;
}

/* What passes by itself, or with a new session; anything else is for a person to look at. */
static bool may_pass(int error)
{
    return error == ETCDLOCK_ESESSION || error == ETCDLOCK_EENTRY || error == ETCDLOCK_EUNKNOWN ||
           error == ETCDLOCK_EUNREACHABLE || error == ETIMEDOUT;
}

static int run(worker *self)
{
    int failures = 0;
    for (int64_t written = 0; (self->rounds == 0 || written < self->rounds) && !is_told_to_finish;) {
        bool is_written = false;
        int error = do_round(self, &is_written);
        if (is_written) {
            written++;
            failures = 0;
        }
        if (!error) continue;
        tell("this round failed", error);
        if (!may_pass(error) || ++failures == MOST_FAILURES_IN_A_ROW) return error;
    }
    note(self, "done", 0, 0);
    return 0;
}

/* ---- the command line ---- */

static const char usage[] =
    "usage: worker --name LOCK --file FILE --journal FILE [OPTION]...\n"
    "adds to a counter in FILE, each time under the lock LOCK, and writes what happens to the journal\n"
    "\n"
    "  --name LOCK      the lock; workers of the same name exclude each other\n"
    "  --file FILE      the shared counter; made if it does not exist\n"
    "  --journal FILE   JSON lines are appended to it; made if it does not exist\n"
    "  --rounds N       ends after N successful writes; 0 (default): after the round in which SIGTERM comes\n"
    "  --ttl S          time to live of the session, 1 to 3600 s (default 10)\n"
    "  --hold-ms MS     how long the work under the lock takes (default 250), at most half the time to live\n"
    "  --help           this text\n"
    "\n"
    "The etcd cluster is taken from the environment, as for etcdctl: ETCDCTL_ENDPOINTS and so on.\n"
    "Exit status: 0 all done, 1 trouble with etcd or a file, 2 wrong arguments.\n";

static void refuse(const char *what, const char *text)
{
    fprintf(stderr, "worker: %s%s; --help says more\n", what, text);
    exit(EXIT_USAGE);
}

static int64_t number(const char *option, const char *text, int64_t least, int64_t most)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most) {
        char what[120];
        snprintf(what, sizeof what, "%s takes a number from %" PRId64 " to %" PRId64 ", not ", option, least,
                 most);
        refuse(what, text);
    }
    return value;
}

static void parse(worker *self, int argc, char **argv)
{
    static const struct option options[] = {
        {"name", required_argument, NULL, 'n'},    {"file", required_argument, NULL, 'f'},
        {"journal", required_argument, NULL, 'j'}, {"rounds", required_argument, NULL, 'r'},
        {"ttl", required_argument, NULL, 't'},     {"hold-ms", required_argument, NULL, 'm'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'n':
            self->name = optarg;
            break;
        case 'f':
            self->file = optarg;
            break;
        case 'j':
            self->journal = optarg;
            break;
        case 'r':
            self->rounds = number("--rounds", optarg, 0, 1000000000);
            break;
        case 't':
            self->ttl_s = number("--ttl", optarg, 1, 3600);
            break;
        case 'm':
            self->hold_ms = number("--hold-ms", optarg, 0, 1800000);
            break;
        case 'h':
            fputs(usage, stdout);
            exit(EXIT_SUCCESS);
        default:
            fputs("worker: --help lists the options\n", stderr);
            exit(EXIT_USAGE);
        }
    }
    if (optind < argc) refuse("unexpected argument ", argv[optind]);
    if (!self->name) refuse("--name", " is missing");
    if (!self->file) refuse("--file", " is missing");
    if (!self->journal) refuse("--journal", " is missing");
    if (self->hold_ms > self->ttl_s * 500) refuse("--hold-ms", " is more than half of --ttl");
}

int main(int argc, char **argv)
{
    worker self = {.ttl_s = 10, .hold_ms = 250};
    parse(&self, argc, argv);

    struct sigaction action = {.sa_handler = on_sigterm, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    self.journal_fd = open(self.journal, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (self.journal_fd < 0) fail(self.journal, strerror(errno));

    int error = etcdlock_client_open(&self.client, NULL);
    if (error) tell("client", error);
    if (!error) error = run(&self);
    (void)etcdlock_mutex_destroy(self.mutex);
    (void)etcdlock_session_close(self.session);
    (void)etcdlock_client_close(self.client);
    close(self.journal_fd);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
