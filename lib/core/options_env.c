/* Options from the environment, as etcdctl reads it. */
#include <stdlib.h>
#include <string.h>

#include "core/options.h"

enum { FRACTION_DIGITS = 9 };

static const struct {
    const char *name;
    double ns;
} units[] = {
    /* Longer names first, so that "ms" is not taken for "m". The two signs for micro are different letters.
     */
    {"ns", 1},   {"us", 1e3}, {"\302\265s", 1e3}, {"\316\274s", 1e3},
    {"ms", 1e6}, {"s", 1e9},  {"m", 6e10},        {"h", 3.6e12},
};

static const char *skip_digits(const char *text)
{
    while (*text >= '0' && *text <= '9')
        text++;
    return text;
}

/* Reads "12.5" without asking the locale; NULL if there is no digit. */
static const char *parse_decimal(const char *text, double *number)
{
    const char *whole_end = skip_digits(text);
    const char *end = *whole_end == '.' ? skip_digits(whole_end + 1) : whole_end;
    double fraction = 0;
    double scale = 1;
    if (end - text == (*whole_end == '.')) return NULL;
    *number = 0;
    for (const char *c = text; c < whole_end; c++)
        *number = *number * 10 + (*c - '0');
    for (const char *c = whole_end + 1; c < end && c <= whole_end + FRACTION_DIGITS; c++) {
        fraction = fraction * 10 + (*c - '0');
        scale *= 10;
    }
    *number += fraction / scale;
    return end;
}

static const char *parse_unit(const char *text, double *ns)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        size_t size = strlen(units[i].name);
        if (strncmp(text, units[i].name, size) == 0) {
            *ns = units[i].ns;
            return text + size;
        }
    }
    return NULL;
}

bool el_duration_parse(const char *text, int64_t bare_ms, int64_t *ms)
{
    double total_ns = 0;
    if (*text == '+') text++;
    const char *first = text;
    do {
        double number;
        double ns;
        const char *after = parse_decimal(text, &number);
        if (!after) return false;
        bool alone = text == first && !*after;
        text = parse_unit(after, &ns);
        if (!text && !alone) return false;
        if (!text) {
            ns = (double)bare_ms * 1e6;
            text = after;
        }
        total_ns += number * ns;
    } while (*text);

    /* A nanosecond is forgiven: tenths are not exact in binary. */
    double exact_ms = (total_ns - 1) / 1e6;
    if (exact_ms >= 9e18) {
        *ms = INT64_MAX;
        return true;
    }
    int64_t floor_ms = exact_ms > 0 ? (int64_t)exact_ms : 0;
    *ms = total_ns - 1 > (double)floor_ms * 1e6 ? floor_ms + 1 : floor_ms;
    return true;
}

/* The words of Go's strconv.ParseBool, as etcdctl takes them. */
static bool parse_boolean(const char *text, int64_t *number)
{
    static const char *const truths[] = {"1", "t", "T", "true", "TRUE", "True"};
    static const char *const lies[] = {"0", "f", "F", "false", "FALSE", "False"};
    for (size_t i = 0; i < sizeof(truths) / sizeof(truths[0]); i++) {
        *number = strcmp(text, truths[i]) == 0;
        if (*number || strcmp(text, lies[i]) == 0) return true;
    }
    return false;
}

/* One that is too large for its row is refused there. */
static bool parse_count(const char *text, int64_t *number)
{
    const char *end = skip_digits(text);
    if (end == text || *end) return false;
    *number = strtoll(text, NULL, 10);
    return true;
}

static bool parse_number(const el_option_row *row, const char *text, int64_t *number)
{
    switch (row->type) {
    case EL_TYPE_MILLISECONDS:
        if (!el_duration_parse(text, row->bare_ms, number)) return false;
        if (row->raise && *number < row->min) *number = row->min;
        return true;
    case EL_TYPE_SECONDS:
        if (!el_duration_parse(text, row->bare_ms, number) || *number % 1000 != 0) return false;
        *number /= 1000;
        return true;
    case EL_TYPE_COUNT:
        return parse_count(text, number);
    case EL_TYPE_LEVEL:
    case EL_TYPE_WORD:
        *number = el_option_word(row, text);
        return *number != 0;
    case EL_TYPE_BOOLEAN:
        return parse_boolean(text, number);
    case EL_TYPE_TEXT:
    case EL_TYPE_FILE:
        break;
    }
    return false;
}

int el_option_read_variable(el_options *options, el_option option, el_failure *failure)
{
    const el_option_row *row = &el_option_table[option];
    int64_t number;
    /* A variable that is not needed is not looked at: a mistake in it hurts nobody. */
    if (options->sources[option] != EL_SOURCE_NONE) return 0;
    const char *text = secure_getenv(row->variable);
    if (!text || !*text) return 0;
    if (el_option_is_text(row)) {
        return el_option_say_text(options, option, EL_SOURCE_ENVIRONMENT, text, failure);
    }
    if (!parse_number(row, text, &number)) {
        return el_option_refuse(options, option, EL_SOURCE_ENVIRONMENT, text, failure);
    }
    return el_option_say_number(options, option, EL_SOURCE_ENVIRONMENT, number, text, failure);
}

int el_options_read_environment(el_options *options, el_failure *failure)
{
    int error = 0;
    for (int i = 0; i < EL_OPTIONS && !error; i++) {
        error = el_option_read_variable(options, (el_option)i, failure);
    }
    return error;
}
