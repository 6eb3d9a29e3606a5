#include "core/value.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"

enum {
    VALUE_SIZE_MAX = 64 * 1024, /* what is larger was not written here */
    DEPTH_MAX = 16,             /* ours has a depth of 1; cJSON recurses, and on any thread's stack */
};

/* From here on doubles, which cJSON has for numbers, no longer tell whole numbers apart. */
static const int64_t whole_numbers_end = INT64_C(1) << 53;

/* ---- writing ---- */

/* The size of the UTF-8 character at text, which ends with a NUL; 0: it is none. */
static size_t character_size(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    size_t size;
    if (c[0] < 0x80) return 1;
    if (c[0] < 0xC2 || c[0] > 0xF4) return 0;
    size = c[0] < 0xE0 ? 2 : c[0] < 0xF0 ? 3 : 4;
    /* The second byte rules out what has a shorter form, the surrogates, and what is beyond U+10FFFF. */
    if (c[0] == 0xE0) low = 0xA0;
    if (c[0] == 0xED) high = 0x9F;
    if (c[0] == 0xF0) low = 0x90;
    if (c[0] == 0xF4) high = 0x8F;
    if (c[1] < low || c[1] > high) return 0;
    for (size_t i = 2; i < size; i++) {
        if (c[i] < 0x80 || c[i] > 0xBF) return 0;
    }
    return size;
}

static bool add_text(cJSON *object, const char *name, const char *text)
{
    if (!text || !*text) return true;
    char *clean = el_strdup(text);
    if (!clean) return false;
    for (char *c = clean; *c;) {
        size_t size = character_size(c);
        if (size == 0) *c = '?';
        c += size ? size : 1;
    }
    bool added = cJSON_AddStringToObject(object, name, clean) != NULL;
    el_free(clean);
    return added;
}

static bool add_number(cJSON *object, const char *name, int64_t number)
{
    char digits[24];
    if (number == 0 || number <= -whole_numbers_end || number >= whole_numbers_end) return true;
    /* cJSON's own way with numbers rounds them to 15 digits. */
    snprintf(digits, sizeof(digits), "%" PRId64, number);
    return cJSON_AddRawToObject(object, name, digits) != NULL;
}

char *el_value_write(const el_value *value, size_t *size)
{
    char *copy = NULL;
    char *text = NULL;
    cJSON *object = cJSON_CreateObject();
    bool added = object && add_text(object, "host", value->host) && add_number(object, "pid", value->pid) &&
                 add_number(object, "thread", value->thread) && add_text(object, "program", value->program) &&
                 add_text(object, "label", value->label) &&
                 add_number(object, "since_unix_ms", value->since_unix_ms) &&
                 add_text(object, "acquisition", value->acquisition);
    if (added) text = cJSON_PrintUnformatted(object);
    if (text) {
        *size = strlen(text);
        copy = el_memdup(text, *size + 1);
    }
    if (text) cJSON_free(text);
    cJSON_Delete(object);
    return copy;
}

/* ---- reading ---- */

/* Whether it can be an object of ours, without any recursion. */
static bool is_plausible(const char *data, size_t size)
{
    int depth = 0;
    bool quoted = false;
    if (size == 0 || size > VALUE_SIZE_MAX || memchr(data, '\0', size)) return false;
    for (size_t i = 0; i < size; i++) {
        char c = data[i];
        if (c == '"') quoted = !quoted;
        if (quoted && c == '\\') i++;
        if (quoted) continue;
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') depth--;
        if (depth > DEPTH_MAX) return false;
    }
    return true;
}

/* *root is NULL for what is no JSON. 0 or ENOMEM. */
static int parse(cJSON **root, const char *data, size_t size)
{
    *root = NULL;
    if (!is_plausible(data, size)) return 0;
    /* With a NUL at the end: cJSON is known to look one byte too far in some versions. */
    char *copy = el_alloc(size + 1);
    if (!copy) return ENOMEM;
    memcpy(copy, data, size);

    /* cJSON does not say whether memory ran out or the text is wrong; malloc does. It matters: a value that
     * merely could not be read must not be taken for somebody else's. */
    int saved_errno = errno;
    errno = 0;
    *root = cJSON_ParseWithLengthOpts(copy, size + 1, NULL, true);
    int error = !*root && errno == ENOMEM ? ENOMEM : 0;
    errno = saved_errno;
    el_free(copy);
    return error;
}

static const char *text_of(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text ? text : "";
}

static int64_t number_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item)) return 0;
    double number = item->valuedouble;
    double end = (double)whole_numbers_end;
    if (!(number > -end && number < end) || (double)(int64_t)number != number) return 0;
    return (int64_t)number;
}

int el_value_read(el_value *value, char **text, const char *data, size_t size)
{
    static const char *const names[] = {"host", "program", "label", "acquisition"};
    const char **fields[] = {&value->host, &value->program, &value->label, &value->acquisition};
    enum { N_TEXTS = sizeof(names) / sizeof(names[0]) };
    cJSON *root;
    size_t total = 0;

    *text = NULL;
    memset(value, 0, sizeof(*value));
    for (size_t i = 0; i < N_TEXTS; i++)
        *fields[i] = "";
    int error = parse(&root, data, size);
    if (error || !cJSON_IsObject(root)) goto free_root;

    for (size_t i = 0; i < N_TEXTS; i++)
        total += strlen(text_of(root, names[i])) + 1;
    *text = el_alloc(total);
    if (!*text) {
        error = ENOMEM;
        goto free_root;
    }
    char *cursor = *text;
    for (size_t i = 0; i < N_TEXTS; i++) {
        *fields[i] = cursor;
        cursor = stpcpy(cursor, text_of(root, names[i])) + 1;
    }
    value->pid = number_of(root, "pid");
    value->thread = number_of(root, "thread");
    value->since_unix_ms = number_of(root, "since_unix_ms");

free_root:
    cJSON_Delete(root);
    return error;
}
