#include "core/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/alloc.h"

enum {
    HOUR_MS = 3600 * 1000,
    DAY_S = 24 * 3600,
    PATH_SIZE_MAX = 4095,
    SHOWN_MAX = 60, /* bytes of a value that a message shows */
};

static const char *const levels[] = {"error", "warning", "info", "debug", NULL};
static const char *const reactions[] = {"return", "abort", NULL};

/* Laid out by hand, one idea per line. */
/* clang-format off */
const el_option_row el_option_table[EL_OPTIONS] = {
    [EL_OPTION_CONFIG_FILE] = {
        .name = "config_file", .scope = EL_SCOPE_CLIENT, .type = EL_TYPE_FILE, .variable = "ETCDLOCK_CONFIG",
        .max = PATH_SIZE_MAX, .not_in_file = true,
        .offset = offsetof(el_options, config_file),
        .code_offset = offsetof(etcdlock_client_options, config_file),
        .help = "a JSON file: one object with the names of this table as keys"},
    [EL_OPTION_ENDPOINTS] = {
        .name = "endpoints", .scope = EL_SCOPE_CLIENT, .type = EL_TYPE_TEXT, .variable = "ETCDCTL_ENDPOINTS",
        .text_default = "127.0.0.1:2379", .max = 16384,
        .offset = offsetof(el_options, endpoints),
        .code_offset = offsetof(etcdlock_client_options, endpoints),
        .help = "up to 64, separated by commas: host:port, http://host:port, https://host:port, "
                "unix:path"},
    [EL_OPTION_USER] = {
        .name = "user", .scope = EL_SCOPE_CLIENT, .type = EL_TYPE_TEXT, .variable = "ETCDCTL_USER",
        .max = 1024, .secret = true,
        .offset = offsetof(el_options, user), .code_offset = offsetof(etcdlock_client_options, user),
        .help = "name, or name:password; taken whole as the name if the same or an earlier source says "
                "password"},
    [EL_OPTION_PASSWORD] = {
        .name = "password", .scope = EL_SCOPE_CLIENT, .type = EL_TYPE_TEXT, .variable = "ETCDCTL_PASSWORD",
        .max = 1024, .secret = true,
        .offset = offsetof(el_options, password), .code_offset = offsetof(etcdlock_client_options, password),
        .help = "of user"},
    [EL_OPTION_CA_FILE] = {
        .name = "ca_file", .scope = EL_SCOPE_CLIENT, .type = EL_TYPE_FILE, .variable = "ETCDCTL_CACERT",
        .max = PATH_SIZE_MAX,
        .offset = offsetof(el_options, ca_file), .code_offset = offsetof(etcdlock_client_options, ca_file),
        .help = "PEM file of the authorities to trust instead of the system's; turns TLS on"},
    [EL_OPTION_CERT_FILE] = {
        .name = "cert_file", .scope = EL_SCOPE_CLIENT, .type = EL_TYPE_FILE, .variable = "ETCDCTL_CERT",
        .max = PATH_SIZE_MAX,
        .offset = offsetof(el_options, cert_file),
        .code_offset = offsetof(etcdlock_client_options, cert_file),
        .help = "PEM file of the client certificate, together with key_file; turns TLS on"},
    [EL_OPTION_KEY_FILE] = {
        .name = "key_file", .scope = EL_SCOPE_CLIENT, .type = EL_TYPE_FILE, .variable = "ETCDCTL_KEY",
        .max = PATH_SIZE_MAX,
        .offset = offsetof(el_options, key_file), .code_offset = offsetof(etcdlock_client_options, key_file),
        .help = "PEM file of its private key"},
    [EL_OPTION_KEY_PREFIX] = {
        .name = "key_prefix", .scope = EL_SCOPE_CLIENT, .type = EL_TYPE_TEXT, .variable = "ETCDLOCK_PREFIX",
        .max = 1024,
        .offset = offsetof(el_options, key_prefix),
        .code_offset = offsetof(etcdlock_client_options, key_prefix),
        .help = "put before every key as it is, for example prod/"},
    [EL_OPTION_DIAL_TIMEOUT] = {
        .name = "dial_timeout_ms", .scope = EL_SCOPE_CLIENT, .type = EL_TYPE_MILLISECONDS,
        .variable = "ETCDCTL_DIAL_TIMEOUT",
        .number_default = 2000, .min = 10, .max = 600000, .unit = "ms", .bare_ms = 1000,
        .offset = offsetof(el_options, dial_timeout_ms),
        .code_offset = offsetof(etcdlock_client_options, dial_timeout_ms),
        .help = "an endpoint that has not answered a request for so long is left for the next"},
    [EL_OPTION_COMMAND_TIMEOUT] = {
        .name = "command_timeout_ms", .scope = EL_SCOPE_CLIENT, .type = EL_TYPE_MILLISECONDS,
        .variable = "ETCDCTL_COMMAND_TIMEOUT",
        .number_default = 5000, .min = 10, .max = HOUR_MS, .unit = "ms", .bare_ms = 1000,
        .offset = offsetof(el_options, command_timeout_ms),
        .code_offset = offsetof(etcdlock_client_options, command_timeout_ms),
        .help = "a call without a deadline of its own ends after so long without an answer"},
    [EL_OPTION_KEEPALIVE_TIME] = {
        .name = "keepalive_time_ms", .scope = EL_SCOPE_CLIENT, .type = EL_TYPE_MILLISECONDS,
        .variable = "ETCDCTL_KEEPALIVE_TIME",
        .number_default = 10000, .min = 5000, .max = HOUR_MS, .unit = "ms", .bare_ms = 1000, .raise = true,
        .offset = offsetof(el_options, keepalive_time_ms),
        .code_offset = offsetof(etcdlock_client_options, keepalive_time_ms),
        .help = "a connection with calls or watches on it that has been silent for so long is probed; etcd ends connections probed more often "
                "than every 5 s, so a smaller value in the environment is raised"},
    [EL_OPTION_KEEPALIVE_TIMEOUT] = {
        .name = "keepalive_timeout_ms", .scope = EL_SCOPE_CLIENT, .type = EL_TYPE_MILLISECONDS,
        .variable = "ETCDCTL_KEEPALIVE_TIMEOUT",
        .number_default = 6000, .min = 10, .max = 600000, .unit = "ms", .bare_ms = 1000,
        .offset = offsetof(el_options, keepalive_timeout_ms),
        .code_offset = offsetof(etcdlock_client_options, keepalive_timeout_ms),
        .help = "a connection whose probe is unanswered for so long is left"},
    [EL_OPTION_LOG_LEVEL] = {
        .name = "log_level", .scope = EL_SCOPE_CLIENT, .type = EL_TYPE_LEVEL,
        .variable = "ETCDLOCK_LOG_LEVEL",
        .number_default = ETCDLOCK_LOG_WARNING, .min = ETCDLOCK_LOG_ERROR, .max = ETCDLOCK_LOG_DEBUG,
        .words = levels,
        .offset = offsetof(el_options, log_level),
        .code_offset = offsetof(etcdlock_client_options, log_level),
        .help = "messages up to this level reach the log function"},
    [EL_OPTION_GROUP_MAX] = {
        .name = "group_max", .scope = EL_SCOPE_CLIENT, .type = EL_TYPE_COUNT, .variable = "ETCDLOCK_GROUP_MAX",
        .number_default = 64, .min = 1, .max = 64, .unit = "transactions",
        .offset = offsetof(el_options, group_max),
        .code_offset = offsetof(etcdlock_client_options, group_max),
        .help = "so many lock and unlock transactions of threads that come together go to etcd as one; "
                "1: each goes alone, for servers without nested transactions"},
    [EL_OPTION_TTL] = {
        .name = "ttl_s", .scope = EL_SCOPE_SESSION, .type = EL_TYPE_SECONDS, .variable = "ETCDLOCK_TTL",
        .number_default = 10, .min = 1, .max = DAY_S, .unit = "s", .bare_ms = 1000,
        .offset = offsetof(el_session_settings, ttl_s),
        .code_offset = offsetof(etcdlock_session_options, ttl_s),
        .help = "time to live of a session's lease; etcd raises small ones"},
    [EL_OPTION_MARGIN] = {
        .name = "margin_ms", .scope = EL_SCOPE_SESSION, .type = EL_TYPE_MILLISECONDS,
        .variable = "ETCDLOCK_MARGIN_MS",
        .text_default = "5 % of the time to live, 100 to 1000 ms", .min = 1, .max = DAY_S * 500LL - 1,
        .unit = "ms", .bare_ms = 1,
        .offset = offsetof(el_session_settings, margin_ms),
        .code_offset = offsetof(etcdlock_session_options, margin_ms),
        .help = "a session is lost here so much before etcd ends it; less than half of the granted time "
                "to live"},
    [EL_OPTION_LABEL] = {
        .name = "label", .scope = EL_SCOPE_SESSION, .type = EL_TYPE_TEXT, .variable = "ETCDLOCK_LABEL",
        .max = 256,
        .offset = offsetof(el_session_settings, label),
        .code_offset = offsetof(etcdlock_session_options, label),
        .help = "written into the lock keys, for people"},
    [EL_OPTION_ON_ERROR] = {
        .name = "on_error", .scope = EL_SCOPE_DROP_IN, .type = EL_TYPE_WORD, .variable = "ETCDLOCK_ON_ERROR",
        .number_default = EL_ON_ERROR_RETURN, .min = EL_ON_ERROR_RETURN, .max = EL_ON_ERROR_ABORT,
        .words = reactions,
        .offset = offsetof(el_options, on_error),
        .help = "abort: a lock or unlock that fails where a pthread program expects no failure ends the "
                "program"},
    [EL_OPTION_INSECURE_TRANSPORT] = {
        .name = "insecure_transport", .scope = EL_SCOPE_ETCDCTL, .not_in_file = true, .type = EL_TYPE_BOOLEAN,
        .variable = "ETCDCTL_INSECURE_TRANSPORT",
        .number_default = 1, .max = 1,
        .offset = offsetof(el_options, insecure_transport),
        .help = "false: TLS for every endpoint, also without files"},
    [EL_OPTION_INSECURE_SKIP_TLS_VERIFY] = {
        .name = "insecure_skip_tls_verify", .scope = EL_SCOPE_ETCDCTL, .not_in_file = true,
        .type = EL_TYPE_BOOLEAN, .variable = "ETCDCTL_INSECURE_SKIP_TLS_VERIFY",
        .max = 1,
        .offset = offsetof(el_options, insecure_skip_tls_verify),
        .help = "true is refused: name the authority with ca_file"},
    [EL_OPTION_DISCOVERY_SRV] = {
        .name = "discovery_srv", .scope = EL_SCOPE_ETCDCTL, .not_in_file = true, .type = EL_TYPE_TEXT,
        .variable = "ETCDCTL_DISCOVERY_SRV",
        .max = 1024,
        .offset = offsetof(el_options, discovery_srv),
        .help = "refused unless endpoints are said: the library does not look them up in the DNS"},
};
/* clang-format on */

bool el_option_is_text(const el_option_row *row)
{
    return row->type == EL_TYPE_TEXT || row->type == EL_TYPE_FILE;
}

static void *field_of(el_options *options, const el_option_row *row)
{
    char *base = row->scope == EL_SCOPE_SESSION ? (char *)&options->session : (char *)options;
    return base + row->offset;
}

char **el_option_text(el_options *options, el_option option)
{
    return field_of(options, &el_option_table[option]);
}

int64_t *el_option_number(el_options *options, el_option option)
{
    return field_of(options, &el_option_table[option]);
}

int64_t el_option_word(const el_option_row *row, const char *text)
{
    for (int64_t i = row->min; i <= row->max; i++) {
        bool digit = row->type == EL_TYPE_LEVEL && text[0] == '0' + i && !text[1];
        if (digit || strcasecmp(text, row->words[i - 1]) == 0) return i;
    }
    return 0;
}

/* ---- messages ---- */

const char *el_option_where(char buffer[EL_WHERE_SIZE], const el_options *options, el_option option,
                            el_option_source source)
{
    const el_option_row *row = &el_option_table[option];
    switch (source) {
    case EL_SOURCE_FILE:
        snprintf(buffer, EL_WHERE_SIZE, "%s (in the file %.140s)", row->name, options->config_file);
        break;
    case EL_SOURCE_ENVIRONMENT:
        snprintf(buffer, EL_WHERE_SIZE, "%s (environment variable %s)", row->name, row->variable);
        break;
    case EL_SOURCE_CODE:
    case EL_SOURCE_DEFAULT:
    case EL_SOURCE_NONE:
        snprintf(buffer, EL_WHERE_SIZE, "%s (%s)", row->name,
                 source == EL_SOURCE_CODE ? "in code" : "default");
        break;
    }
    return buffer;
}

static void join_words(char *buffer, size_t room, const el_option_row *row)
{
    size_t used = 0;
    for (int64_t i = row->min; i <= row->max && used < room; i++) {
        const char *before = i == row->min ? "" : i < row->max ? ", " : " or ";
        used += (size_t)snprintf(buffer + used, room - used, "%s%s", before, row->words[i - 1]);
    }
    if (row->type == EL_TYPE_LEVEL && used < room) {
        snprintf(buffer + used, room - used, ", or %lld to %lld", (long long)row->min, (long long)row->max);
    }
}

const char *el_option_allowed(char buffer[EL_ALLOWED_SIZE], el_option option, el_option_source source)
{
    const el_option_row *row = &el_option_table[option];
    const char *kind = "a whole number";
    switch (row->type) {
    case EL_TYPE_TEXT:
    case EL_TYPE_FILE:
        snprintf(buffer, EL_ALLOWED_SIZE, "a %s of at most %lld bytes",
                 row->type == EL_TYPE_FILE ? "path" : "text", (long long)row->max);
        break;
    case EL_TYPE_MILLISECONDS:
    case EL_TYPE_SECONDS:
        if (source == EL_SOURCE_ENVIRONMENT) {
            kind = row->bare_ms == 1 ? "a duration such as 500ms or 1.5s or a number of milliseconds"
                                     : "a duration such as 90s or 1m30s or a number of seconds";
        }
        snprintf(buffer, EL_ALLOWED_SIZE, "%s, %lld to %lld %s", kind, (long long)row->min,
                 (long long)row->max, row->unit);
        break;
    case EL_TYPE_COUNT:
        snprintf(buffer, EL_ALLOWED_SIZE, "%s, %lld to %lld", kind, (long long)row->min, (long long)row->max);
        break;
    case EL_TYPE_LEVEL:
    case EL_TYPE_WORD:
        join_words(buffer, EL_ALLOWED_SIZE, row);
        break;
    case EL_TYPE_BOOLEAN:
        snprintf(buffer, EL_ALLOWED_SIZE, "true or false");
        break;
    }
    return buffer;
}

int el_option_refuse(const el_options *options, el_option option, el_option_source source, const char *value,
                     el_failure *failure)
{
    const el_option_row *row = &el_option_table[option];
    char where[EL_WHERE_SIZE];
    char range[EL_ALLOWED_SIZE];
    return el_fail(failure, EINVAL, "%s: %.*s is refused, allowed is %s",
                   el_option_where(where, options, option, source), SHOWN_MAX,
                   row->secret ? "(not shown)" : value, el_option_allowed(range, option, source));
}

/* ---- saying ---- */

static int no_memory(el_failure *failure)
{
    return el_fail(failure, ENOMEM, "out of memory while reading the options");
}

int el_option_say_text(el_options *options, el_option option, el_option_source source, const char *text,
                       el_failure *failure)
{
    if (source != EL_SOURCE_DEFAULT && strlen(text) > (size_t)el_option_table[option].max) {
        return el_option_refuse(options, option, source, text, failure);
    }
    if (options->sources[option] != EL_SOURCE_NONE) return 0;
    char *copy = el_strdup(text);
    if (!copy) return no_memory(failure);
    *el_option_text(options, option) = copy;
    options->sources[option] = (unsigned char)source;
    return 0;
}

int el_option_say_number(el_options *options, el_option option, el_option_source source, int64_t number,
                         const char *shown, el_failure *failure)
{
    const el_option_row *row = &el_option_table[option];
    /* A default may lie outside: 0 is the automatic margin. */
    if (source != EL_SOURCE_DEFAULT && (number < row->min || number > row->max)) {
        return el_option_refuse(options, option, source, shown, failure);
    }
    if (options->sources[option] != EL_SOURCE_NONE) return 0;
    *el_option_number(options, option) = number;
    options->sources[option] = (unsigned char)source;
    return 0;
}

static int apply_defaults(el_options *options, el_failure *failure)
{
    int error = 0;
    for (int i = 0; i < EL_OPTIONS && !error; i++) {
        const el_option_row *row = &el_option_table[i];
        const char *text = row->text_default ? row->text_default : "";
        error = el_option_is_text(row)
                    ? el_option_say_text(options, (el_option)i, EL_SOURCE_DEFAULT, text, failure)
                    : el_option_say_number(options, (el_option)i, EL_SOURCE_DEFAULT, row->number_default, "",
                                           failure);
    }
    return error;
}

/* ---- what follows from several options together ---- */

static int refuse_unsupported(const el_options *options, el_failure *failure)
{
    if (options->insecure_skip_tls_verify) {
        return el_fail(
            failure, ENOTSUP,
            "ETCDCTL_INSECURE_SKIP_TLS_VERIFY is not supported: unset it and name the authority that "
            "signed the servers' certificates by ca_file or ETCDCTL_CACERT");
    }
    if (*options->discovery_srv && options->sources[EL_OPTION_ENDPOINTS] == EL_SOURCE_DEFAULT) {
        return el_fail(failure, ENOTSUP,
                       "ETCDCTL_DISCOVERY_SRV is not supported: name the members by endpoints or "
                       "ETCDCTL_ENDPOINTS");
    }
    return 0;
}

/* "name:password" is split unless the password was said at least as early, as etcdctl does it. */
static int split_user(el_options *options, el_failure *failure)
{
    bool password_first =
        *options->password && options->sources[EL_OPTION_PASSWORD] <= options->sources[EL_OPTION_USER];
    char *colon = strchr(options->user, ':');
    if (password_first) return 0;
    /* A user with a password of its own, and "" for no user, set a later password aside. */
    if (colon || !*options->user) {
        char *password = el_strdup(colon ? colon + 1 : "");
        if (!password) return no_memory(failure);
        el_free(options->password);
        options->password = password;
        options->sources[EL_OPTION_PASSWORD] = options->sources[EL_OPTION_USER];
    }
    if (colon) *colon = '\0';
    return 0;
}

/* Both or neither. */
static int check_pair(el_options *options, el_option one, el_option other, el_failure *failure)
{
    bool has_one = **el_option_text(options, one) != '\0';
    bool has_other = **el_option_text(options, other) != '\0';
    if (has_one == has_other) return 0;
    char where[EL_WHERE_SIZE];
    el_option given = has_one ? one : other;
    const el_option_row *missing = &el_option_table[has_one ? other : one];
    el_option_where(where, options, given, (el_option_source)options->sources[given]);
    return el_fail(failure, EINVAL, "%s is given without %s (%s): give both or neither", where, missing->name,
                   missing->variable);
}

static int read_pem(el_options *options, el_option option, char **pem, el_failure *failure)
{
    const char *path = *el_option_text(options, option);
    if (!*path) return 0;
    int error = el_option_read_contents(options, option, path, pem, failure);
    if (error || strstr(*pem, "-----BEGIN ")) return error;
    char where[EL_WHERE_SIZE];
    el_option_where(where, options, option, (el_option_source)options->sources[option]);
    return el_fail(failure, EINVAL, "%s: the file %.100s is not in PEM format (no line -----BEGIN ...)",
                   where, path);
}

static int work_out(el_options *options, el_failure *failure)
{
    char where[EL_WHERE_SIZE];
    el_option_where(where, options, EL_OPTION_ENDPOINTS,
                    (el_option_source)options->sources[EL_OPTION_ENDPOINTS]);
    int error = refuse_unsupported(options, failure);
    if (!error) error = el_endpoints_parse(&options->targets, options->endpoints, where, failure);
    if (!error) error = split_user(options, failure);
    if (!error) error = check_pair(options, EL_OPTION_USER, EL_OPTION_PASSWORD, failure);
    if (!error) error = check_pair(options, EL_OPTION_CERT_FILE, EL_OPTION_KEY_FILE, failure);
    if (!error) error = read_pem(options, EL_OPTION_CA_FILE, &options->ca_pem, failure);
    if (!error) error = read_pem(options, EL_OPTION_CERT_FILE, &options->cert_pem, failure);
    if (!error) error = read_pem(options, EL_OPTION_KEY_FILE, &options->key_pem, failure);
    options->tls =
        options->targets.tls || options->ca_pem || options->cert_pem || !options->insecure_transport;
    return error;
}

int el_options_resolve(el_options *out, const etcdlock_client_options *code, el_failure *failure)
{
    int saved_errno = errno;
    memset(out, 0, sizeof(*out));
    int error = el_options_read_code(out, code, failure);
    if (!error) error = el_option_read_variable(out, EL_OPTION_CONFIG_FILE, failure);
    if (!error) error = el_options_read_file(out, failure);
    if (!error) error = el_options_read_environment(out, failure);
    if (!error) error = apply_defaults(out, failure);
    if (!error) error = work_out(out, failure);
    if (error) el_options_free(out);
    errno = saved_errno;
    return error;
}

void el_options_free(el_options *options)
{
    for (int i = 0; i < EL_OPTIONS; i++) {
        if (el_option_is_text(&el_option_table[i])) el_free(*el_option_text(options, (el_option)i));
    }
    el_endpoints_free(&options->targets);
    el_free(options->ca_pem);
    el_free(options->cert_pem);
    el_free(options->key_pem);
    memset(options, 0, sizeof(*options));
}
