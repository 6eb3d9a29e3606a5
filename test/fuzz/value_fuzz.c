/* Values of lock keys. Input: the choice of failing memory, the value. */
#include "core/value.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "input.h"

static void expect_value(const el_value *value, size_t size)
{
    const char *texts[] = {value->host, value->program, value->label, value->acquisition};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        expect(texts[i] != NULL, "a text is there");
        expect(strlen(texts[i]) <= size, "no text is longer than the value");
    }
}

static bool is_same(const el_value *a, const el_value *b)
{
    return strcmp(a->host, b->host) == 0 && strcmp(a->program, b->program) == 0 &&
           strcmp(a->label, b->label) == 0 && strcmp(a->acquisition, b->acquisition) == 0 &&
           a->pid == b->pid && a->thread == b->thread && a->since_unix_ms == b->since_unix_ms;
}

/* What was read can be written, and is then read as the same: after the first time, which makes it UTF-8. */
static void write_and_read(const el_value *value)
{
    el_value first;
    el_value second;
    char *first_text;
    char *second_text;
    size_t size;
    char *json = el_value_write(value, &size);
    expect(json && strlen(json) == size, "a value can be written");
    expect(el_value_read(&first, &first_text, json, size) == 0, "and read");
    el_free(json);
    expect(first.pid == value->pid && first.thread == value->thread &&
               first.since_unix_ms == value->since_unix_ms,
           "numbers are the same");
    json = el_value_write(&first, &size);
    expect(json != NULL, "and written again");
    expect(el_value_read(&second, &second_text, json, size) == 0, "and read again");
    expect(is_same(&first, &second), "and is the same");
    el_free(json);
    el_free(first_text);
    el_free(second_text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const el_value none = {.host = "", .program = "", .label = "", .acquisition = ""};
    el_value value;
    el_value starved;
    char *text;
    char *starved_text;
    input in = {data, size};
    uint8_t failing = input_u8(&in);
    long alive = el_alloc_alive();
    uint8_t *bytes = input_bytes(&in);
    errno = 77;
    expect(el_value_read(&value, &text, (char *)bytes, in.size) == 0, "with memory any value is read");
    expect(errno == 77, "errno is left alone");
    expect_value(&value, in.size);
    write_and_read(&value);

    memory_fail(failing);
    int error = el_value_read(&starved, &starved_text, (char *)bytes, in.size);
    char *json = el_value_write(&value, &size);
    memory_recover();
    free(bytes);
    expect(error == 0 || error == ENOMEM, "lack of memory is said to be that");
    expect(is_same(&starved, error ? &none : &value), "what is read without memory is all or nothing");
    el_free(json);
    el_free(starved_text);
    el_free(text);
    expect(el_alloc_alive() == alive, "nothing is left behind");
    return 0;
}
