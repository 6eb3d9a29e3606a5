/* The variables of the environment, durations above all. Input: which option, the choice of failing memory,
 * the variable's value. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/options.h"
#include "input.h"

enum { EXACT_DIGITS = 12 }; /* so many digits a double holds whatever unit is meant */

/* A number alone is worth what it says. */
static void expect_bare(const char *text, int64_t bare_ms, bool parsed, int64_t ms)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > EXACT_DIGITS || text[n]) return;
    expect(parsed && ms == strtoll(text, NULL, 10) * bare_ms, "a bare number is worth what it says");
}

/* A unit more never makes a duration shorter. */
static void expect_growing(const char *text, int64_t bare_ms, int64_t ms)
{
    char *longer = malloc(strlen(text) + sizeof("1h"));
    int64_t more_ms = -1;
    expect(longer != NULL, "the test has memory");
    sprintf(longer, "%s1h", text);
    if (el_duration_parse(longer, bare_ms, &more_ms))
        expect(more_ms >= ms || strspn(text, "+.0123456789") == strlen(text), "a further hour adds time");
    free(longer);
}

static void parse(const char *text, int64_t bare_ms)
{
    int64_t ms = -1;
    bool parsed = el_duration_parse(text, bare_ms, &ms);
    expect_bare(text, bare_ms, parsed, ms);
    if (!parsed) return;
    expect(ms >= 0, "no duration is negative");
    expect(strspn(text, "+.0123456789nusmh\302\265\316\274") == strlen(text),
           "a duration has these letters only");
    expect_growing(text, bare_ms, ms);
}

static int read_variable(el_option option)
{
    const el_option_row *row = &el_option_table[option];
    el_options options = {0};
    el_failure failure = {0};
    int error = el_option_read_variable(&options, option, &failure);
    if (error) {
        expect_failure(&failure, error);
        expect(options.sources[option] == EL_SOURCE_NONE, "what is refused is not said");
    } else if (options.sources[option] && !el_option_is_text(row)) {
        int64_t number = *el_option_number(&options, option);
        expect(number >= row->min && number <= row->max, "a number is within its range");
    }
    el_options_free(&options);
    return error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    el_option option = (el_option)(input_u8(&in) % EL_OPTIONS);
    uint8_t failing = input_u8(&in);
    const char *name = el_option_table[option].variable;
    char *text = input_text(&in);
    parse(text, 1);
    parse(text, 1000);

    /* setenv keeps every value it ever saw. */
    char *variable = malloc(strlen(name) + strlen(text) + 2);
    expect(variable != NULL, "the test has memory");
    sprintf(variable, "%s=%s", name, text);
    putenv(variable);
    long alive = el_alloc_alive();
    int error = read_variable(option);
    expect(error == 0 || error == EINVAL, "with memory a variable is read or refused");
    memory_fail(failing);
    int starved_error = read_variable(option);
    memory_recover();
    expect(starved_error == error || starved_error == ENOMEM, "lack of memory is said to be that");
    expect(el_alloc_alive() == alive, "nothing is left behind");
    unsetenv(name);
    free(variable);
    free(text);
    return 0;
}
