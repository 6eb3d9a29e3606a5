/* The options of clients and sessions: one table, from which the reading of code, configuration file and
 * environment, the defaults, the range checks and the README's table all derive.
 *
 * Who says an option first has said it: the code, then the file, then the environment, then the default. In
 * code NULL and 0 are "not said"; in the environment an empty variable is; in the file a missing key is. A
 * text that is said to be "" means "none" and stops the search. In a program that runs with more rights than
 * its user (set-user-ID, file capabilities) the environment says nothing. */
#ifndef EL_OPTIONS_H
#define EL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/endpoint.h"
#include "core/error.h"
#include "etcdlock/client.h"
#include "etcdlock/session.h"

/* ---- resolved options ------------------------------------------------------------------------------ */

typedef enum el_option {
    EL_OPTION_CONFIG_FILE, /* first: it is needed to ask the file for the others */
    EL_OPTION_ENDPOINTS,
    EL_OPTION_USER,
    EL_OPTION_PASSWORD,
    EL_OPTION_CA_FILE,
    EL_OPTION_CERT_FILE,
    EL_OPTION_KEY_FILE,
    EL_OPTION_KEY_PREFIX,
    EL_OPTION_DIAL_TIMEOUT,
    EL_OPTION_COMMAND_TIMEOUT,
    EL_OPTION_KEEPALIVE_TIME,
    EL_OPTION_KEEPALIVE_TIMEOUT,
    EL_OPTION_LOG_LEVEL,
    EL_OPTION_GROUP_MAX,
    EL_OPTION_TTL,
    EL_OPTION_MARGIN,
    EL_OPTION_LABEL,
    EL_OPTION_ON_ERROR,
    EL_OPTION_INSECURE_TRANSPORT,
    EL_OPTION_INSECURE_SKIP_TLS_VERIFY,
    EL_OPTION_DISCOVERY_SRV,
    EL_OPTIONS,
} el_option;

/* In the order in which they are asked. */
typedef enum el_option_source {
    EL_SOURCE_NONE,
    EL_SOURCE_CODE,
    EL_SOURCE_FILE,
    EL_SOURCE_ENVIRONMENT,
    EL_SOURCE_DEFAULT,
} el_option_source;

typedef enum el_on_error {
    EL_ON_ERROR_RETURN = 1,
    EL_ON_ERROR_ABORT = 2,
} el_on_error;

/* What a session needs to know. */
typedef struct el_session_settings {
    int64_t ttl_s;     /* to ask of etcd */
    int64_t margin_ms; /* 0: automatic, see el_margin_ms */
    char *label;       /* owned; "" if there is none */
    etcdlock_session_function *on_state;
    void *on_state_arg;
} el_session_settings;

/* All options after all sources have been asked. Owns its strings; those of the table are never NULL, "" is
 * "none". Free it with el_options_free. */
typedef struct el_options {
    char *config_file;
    char *endpoints; /* as written; see targets */
    char *user;      /* the name alone */
    char *password;
    char *ca_file;
    char *cert_file;
    char *key_file;
    char *key_prefix;
    int64_t dial_timeout_ms;
    int64_t command_timeout_ms;
    int64_t keepalive_time_ms;
    int64_t keepalive_timeout_ms;
    int64_t log_level; /* etcdlock_log_level */
    int64_t group_max;
    etcdlock_log_function *log;
    void *log_arg;
    el_session_settings session; /* for sessions whose code says nothing; without callback */
    int64_t on_error;            /* el_on_error */
    int64_t insecure_transport;
    int64_t insecure_skip_tls_verify;
    char *discovery_srv;
    unsigned char sources[EL_OPTIONS]; /* el_option_source, who said it */

    el_endpoints targets; /* from endpoints */
    bool tls;             /* for every endpoint */
    char *ca_pem;         /* contents of the files; NULL: none */
    char *cert_pem;
    char *key_pem;
} el_options;

/* Asks all sources and checks everything that can be checked without etcd. code may be NULL. Reads the named
 * files. On failure *out is empty, and the failure's text names the option, who said it, the value and what
 * is allowed. Leaves errno alone.
 * EINVAL; ENOTSUP: an option of etcdctl that this library does not have; the errno of a file that cannot be
 * read; ENOMEM. */
int el_options_resolve(el_options *out, const etcdlock_client_options *code, el_failure *failure);

/* An empty one is allowed. */
void el_options_free(el_options *options);

/* The settings of one session: code (may be NULL), then what the client has found out. On failure *out is
 * empty. EINVAL, ENOMEM. */
int el_session_options_resolve(el_session_settings *out, const el_options *client,
                               const etcdlock_session_options *code, el_failure *failure);
void el_session_settings_free(el_session_settings *settings);

/* The margin for a time to live that etcd has granted: the asked one, or with 0 the automatic one, 5 % of it,
 * at least 100 ms, at most 1 s. EINVAL: the asked one is negative or not less than half of the time to live,
 * or the latter is not positive; *margin_ms is then untouched. */
int el_margin_ms(int64_t asked_margin_ms, int64_t granted_ttl_s, int64_t *margin_ms);

/* The README's table, in Markdown. */
void el_options_print_markdown(FILE *out);

/* ---- the table ------------------------------------------------------------------------------------- */

typedef enum el_option_scope {
    EL_SCOPE_CLIENT,  /* etcdlock_client_options, file, environment */
    EL_SCOPE_SESSION, /* etcdlock_session_options, file, environment */
    EL_SCOPE_DROP_IN, /* the drop-in form, so file and environment only */
    EL_SCOPE_ETCDCTL, /* only a variable of etcdctl */
} el_option_scope;

typedef enum el_option_type {
    EL_TYPE_TEXT,
    EL_TYPE_FILE,         /* a path */
    EL_TYPE_MILLISECONDS, /* in the environment a duration as Go writes them, or a bare number */
    EL_TYPE_SECONDS,      /* the same, but whole seconds */
    EL_TYPE_LEVEL,        /* one of `words`, or its number */
    EL_TYPE_WORD,         /* one of `words` */
    EL_TYPE_BOOLEAN,
    EL_TYPE_COUNT,
} el_option_type;

typedef struct el_option_row {
    const char *name; /* of the field in code and the key in the file */
    el_option_scope scope;
    el_option_type type;
    const char *variable;     /* in the environment */
    const char *text_default; /* NULL: none; of a number only for the README */
    int64_t number_default;
    int64_t min; /* of the number; unused for texts */
    int64_t max; /* of the number; of a text's size in bytes */
    const char *unit;
    int64_t bare_ms; /* milliseconds that a number without a unit means in the environment */
    bool raise;      /* a duration below min in the environment is raised to it */
    bool secret;     /* never shown in a message */
    bool not_in_file;
    const char *const *words; /* for the numbers 1, 2, ...; ends with NULL */
    size_t offset;            /* in el_options; for sessions in el_session_settings */
    size_t code_offset;       /* in the public struct of its scope */
    const char *help;
} el_option_row;

extern const el_option_row el_option_table[EL_OPTIONS];

bool el_option_is_text(const el_option_row *row);

/* The row's field inside resolved options. */
char **el_option_text(el_options *options, el_option option);
int64_t *el_option_number(el_options *options, el_option option);

/* "name (who said it)", for messages about an option of these options; returns buffer. */
enum { EL_WHERE_SIZE = 200 };
const char *el_option_where(char buffer[EL_WHERE_SIZE], const el_options *options, el_option option,
                            el_option_source source);

/* What the row allows, in the notation of the source; returns buffer. */
enum { EL_ALLOWED_SIZE = 120 };
const char *el_option_allowed(char buffer[EL_ALLOWED_SIZE], el_option option, el_option_source source);

/* Fills the failure with what was said and what is allowed; returns EINVAL. value is what the source says, in
 * its own notation. options is only asked for the file's path. */
int el_option_refuse(const el_options *options, el_option option, el_option_source source, const char *value,
                     el_failure *failure);

/* Check a value, and store it if no earlier source has said the option. shown is the number as the source
 * writes it. EINVAL, ENOMEM. */
int el_option_say_text(el_options *options, el_option option, el_option_source source, const char *text,
                       el_failure *failure);
int el_option_say_number(el_options *options, el_option option, el_option_source source, int64_t number,
                         const char *shown, el_failure *failure);

/* The number of a word of the row (case does not matter), or of a digit for a level; 0: it is none. */
int64_t el_option_word(const el_option_row *row, const char *text);

/* ---- the sources ----------------------------------------------------------------------------------- */

/* Each says all that it knows by the functions above. */
int el_options_read_code(el_options *options, const etcdlock_client_options *code, el_failure *failure);
int el_options_read_file(el_options *options, el_failure *failure); /* the one that config_file names */
int el_options_read_environment(el_options *options, el_failure *failure);
int el_option_read_variable(el_options *options, el_option option, el_failure *failure);

/* The contents of the file at the path that an option says, el_alloc'ed and NUL-terminated. EINVAL: it holds
 * a NUL byte; EFBIG: over 1 MiB; its errno; ENOMEM. */
int el_option_read_contents(const el_options *options, el_option option, const char *path, char **contents,
                            el_failure *failure);

/* Parses a duration as Go writes it ("1m30s"), or a bare number (times bare_ms). What is left under a
 * millisecond is rounded up; INT64_MAX if it is too long to count. False: it is none, or negative. */
bool el_duration_parse(const char *text, int64_t bare_ms, int64_t *ms);

#endif
