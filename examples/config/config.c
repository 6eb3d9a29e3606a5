/* Changes one setting of a configuration document that lives in etcd: takes the lock, reads the document,
 * writes it back with the setting changed. The write counts only while the lock is held, so that an editor
 * that was frozen in between cannot put an old document over the changes of others: it starts over. */
#include <errno.h>
#include <etcdlock.h>
#include <etcdlock/guard.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { EXIT_USAGE = 2, MOST_ATTEMPTS = 6, ENSURE_MS = 200, KEY_ROOM = 2048 };

/* The lock, and the key of the document, each behind the client's key_prefix. */
static const char lock_name[] = "config";
static const char document_key[] = "config.document";

typedef struct editor {
    const char *name; /* of the setting; NULL: shows the document */
    const char *value;
    int64_t ttl_s;
    bool stops; /* stops itself before its first write */
    bool is_guarded;
    etcdlock_client *client;
    etcdlock_session *session;
    etcdlock_mutex *mutex;
} editor;

static void tell(const char *what, int error)
{
    fprintf(stderr, "config: %s: %s: %s\n", what, etcdlock_strerror(error), etcdlock_error_message());
}

/* ---- the document: lines of NAME=VALUE ---- */

static bool is_line_of(const char *line, const char *name)
{
    size_t size = strlen(name);
    return strncmp(line, name, size) == 0 && line[size] == '=';
}

/* The document with the setting in the place where it was, or at the end; NULL if there is no memory for it.
 * The caller frees it. */
static char *change(const char *document, const char *name, const char *value)
{
    char *changed = malloc(strlen(document) + strlen(name) + strlen(value) + sizeof "=\n");
    if (!changed) return NULL;
    char *end = changed;
    bool is_set = false;
    for (const char *line = document; *line;) {
        size_t size = strcspn(line, "\n");
        size += line[size] == '\n';
        if (is_line_of(line, name)) {
            end += sprintf(end, "%s=%s\n", name, value);
            is_set = true;
        } else {
            memcpy(end, line, size);
            end += size;
        }
        line += size;
    }
    *end = '\0';
    if (!is_set) sprintf(end, "%s=%s\n", name, value);
    return changed;
}

/* ---- etcd ---- */

/* What a program does that has a lock but no guard: here etcdctl writes for it. */
static int put_unguarded(const char *document)
{
    extern char **environ;
    char key[KEY_ROOM];
    pid_t child;
    int status = -1;
    etcdlock_client_options options = ETCDLOCK_CLIENT_OPTIONS_INIT;
    int error = etcdlock_client_options_resolve(&options);
    if (error) return error;
    snprintf(key, sizeof key, "%s%s", options.key_prefix ? options.key_prefix : "", document_key);
    const char *words[] = {"etcdctl", "put", "--", key, document, NULL};
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", 1, 0);
    error = posix_spawnp(&child, words[0], &quiet, NULL, (char **)(uintptr_t)words, environ);
    posix_spawn_file_actions_destroy(&quiet);
    if (error) return error;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return status == 0 ? 0 : EIO;
}

static int put(const editor *self, const char *document)
{
    if (!self->is_guarded) return put_unguarded(document);
    return etcdlock_mutex_put(self->mutex, document_key, document, strlen(document));
}

static int get(const editor *self, etcdlock_value **out)
{
    int error = etcdlock_mutex_get(self->mutex, document_key, out);
    return error == ENOENT ? 0 : error; /* *out is NULL: nobody has written it yet */
}

/* ensure() is the last question that is asked before the write, and a process may be stopped right after the
 * answer. --stop stops it in that place. */
static int edit(editor *self, const etcdlock_value *found)
{
    char *document = change(found ? found->data : "", self->name, self->value);
    if (!document) return ENOMEM;
    int error = etcdlock_mutex_ensure(self->mutex, ENSURE_MS);
    if (!error) {
        if (self->stops) (void)raise(SIGSTOP);
        self->stops = false;
        error = put(self, document);
        if (error == ETCDLOCK_ESESSION || error == ETCDLOCK_EENTRY) puts("refused");
    }
    if (!error) puts("set");
    free(document);
    return error;
}

static int use(editor *self)
{
    etcdlock_value *found;
    int error = get(self, &found);
    if (error) return error;
    if (self->name)
        error = edit(self, found);
    else
        fputs(found ? found->data : "", stdout);
    etcdlock_value_free(found);
    return error;
}

/* A lost session is over for ever, and so are the locks made from it. */
static int open_session(editor *self)
{
    etcdlock_session_options options = ETCDLOCK_SESSION_OPTIONS_INIT;
    options.ttl_s = self->ttl_s;
    options.label = "config";
    (void)etcdlock_mutex_destroy(self->mutex);
    (void)etcdlock_session_close(self->session); /* says that it was lost, which we know */
    self->mutex = NULL;
    self->session = NULL;
    int error = etcdlock_session_open(&self->session, self->client, &options);
    if (!error) error = etcdlock_mutex_new(&self->mutex, self->session, lock_name, NULL);
    return error;
}

static int attempt(editor *self)
{
    int error = 0;
    if (!self->mutex || etcdlock_session_get_state(self->session) == ETCDLOCK_SESSION_LOST)
        error = open_session(self);
    if (!error) error = etcdlock_mutex_lock(self->mutex);
    if (error) return error;
    error = use(self);
    int unlock_error = etcdlock_mutex_unlock(self->mutex);
    if (unlock_error && !error) tell("unlock", unlock_error); /* what was written is written */
    return error;
}

/* What passes by itself, or with a new session. After ETCDLOCK_EUNKNOWN, too, the next attempt reads what has
 * become of the write, and writes again. */
static bool may_pass(int error)
{
    return error == ETCDLOCK_ESESSION || error == ETCDLOCK_EENTRY || error == ETCDLOCK_EUNKNOWN ||
           error == ETCDLOCK_EUNREACHABLE || error == ETIMEDOUT;
}

static int run(editor *self)
{
    int error = ETIMEDOUT;
    for (int i = 0; i < MOST_ATTEMPTS && may_pass(error); i++) {
        error = attempt(self);
        if (error) tell("this attempt failed", error);
        if (!error) return 0;
    }
    return error;
}

/* ---- the command line ---- */

static const char usage[] =
    "usage: config [OPTION]... show\n"
    "       config [OPTION]... set NAME VALUE\n"
    "shows or changes a configuration document in etcd, under the lock \"config\"\n"
    "\n"
    "  --ttl S      time to live of the session, 1 to 3600 s (default 10)\n"
    "  --stop       stops itself (SIGSTOP) before its first write; continue it with kill -CONT\n"
    "  --no-guard   writes with etcdctl, whether the lock is held or not, to show what happens then\n"
    "  --help       this text\n"
    "\n"
    "The etcd cluster is taken from the environment, as for etcdctl: ETCDCTL_ENDPOINTS and so on.\n"
    "Exit status: 0 shown or set, 1 trouble with etcd, 2 wrong arguments.\n";

static _Noreturn void refuse(const char *what, const char *text)
{
    fprintf(stderr, "config: %s%s; --help says more\n", what, text);
    exit(EXIT_USAGE);
}

static int64_t ttl(const char *text)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < 1 || value > 3600)
        refuse("--ttl takes a number from 1 to 3600, not ", text);
    return value;
}

static void parse_command(editor *self, int n, char **words)
{
    if (n == 1 && strcmp(words[0], "show") == 0) return;
    if (n != 3 || strcmp(words[0], "set") != 0) refuse("show, or set NAME VALUE", " is missing");
    if (strpbrk(words[1], "=\n") || !*words[1])
        refuse("NAME is not empty and has no = and no line break: ", words[1]);
    if (strchr(words[2], '\n')) refuse("VALUE has no line break: ", words[2]);
    self->name = words[1];
    self->value = words[2];
}

static void parse(editor *self, int argc, char **argv)
{
    static const struct option options[] = {
        {"ttl", required_argument, NULL, 't'},
        {"stop", no_argument, NULL, 's'},
        {"no-guard", no_argument, NULL, 'g'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 't':
            self->ttl_s = ttl(optarg);
            break;
        case 's':
            self->stops = true;
            break;
        case 'g':
            self->is_guarded = false;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(EXIT_SUCCESS);
        default:
            fputs("config: --help lists the options\n", stderr);
            exit(EXIT_USAGE);
        }
    }
    parse_command(self, argc - optind, argv + optind);
}

int main(int argc, char **argv)
{
    editor self = {.ttl_s = 10, .is_guarded = true};
    parse(&self, argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line is read as it happens, also through a pipe */

    int error = etcdlock_client_open(&self.client, NULL);
    if (error) tell("client", error);
    if (!error) error = run(&self);
    (void)etcdlock_mutex_destroy(self.mutex);
    (void)etcdlock_session_close(self.session);
    (void)etcdlock_client_close(self.client);
    return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
