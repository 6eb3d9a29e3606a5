/* A daemon of which one instance works at a time, on any number of machines: the others wait in the queue of
 * its lock, and the first of them takes over when the one at work ends, dies or cannot renew its session.
 *
 * The work is a sequence of steps. Before each of them the daemon asks etcdlock_mutex_ensure whether the lock
 * will still be held when the step is done, and leaves its work at once if not. What a step writes goes
 * through the file guard of libetcdlock-fence, for the one case that no question can cover: an instance that
 * is frozen in the middle of a step.
 *
 * The steps are lines of a journal: "NUMBER TOKEN", numbers without gaps, tokens that never fall. One line on
 * stdout for each thing that happens: in charge, step, refused, stands down. */
#include <assert.h>
#include <errno.h>
#include <etcdlock.h>
#include <etcdlock/fence.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, MOST_FAILURES_IN_A_ROW = 6, PATH_ROOM = 4096 };

/* The name of the lock, and of the resource for the guard. */
static const char name[] = "singleton";

typedef struct daemon_state {
    const char *path; /* of the journal */
    int64_t steps;    /* ends after so many; 0: when SIGTERM comes */
    int64_t ttl_s;
    int64_t step_ms;     /* how long a step takes at most */
    int64_t stop_at;     /* stops itself in this step, before it writes, counted from 1; 0: never */
    int64_t stop_before; /* stops itself before this step, before it asks ensure */
    bool is_guarded;
    int64_t asked; /* steps begun so far, with the question */
    int64_t begun; /* those that ensure allowed */
    int64_t done;
    int fd;
    etcdlock_fence *fence;
    etcdlock_client *client;
    etcdlock_session *session;
    pthread_mutex_t handle; /* over the pointer `mutex`, which the thread that awaits SIGTERM uses too */
    etcdlock_mutex *mutex;
    atomic_bool is_told_to_finish;
} daemon_state;

static void tell(const char *what, int error, const char *message)
{
    fprintf(stderr, "singleton: %s: %s: %s\n", what, etcdlock_strerror(error), message);
}

static int tell_of_file(const daemon_state *self, int error)
{
    fprintf(stderr, "singleton: %s: %s\n", self->path, strerror(error));
    return error;
}

static void work_for(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

/* ---- the resource ---- */

/* Of fixed width, so that the last line is found, and a line is written whole. */
enum { LINE_SIZE = 42 };

static int begin(const daemon_state *self, uint64_t token)
{
    if (!self->is_guarded) return 0;
    int error = etcdlock_fence_begin(self->fence, name, token);
    if (error && error != ESTALE) tell("guard", error, etcdlock_fence_error_message());
    return error;
}

static void end(const daemon_state *self)
{
    if (!self->is_guarded) return;
    int error = etcdlock_fence_end(self->fence, name);
    if (error) tell("guard", error, etcdlock_fence_error_message());
}

static int read_last(const daemon_state *self, int64_t *last)
{
    char text[LINE_SIZE + 1] = "";
    off_t size = lseek(self->fd, 0, SEEK_END);
    *last = 0;
    if (size < 0) return tell_of_file(self, errno);
    if (size == 0) return 0; /* nothing has been done yet */
    if (size % LINE_SIZE != 0 || pread(self->fd, text, LINE_SIZE, size - LINE_SIZE) != LINE_SIZE)
        return tell_of_file(self, EBADMSG);
    *last = strtoll(text, NULL, 10);
    return 0;
}

/* What an instance does first: it finds out under the guard how far the work has come. From then on the guard
 * refuses what earlier ones still send. */
static int take_over(const daemon_state *self, uint64_t token, int64_t *last)
{
    int error = begin(self, token);
    if (error) return error;
    error = read_last(self, last);
    end(self);
    return error;
}

static int append(const daemon_state *self, uint64_t token, int64_t number)
{
    char line[LINE_SIZE + 1];
    int error = begin(self, token);
    if (error) return error;
    snprintf(line, sizeof line, "%020" PRId64 " %020" PRIu64 "\n", number, token);
    if (write(self->fd, line, LINE_SIZE) != LINE_SIZE) error = tell_of_file(self, errno ? errno : EIO);
    end(self);
    return error;
}

/* ---- the work ---- */

/* ensure() says that the lock is good for as long as the step takes, and a process may be stopped right after
 * the answer: then the guard alone keeps the step out. --stop-at stops the process in that place;
 * --stop-before where ensure() is asked afterwards, and needs no guard. */
static int do_step(daemon_state *self, uint64_t token, int64_t number)
{
    if (++self->asked == self->stop_before) (void)raise(SIGSTOP);
    int error = etcdlock_mutex_ensure(self->mutex, self->step_ms);
    if (error) return error;
    work_for(self->step_ms / 2);
    if (++self->begun == self->stop_at) (void)raise(SIGSTOP);
    error = append(self, token, number);
    if (error == ESTALE) printf("refused step %" PRId64 ", token %" PRIu64 "\n", number, token);
    if (error) return error;
    self->done++;
    printf("step %" PRId64 ", token %" PRIu64 "\n", number, token);
    return 0;
}

static bool is_finished(const daemon_state *self)
{
    return self->is_told_to_finish || (self->steps && self->done >= self->steps);
}

/* In charge, until it is told to finish or must stand down. */
static int work(daemon_state *self)
{
    int64_t last;
    uint64_t token = etcdlock_mutex_token(self->mutex);
    printf("in charge, token %" PRIu64 "\n", token);
    int error = take_over(self, token, &last);
    while (!error && !is_finished(self))
        error = do_step(self, token, ++last);
    if (error) printf("stands down, token %" PRIu64 "\n", token);
    return error;
}

static void set_mutex(daemon_state *self, etcdlock_mutex *mutex)
{
    pthread_mutex_lock(&self->handle);
    etcdlock_mutex *former = self->mutex;
    self->mutex = mutex;
    pthread_mutex_unlock(&self->handle);
    (void)etcdlock_mutex_destroy(former);
}

/* A lost session is over for ever, and so are the locks made from it. */
static int open_session(daemon_state *self)
{
    etcdlock_mutex *mutex;
    etcdlock_session_options options = ETCDLOCK_SESSION_OPTIONS_INIT;
    options.ttl_s = self->ttl_s;
    options.label = "singleton";
    set_mutex(self, NULL);
    (void)etcdlock_session_close(self->session); /* says that it was lost, which we know */
    self->session = NULL;
    int error = etcdlock_session_open(&self->session, self->client, &options);
    if (!error) error = etcdlock_mutex_new(&mutex, self->session, name, NULL);
    if (!error) set_mutex(self, mutex);
    return error;
}

/* An instance that waits in the queue is to end as quickly as one at work. The cancellation is repeated, as
 * the call that it is meant for may begin a moment after it. */
static void *await_sigterm(void *arg)
{
    daemon_state *self = arg;
    sigset_t set;
    int signal_number;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigwait(&set, &signal_number);
    self->is_told_to_finish = true;
    for (;;) {
        pthread_mutex_lock(&self->handle);
        if (self->mutex) (void)etcdlock_mutex_cancel(self->mutex);
        pthread_mutex_unlock(&self->handle);
        work_for(100);
    }
    return NULL;
}

/* Before any other thread is made, so that all of them leave the signal to that one. */
static int watch_for_sigterm(daemon_state *self)
{
    pthread_t thread;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    int error = pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (!error) error = pthread_create(&thread, NULL, await_sigterm, self);
    if (!error) error = pthread_detach(thread);
    return error;
}

static int serve(daemon_state *self)
{
    int error = 0;
    if (!self->mutex || etcdlock_session_get_state(self->session) == ETCDLOCK_SESSION_LOST)
        error = open_session(self);
    if (!error) error = etcdlock_mutex_lock(self->mutex);
    if (error) return error;
    error = work(self);
    int unlock_error = etcdlock_mutex_unlock(self->mutex);
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

static int run(daemon_state *self)
{
    int failures = 0;
    while (!is_finished(self)) {
        int64_t done = self->done;
        int error = serve(self);
        if (self->done > done) failures = 0;
        if (!error || is_finished(self)) continue;
        tell("out of charge", error,
             error == ESTALE ? etcdlock_fence_error_message() : etcdlock_error_message());
        if (!may_pass(error) || ++failures == MOST_FAILURES_IN_A_ROW) return error;
    }
    return 0;
}

/* ---- the command line ---- */

static const char usage[] =
    "usage: singleton FILE [OPTION]...\n"
    "does steps, each a line in the journal FILE, while it holds the lock \"singleton\"; FILE.fence is the "
    "guard's\n"
    "\n"
    "  --steps N        ends after N steps (default: when SIGTERM comes)\n"
    "  --ttl S          time to live of the session, 1 to 3600 s (default 10)\n"
    "  --step-ms MS     how long a step takes at most (default 200), at most half the time to live\n"
    "  --stop-at N      stops itself (SIGSTOP) in its step number N, between ensure and the write; continue "
    "it\n"
    "                   with kill -CONT\n"
    "  --stop-before N  stops itself before its step number N, and so before ensure\n"
    "  --no-guard       writes without asking the guard, to show what happens then\n"
    "  --help           this text\n"
    "\n"
    "The etcd cluster is taken from the environment, as for etcdctl: ETCDCTL_ENDPOINTS and so on.\n"
    "Exit status: 0 finished as told, 1 trouble with etcd or the file, 2 wrong arguments.\n";

static _Noreturn void refuse(const char *what, const char *text)
{
    fprintf(stderr, "singleton: %s%s; --help says more\n", what, text);
    exit(EXIT_USAGE);
}

static int64_t number(const char *option, const char *text, int64_t least, int64_t most)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most) {
        fprintf(stderr, "singleton: %s takes a number from %" PRId64 " to %" PRId64 ", not %s\n", option,
                least, most, text);
        exit(EXIT_USAGE);
    }
    return value;
}

static void parse(daemon_state *self, int argc, char **argv)
{
    static const struct option options[] = {
        {"steps", required_argument, NULL, 'n'},
        {"ttl", required_argument, NULL, 't'},
        {"step-ms", required_argument, NULL, 'm'},
        {"stop-at", required_argument, NULL, 's'},
        {"stop-before", required_argument, NULL, 'b'},
        {"no-guard", no_argument, NULL, 'g'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'n':
            self->steps = number("--steps", optarg, 1, INT64_MAX);
            break;
        case 't':
            self->ttl_s = number("--ttl", optarg, 1, 3600);
            break;
        case 'm':
            self->step_ms = number("--step-ms", optarg, 0, 1800000);
            break;
        case 's':
            self->stop_at = number("--stop-at", optarg, 1, INT64_MAX);
            break;
        case 'b':
            self->stop_before = number("--stop-before", optarg, 1, INT64_MAX);
            break;
        case 'g':
            self->is_guarded = false;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(EXIT_SUCCESS);
        default:
            fputs("singleton: --help lists the options\n", stderr);
            exit(EXIT_USAGE);
        }
    }
    if (optind == argc) refuse("FILE", " is missing");
    if (optind + 1 < argc) refuse("unexpected argument ", argv[optind + 1]);
    if (self->step_ms > self->ttl_s * 500) refuse("--step-ms", " is more than half of --ttl");
    self->path = argv[optind];
}

/* The guard is opened without it as well: the two ways to run differ in nothing but the question. */
static int open_resource(daemon_state *self)
{
    char path[PATH_ROOM];
    assert(self->path); /* parse has seen to it */
    if (snprintf(path, sizeof path, "%s.fence", self->path) >= PATH_ROOM)
        return tell_of_file(self, ENAMETOOLONG);
    self->fd = open(self->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (self->fd < 0) return tell_of_file(self, errno);
    int error = etcdlock_fence_open_file(&self->fence, path, NULL);
    if (error) tell("guard", error, etcdlock_fence_error_message());
    return error;
}

int main(int argc, char **argv)
{
    /* Static: the thread that awaits SIGTERM may look at it until the process ends. */
    static daemon_state self = {
        .ttl_s = 10, .step_ms = 200, .is_guarded = true, .fd = -1, .handle = PTHREAD_MUTEX_INITIALIZER};
    parse(&self, argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line is read as it happens, also through a pipe */

    int error = open_resource(&self);
    if (!error) error = watch_for_sigterm(&self);
    if (!error) {
        error = etcdlock_client_open(&self.client, NULL);
        if (error) tell("client", error, etcdlock_error_message());
    }
    if (!error) error = run(&self);
    set_mutex(&self, NULL);
    (void)etcdlock_session_close(self.session);
    (void)etcdlock_client_close(self.client);
    (void)etcdlock_fence_close(self.fence);
    if (self.fd >= 0) close(self.fd);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
