/* The options as the outside sees them: the public structs, and the README's table. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/options.h"

enum {
    PUBLIC_SIZE_MAX = 4096, /* no version's options will be larger: it is a size that was never set */
    MARGIN_MIN_MS = 100,    /* of the automatic margin */
    MARGIN_MAX_MS = 1000,
    MARGIN_PER_TTL_S_MS = 50, /* 5 % */
};

/* ---- reading a public struct ---- */

/* Copies what this version knows of a struct of the caller's version; what is beyond the caller's size stays
 * zero, so "not said". */
static int copy_struct(void *copy, size_t known, size_t alignment, const void *code, const char *macro,
                       el_failure *failure)
{
    size_t size;
    memcpy(&size, code, sizeof(size));
    if (size < sizeof(size) || size > PUBLIC_SIZE_MAX || size % alignment != 0) {
        return el_fail(failure, EINVAL, "options in code: size = %zu is none: start with %s", size, macro);
    }
    memcpy(copy, code, size < known ? size : known);
    for (size_t i = known; i < size; i++) {
        if (((const char *)code)[i] != 0) {
            return el_fail(failure, EINVAL,
                           "options in code: size = %zu, and a field is set that this version of the library "
                           "(size %zu) does not know: the program was made for a newer version",
                           size, known);
        }
    }
    return 0;
}

static int read_field(el_options *options, el_option option, const char *field, el_failure *failure)
{
    const el_option_row *row = &el_option_table[option];
    const char *text = NULL;
    int64_t number = 0;
    char shown[32];
    if (el_option_is_text(row)) {
        memcpy(&text, field, sizeof(text));
        return text ? el_option_say_text(options, option, EL_SOURCE_CODE, text, failure) : 0;
    }
    if (row->type == EL_TYPE_LEVEL) {
        etcdlock_log_level level;
        memcpy(&level, field, sizeof(level));
        number = (int64_t)(int)level;
    } else {
        memcpy(&number, field, sizeof(number));
    }
    snprintf(shown, sizeof(shown), "%lld", (long long)number);
    return number ? el_option_say_number(options, option, EL_SOURCE_CODE, number, shown, failure) : 0;
}

static int read_struct(el_options *options, el_option_scope scope, const void *code, el_failure *failure)
{
    int error = 0;
    for (int i = 0; i < EL_OPTIONS && !error; i++) {
        const el_option_row *row = &el_option_table[i];
        if (row->scope != scope) continue;
        error = read_field(options, (el_option)i, (const char *)code + row->code_offset, failure);
    }
    return error;
}

int el_options_read_code(el_options *options, const etcdlock_client_options *code, el_failure *failure)
{
    etcdlock_client_options copy;
    if (!code) return 0;
    memset(&copy, 0, sizeof(copy));
    int error = copy_struct(&copy, sizeof(copy), _Alignof(etcdlock_client_options), code,
                            "ETCDLOCK_CLIENT_OPTIONS_INIT", failure);
    if (error) return error;
    options->log = copy.log;
    options->log_arg = copy.log_arg;
    return read_struct(options, EL_SCOPE_CLIENT, &copy, failure);
}

/* ---- sessions ---- */

static int inherit(el_options *options, const el_options *client, el_failure *failure)
{
    int error = 0;
    for (int i = 0; i < EL_OPTIONS && !error; i++) {
        const el_option_row *row = &el_option_table[i];
        if (row->scope != EL_SCOPE_SESSION) continue;
        const void *field = (const char *)&client->session + row->offset;
        /* Checked when the client was made; as a default it is not checked again. */
        if (el_option_is_text(row)) {
            char *const *text = field;
            error = el_option_say_text(options, (el_option)i, EL_SOURCE_DEFAULT, *text, failure);
        } else {
            const int64_t *number = field;
            error = el_option_say_number(options, (el_option)i, EL_SOURCE_DEFAULT, *number, "", failure);
        }
    }
    return error;
}

int el_session_options_resolve(el_session_settings *out, const el_options *client,
                               const etcdlock_session_options *code, el_failure *failure)
{
    etcdlock_session_options copy;
    el_options scratch;
    int error = 0;
    memset(&copy, 0, sizeof(copy));
    memset(&scratch, 0, sizeof(scratch));
    if (code) {
        error = copy_struct(&copy, sizeof(copy), _Alignof(etcdlock_session_options), code,
                            "ETCDLOCK_SESSION_OPTIONS_INIT", failure);
    }
    if (!error) error = read_struct(&scratch, EL_SCOPE_SESSION, &copy, failure);
    if (!error) error = inherit(&scratch, client, failure);
    *out = scratch.session;
    if (error) {
        el_session_settings_free(out);
        return error;
    }
    out->on_state = copy.on_state;
    out->on_state_arg = copy.on_state_arg;
    return 0;
}

void el_session_settings_free(el_session_settings *settings)
{
    el_free(settings->label);
    memset(settings, 0, sizeof(*settings));
}

int el_margin_ms(int64_t asked_margin_ms, int64_t granted_ttl_s, int64_t *margin_ms)
{
    if (granted_ttl_s <= 0 || asked_margin_ms < 0) return EINVAL;
    /* etcd grants up to 9,000,000,000 s; the bound only keeps the products below in range. */
    int64_t ttl_s = granted_ttl_s < INT64_MAX / 1000 ? granted_ttl_s : INT64_MAX / 1000;
    int64_t margin = asked_margin_ms;
    if (margin == 0) {
        margin = ttl_s * MARGIN_PER_TTL_S_MS;
        if (margin < MARGIN_MIN_MS) margin = MARGIN_MIN_MS;
        if (margin > MARGIN_MAX_MS) margin = MARGIN_MAX_MS;
    }
    if (margin >= ttl_s * 1000 / 2) return EINVAL;
    *margin_ms = margin;
    return 0;
}

/* ---- etcdlock_client_options_resolve ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t shown_key; /* each thread's el_options that were shown to it last */
static int key_error = EAGAIN;

static void free_shown(void *shown)
{
    if (!shown) return;
    el_options_free(shown);
    el_free(shown);
}

static void make_key(void)
{
    key_error = pthread_key_create(&shown_key, free_shown);
}

/* A library that is unloaded must leave no destructor behind for threads that end later. */
__attribute__((destructor)) static void drop_key(void)
{
    if (key_error) return;
    free_shown(pthread_getspecific(shown_key));
    pthread_key_delete(shown_key);
}

static void show_field(char *field, const el_option_row *row, el_options *shown, el_option option)
{
    if (el_option_is_text(row)) {
        const char *text = *el_option_text(shown, option);
        memcpy(field, &text, sizeof(text));
    } else if (row->type == EL_TYPE_LEVEL) {
        etcdlock_log_level level = (etcdlock_log_level)*el_option_number(shown, option);
        memcpy(field, &level, sizeof(level));
    } else {
        memcpy(field, el_option_number(shown, option), sizeof(int64_t));
    }
}

static int resolve(el_options **shown, const etcdlock_client_options *code, el_failure *failure)
{
    pthread_once(&once, make_key);
    if (key_error) return el_fail(failure, key_error, "no thread-local storage is to be had");
    *shown = el_alloc(sizeof(**shown));
    if (!*shown) return el_fail(failure, ENOMEM, "out of memory while reading the options");
    int error = el_options_resolve(*shown, code, failure);
    if (error) goto free_memory;
    /* The strings of the last call may be those that this one was given; now they are copied. */
    void *last = pthread_getspecific(shown_key);
    error = pthread_setspecific(shown_key, *shown);
    if (error) {
        el_fail(failure, error, "no thread-local storage is to be had");
        goto free_options;
    }
    free_shown(last);
    return 0;

free_options:
    el_options_free(*shown);
free_memory:
    el_free(*shown);
    return error;
}

int etcdlock_client_options_resolve(etcdlock_client_options *options)
{
    el_failure failure = {0};
    el_options *shown = NULL;
    if (!options) return el_publish_new(EINVAL, "options is NULL");
    int saved_errno = errno;
    int error = resolve(&shown, options, &failure);
    errno = saved_errno;
    if (error || !shown) return el_publish(&failure);
    for (int i = 0; i < EL_OPTIONS; i++) {
        const el_option_row *row = &el_option_table[i];
        bool within = row->scope == EL_SCOPE_CLIENT && row->code_offset < options->size;
        if (within) show_field((char *)options + row->code_offset, row, shown, (el_option)i);
    }
    return 0;
}

/* ---- the README's table ---- */

void el_options_print_markdown(FILE *out)
{
    static const char *const scopes[] = {"client", "session", "drop-in", "environment only"};
    fprintf(out, "| Option | Of | Environment | Default | Allowed | Meaning |\n|---|---|---|---|---|---|\n");
    for (int i = 0; i < EL_OPTIONS; i++) {
        const el_option_row *row = &el_option_table[i];
        char range[EL_ALLOWED_SIZE];
        char number[32];
        const char *fallback = row->text_default;
        if (!fallback && el_option_is_text(row)) fallback = "none";
        if (!fallback && row->words) fallback = row->words[row->number_default - 1];
        if (!fallback && row->type == EL_TYPE_BOOLEAN) fallback = row->number_default ? "true" : "false";
        if (!fallback) {
            snprintf(number, sizeof(number), "%lld %s", (long long)row->number_default, row->unit);
            fallback = number;
        }
        fprintf(out, "| `%s` | %s | `%s` | %s | %s | %s |\n", row->name, scopes[row->scope], row->variable,
                fallback, el_option_allowed(range, (el_option)i, EL_SOURCE_FILE), row->help);
    }
}
