#include "input.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"

static long cjson_left;

uint8_t input_u8(input *in)
{
    if (in->size == 0) return 0;
    in->size--;
    return *in->data++;
}

int64_t input_i64(input *in)
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number = number << 8 | input_u8(in);
    return (int64_t)number;
}

static void *of_size(size_t size)
{
    void *memory = malloc(size ? size : 1);
    if (!memory) abort();
    return memory;
}

uint8_t *input_bytes(const input *in)
{
    uint8_t *bytes = of_size(in->size);
    if (in->size) memcpy(bytes, in->data, in->size);
    return bytes;
}

char *input_text(const input *in)
{
    size_t size = in->size ? strnlen((const char *)in->data, in->size) : 0;
    char *text = of_size(size + 1);
    if (size) memcpy(text, in->data, size);
    text[size] = '\0';
    return text;
}

void expect(bool truth, const char *what)
{
    if (truth) return;
    fprintf(stderr, "not so: %s\n", what);
    abort();
}

void expect_failure(const el_failure *failure, int error)
{
    expect(failure->error == error, "the failure has the error that was returned");
    expect(failure->text[0] != '\0', "the failure has a text");
    for (const char *c = failure->text; *c; c++)
        expect((unsigned char)*c >= ' ' && *c != 127, "the failure's text is one line");
}

void touch(const void *data, size_t size)
{
    const volatile uint8_t *byte = data;
    for (size_t i = 0; i < size; i++)
        (void)byte[i];
}

static void *cjson_malloc(size_t size)
{
    if (cjson_left > 0) {
        cjson_left--;
        return malloc(size);
    }
    errno = ENOMEM;
    return NULL;
}

void memory_fail(uint8_t choice)
{
    cJSON_Hooks hooks = {cjson_malloc, free};
    if (choice % 2 == 0) {
        el_alloc_fail_after(choice / 2);
        return;
    }
    cjson_left = choice / 2;
    cJSON_InitHooks(&hooks);
}

void memory_recover(void)
{
    el_alloc_fail_after(-1);
    cJSON_InitHooks(NULL);
}
