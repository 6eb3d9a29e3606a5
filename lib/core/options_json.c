/* Options from files: the JSON file with options, and the contents of files that options name. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/file.h"
#include "core/options.h"

enum {
    SHOWN_MAX = 60, /* bytes of a key that a message shows */
};

/* From here on doubles no longer tell whole numbers apart. */
#define WHOLE_NUMBERS_END 9007199254740992.0

/* ---- contents ---- */

int el_option_read_contents(const el_options *options, el_option option, const char *path, char **contents,
                            el_failure *failure)
{
    char where[EL_WHERE_SIZE];
    size_t size = 0;
    int error = el_file_read(path, contents, &size);
    if (*contents && strlen(*contents) == size) return 0;
    el_free(*contents);
    *contents = NULL;
    el_option_where(where, options, option, (el_option_source)options->sources[option]);
    if (!error) return el_fail(failure, EINVAL, "%s: the file %.100s holds a NUL byte", where, path);
    if (error == EFBIG) return el_fail(failure, error, "%s: the file %.100s is over 1 MiB", where, path);
    return el_fail(failure, error, "%s: cannot read %.100s: %s", where, path, etcdlock_strerror(error));
}

/* ---- JSON ---- */

static int refuse_item(const el_options *options, el_option option, const cJSON *item, el_failure *failure)
{
    char *shown = cJSON_PrintUnformatted(item);
    int error = el_option_refuse(options, option, EL_SOURCE_FILE, shown ? shown : "its value", failure);
    if (shown) cJSON_free(shown);
    return error;
}

/* The number that an item says for the row; false: it says none. */
static bool item_number(const el_option_row *row, const cJSON *item, int64_t *number)
{
    if (row->words && cJSON_IsString(item)) {
        *number = el_option_word(row, item->valuestring);
        return *number != 0;
    }
    if (row->type == EL_TYPE_WORD || !cJSON_IsNumber(item)) return false;
    double value = item->valuedouble;
    if (!(value > -WHOLE_NUMBERS_END && value < WHOLE_NUMBERS_END)) return false;
    *number = (int64_t)value;
    return (double)*number == value;
}

static int read_item(el_options *options, el_option option, const cJSON *item, el_failure *failure)
{
    const el_option_row *row = &el_option_table[option];
    int64_t number;
    if (el_option_is_text(row)) {
        if (!cJSON_IsString(item)) return refuse_item(options, option, item, failure);
        return el_option_say_text(options, option, EL_SOURCE_FILE, item->valuestring, failure);
    }
    if (!item_number(row, item, &number) || number < row->min || number > row->max) {
        return refuse_item(options, option, item, failure);
    }
    return el_option_say_number(options, option, EL_SOURCE_FILE, number, "", failure);
}

/* The option that a file's key names; EL_OPTIONS: none. */
static int option_of(const char *key)
{
    int i = 0;
    while (i < EL_OPTIONS && (el_option_table[i].not_in_file || strcmp(el_option_table[i].name, key) != 0))
        i++;
    return i;
}

static int refuse_key(const el_options *options, const char *key, el_failure *failure)
{
    return el_fail(failure, EINVAL, "%.200s: \"%.*s\" is no option that a file may say", options->config_file,
                   SHOWN_MAX, key);
}

static int read_object(el_options *options, const cJSON *object, el_failure *failure)
{
    bool seen[EL_OPTIONS] = {false};
    int error = 0;
    if (!cJSON_IsObject(object)) {
        return el_fail(failure, EINVAL, "%.200s: an object { \"option\": value, ... } is expected",
                       options->config_file);
    }
    for (const cJSON *item = object->child; item && !error; item = item->next) {
        int option = option_of(item->string);
        if (option == EL_OPTIONS) return refuse_key(options, item->string, failure);
        if (seen[option]) {
            return el_fail(failure, EINVAL, "%.200s: \"%s\" is there twice", options->config_file,
                           item->string);
        }
        seen[option] = true;
        error = read_item(options, (el_option)option, item, failure);
    }
    return error;
}

/* cJSON would cut the string there without a word. */
static const char *find_escaped_nul(const char *text)
{
    for (const char *c = strchr(text, '\\'); c; c = strchr(c, '\\')) {
        if (strncmp(c, "\\u0000", 6) == 0) return c;
        c += c[1] ? 2 : 1;
    }
    return NULL;
}

static int refuse_syntax(const el_options *options, const char *text, const char *at, el_failure *failure)
{
    unsigned line = 1;
    for (const char *c = text; c < at; c++)
        line += *c == '\n';
    return el_fail(failure, EINVAL, "%.200s: line %u: this is not JSON", options->config_file, line);
}

int el_options_read_file(el_options *options, el_failure *failure)
{
    char *text;
    if (!options->config_file || !*options->config_file) return 0;
    int error = el_option_read_contents(options, EL_OPTION_CONFIG_FILE, options->config_file, &text, failure);
    if (!text) return error;

    const char *end = find_escaped_nul(text);
    cJSON *root = NULL;
    if (end) {
        error = refuse_syntax(options, text, end, failure);
        goto free_text;
    }
    end = text;
    errno = 0;
    root = cJSON_ParseWithLengthOpts(text, strlen(text) + 1, &end, true);
    if (!root) {
        /* cJSON does not say which of the two it was; malloc does. */
        error = errno == ENOMEM ? el_fail(failure, ENOMEM, "%.200s: out of memory", options->config_file)
                                : refuse_syntax(options, text, end, failure);
        goto free_text;
    }
    error = read_object(options, root, failure);

    cJSON_Delete(root);
free_text:
    el_free(text);
    return error;
}
