/* Adds to a counter in a file that it shares with other processes of the machine, each time under a lock in
 * etcd. Every access goes through the file guard of libetcdlock-fence with the token of the lock, so that a
 * holder that was frozen cannot overwrite what later ones have counted.
 *
 * One line on stdout for each thing that happens: held, counted, refused, lost. */
#include <errno.h>
#include <etcdlock.h>
#include <etcdlock/fence.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, MOST_FAILURES_IN_A_ROW = 6, ENSURE_MS = 200, PATH_ROOM = 4096 };

/* The name of the lock, and of the resource for the guard. */
static const char name[] = "counter";

typedef struct counter {
    const char *path;
    int64_t rounds;
    int64_t ttl_s;
    int64_t work_ms;
    int64_t stop_at;     /* stops itself before this write, counted from 1; 0: never */
    int64_t stop_within; /* the same, but in the middle of the guarded write */
    bool is_guarded;
    int64_t writes;  /* begun so far */
    int64_t counted; /* of those, the ones that are in the file */
    int fd;
    etcdlock_fence *fence;
    etcdlock_client *client;
    etcdlock_session *session;
    etcdlock_mutex *mutex;
} counter;

static void tell(const char *what, int error, const char *message)
{
    fprintf(stderr, "file_counter: %s: %s: %s\n", what, etcdlock_strerror(error), message);
}

static int tell_of_file(const counter *self, int error)
{
    fprintf(stderr, "file_counter: %s: %s\n", self->path, strerror(error));
    return error;
}

static void work_for(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

/* ---- the resource ---- */

/* Of fixed width, so that a number is replaced by one write, whole. */
enum { NUMBER_SIZE = 21 };

static int read_number(const counter *self, int64_t *out)
{
    char text[NUMBER_SIZE + 1] = "";
    char *end;
    ssize_t size = pread(self->fd, text, NUMBER_SIZE, 0);
    *out = 0;
    if (size < 0) return tell_of_file(self, errno);
    if (size == 0) return 0; /* nobody has counted yet */
    *out = strtoll(text, &end, 10);
    return *end == '\n' ? 0 : tell_of_file(self, EBADMSG);
}

static int write_number(const counter *self, int64_t value)
{
    char text[NUMBER_SIZE + 1];
    snprintf(text, sizeof text, "%020" PRId64 "\n", value);
    if (pwrite(self->fd, text, NUMBER_SIZE, 0) != NUMBER_SIZE) return tell_of_file(self, errno ? errno : EIO);
    return 0;
}

static int begin(const counter *self, uint64_t token)
{
    if (!self->is_guarded) return 0;
    int error = etcdlock_fence_begin(self->fence, name, token);
    if (error && error != ESTALE) tell("guard", error, etcdlock_fence_error_message());
    return error;
}

static void end(const counter *self)
{
    if (!self->is_guarded) return;
    int error = etcdlock_fence_end(self->fence, name);
    if (error) tell("guard", error, etcdlock_fence_error_message());
}

/* Reads under the guard: from then on it refuses what earlier holders still send, so that the number stays as
 * it was read. */
static int look(const counter *self, uint64_t token, int64_t *out)
{
    int error = begin(self, token);
    if (error) return error;
    error = read_number(self, out);
    end(self);
    return error;
}

static int put(const counter *self, uint64_t token, int64_t value)
{
    int error = begin(self, token);
    if (error) return error;
    if (self->writes == self->stop_within) (void)raise(SIGSTOP);
    error = write_number(self, value);
    end(self);
    return error;
}

/* ---- the lock ---- */

/* A lost session is over for ever, and so are the locks made from it. */
static int open_session(counter *self)
{
    etcdlock_session_options options = ETCDLOCK_SESSION_OPTIONS_INIT;
    options.ttl_s = self->ttl_s;
    options.label = "file_counter";
    (void)etcdlock_mutex_destroy(self->mutex);
    (void)etcdlock_session_close(self->session); /* says that it was lost, which we know */
    self->mutex = NULL;
    self->session = NULL;
    int error = etcdlock_session_open(&self->session, self->client, &options);
    if (!error) error = etcdlock_mutex_new(&self->mutex, self->session, name, NULL);
    return error;
}

/* ensure() is the last question that can be asked before the write, and a process may be stopped right after
 * the answer: from there on the guard alone keeps a former holder out. --stop-at stops the process in that
 * place. */
static int count(counter *self, uint64_t token)
{
    int64_t found;
    int error = look(self, token, &found);
    if (error) return error;
    work_for(self->work_ms);
    error = etcdlock_mutex_ensure(self->mutex, ENSURE_MS);
    if (error) return error;
    self->writes++;
    if (self->writes == self->stop_at) (void)raise(SIGSTOP);
    error = put(self, token, found + 1);
    if (error) return error;
    self->counted++;
    printf("counted %" PRId64 ", token %" PRIu64 "\n", found + 1, token);
    return 0;
}

static int do_round(counter *self)
{
    int error = 0;
    if (!self->mutex || etcdlock_session_get_state(self->session) == ETCDLOCK_SESSION_LOST)
        error = open_session(self);
    if (!error) error = etcdlock_mutex_lock(self->mutex);
    if (error) return error;
    uint64_t token = etcdlock_mutex_token(self->mutex);
    printf("held, token %" PRIu64 "\n", token);
    error = count(self, token);
    if (error == ESTALE) printf("refused, token %" PRIu64 "\n", token);
    int unlock_error = etcdlock_mutex_unlock(self->mutex);
    if (unlock_error == ETCDLOCK_ESESSION || unlock_error == ETCDLOCK_EENTRY)
        printf("lost, token %" PRIu64 "\n", token);
    if (error == ESTALE && unlock_error) return unlock_error; /* which explains it */
    return error ? error : unlock_error;
}

/* What passes by itself, or with a new session; anything else is for a person to look at: also ESTALE, when
 * the guard refuses one who does hold the lock, as after etcd was restored from an old snapshot. */
static bool may_pass(int error)
{
    return error == ETCDLOCK_ESESSION || error == ETCDLOCK_EENTRY || error == ETCDLOCK_EUNKNOWN ||
           error == ETCDLOCK_EUNREACHABLE || error == ETIMEDOUT;
}

/* What is in the file is counted, whatever unlock says of the lock afterwards. */
static int run(counter *self)
{
    int failures = 0;
    while (self->counted < self->rounds) {
        int64_t counted = self->counted;
        int error = do_round(self);
        if (self->counted > counted) failures = 0;
        if (!error) continue;
        tell("this round failed", error,
             error == ESTALE ? etcdlock_fence_error_message() : etcdlock_error_message());
        if (!may_pass(error) || ++failures == MOST_FAILURES_IN_A_ROW) return error;
    }
    return 0;
}

/* ---- the command line ---- */

static const char usage[] =
    "usage: file_counter FILE [OPTION]...\n"
    "adds to the counter in FILE, each time under the lock \"counter\"; FILE.fence is the guard's\n"
    "\n"
    "  --rounds N        ends after N additions (default 10)\n"
    "  --ttl S           time to live of the session, 1 to 3600 s (default 10)\n"
    "  --work-ms MS      how long the work under the lock takes (default 100), at most half the time to "
    "live\n"
    "  --stop-at N       stops itself (SIGSTOP) before its write number N; continue it with kill -CONT\n"
    "  --stop-within N   stops itself in the middle of its write number N, while the guard lets nobody else "
    "in\n"
    "  --no-guard        writes without asking the guard, to show what happens then\n"
    "  --help            this text\n"
    "\n"
    "The etcd cluster is taken from the environment, as for etcdctl: ETCDCTL_ENDPOINTS and so on.\n"
    "Exit status: 0 all counted, 1 trouble with etcd or the file, 2 wrong arguments.\n";

static _Noreturn void refuse(const char *what, const char *text)
{
    fprintf(stderr, "file_counter: %s%s; --help says more\n", what, text);
    exit(EXIT_USAGE);
}

static int64_t number(const char *option, const char *text, int64_t least, int64_t most)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most) {
        fprintf(stderr, "file_counter: %s takes a number from %" PRId64 " to %" PRId64 ", not %s\n", option,
                least, most, text);
        exit(EXIT_USAGE);
    }
    return value;
}

static void parse(counter *self, int argc, char **argv)
{
    static const struct option options[] = {
        {"rounds", required_argument, NULL, 'r'},
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
        case 'r':
            self->rounds = number("--rounds", optarg, 1, INT64_MAX);
            break;
        case 't':
            self->ttl_s = number("--ttl", optarg, 1, 3600);
            break;
        case 'w':
            self->work_ms = number("--work-ms", optarg, 0, 1800000);
            break;
        case 's':
            self->stop_at = number("--stop-at", optarg, 1, INT64_MAX);
            break;
        case 'i':
            self->stop_within = number("--stop-within", optarg, 1, INT64_MAX);
            break;
        case 'g':
            self->is_guarded = false;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(EXIT_SUCCESS);
        default:
            fputs("file_counter: --help lists the options\n", stderr);
            exit(EXIT_USAGE);
        }
    }
    if (optind == argc) refuse("FILE", " is missing");
    if (optind + 1 < argc) refuse("unexpected argument ", argv[optind + 1]);
    if (self->work_ms > self->ttl_s * 500) refuse("--work-ms", " is more than half of --ttl");
    self->path = argv[optind];
}

/* The guard is opened without it as well: the two ways to run differ in nothing but the question. */
static int open_resource(counter *self)
{
    char path[PATH_ROOM];
    if (snprintf(path, sizeof path, "%s.fence", self->path) >= PATH_ROOM)
        return tell_of_file(self, ENAMETOOLONG);
    self->fd = open(self->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (self->fd < 0) return tell_of_file(self, errno);
    int error = etcdlock_fence_open_file(&self->fence, path, NULL);
    if (error) tell("guard", error, etcdlock_fence_error_message());
    return error;
}

int main(int argc, char **argv)
{
    counter self = {.rounds = 10, .ttl_s = 10, .work_ms = 100, .is_guarded = true, .fd = -1};
    parse(&self, argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line is read as it happens, also through a pipe */

    int error = open_resource(&self);
    if (!error) {
        error = etcdlock_client_open(&self.client, NULL);
        if (error) tell("client", error, etcdlock_error_message());
    }
    if (!error) error = run(&self);
    (void)etcdlock_mutex_destroy(self.mutex);
    (void)etcdlock_session_close(self.session);
    (void)etcdlock_client_close(self.client);
    (void)etcdlock_fence_close(self.fence);
    if (self.fd >= 0) close(self.fd);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
