/* Names of keys in a lock's folder. Input: whether a reader, lease (8 bytes), slot (8 bytes), the key. */
#include "core/key.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"

static const char folder_text[] = "pre/NAME/";
static const el_span folder = {folder_text, sizeof(folder_text) - 1};

/* The shape by another way; the text ends with a NUL. */
static el_entry_shape shape_by_pattern(const char *entry, size_t size)
{
    static regex_t pattern;
    static bool is_ready;
    if (!is_ready) {
        int error = regcomp(&pattern, "^(r-)?-?[0-9a-f]{1,16}(-[0-9]{1,10})?$", REG_EXTENDED | REG_NOSUB);
        expect(error == 0, "the pattern is one");
        is_ready = true;
    }
    if (strlen(entry) != size || regexec(&pattern, entry, 0, NULL, 0)) return EL_SHAPE_STRAY;
    return entry[0] == 'r' ? EL_SHAPE_READER : EL_SHAPE_WRITER;
}

static void expect_shape(el_span key)
{
    el_entry_shape shape = el_key_shape(key, folder);
    if (shape == EL_SHAPE_STRAY) return;
    expect(key.size > folder.size && memcmp(key.data, folder.data, folder.size) == 0, "it is in the folder");
    expect(key.size - folder.size <= EL_ENTRY_MAX, "an entry's name is bounded");
}

static void expect_entry(const input *in)
{
    char *key = malloc(folder.size + in->size + 1);
    expect(key != NULL, "the test has memory");
    memcpy(key, folder.data, folder.size);
    if (in->size) memcpy(key + folder.size, in->data, in->size);
    key[folder.size + in->size] = '\0';
    el_span span = {key, folder.size + in->size};
    expect_shape(span);
    if (in->size <= 2 * EL_ENTRY_MAX)
        expect(el_key_shape(span, folder) == shape_by_pattern(key + folder.size, in->size),
               "the shape is what the pattern says");
    free(key);
}

/* What is written has the shape and the length that were promised, and other numbers give other names. */
static void expect_written(bool reader, int64_t lease, unsigned slot)
{
    char *buffer = malloc(folder.size + EL_ENTRY_MAX + 1);
    char other[sizeof(folder_text) + EL_ENTRY_MAX + 1];
    expect(buffer != NULL, "the test has memory");
    size_t size = el_key_write(buffer, folder, reader, lease, slot);
    expect(size <= folder.size + EL_ENTRY_MAX && strlen(buffer) == size, "it fits and ends with a NUL");
    expect(el_key_shape((el_span){buffer, size}, folder) == (reader ? EL_SHAPE_READER : EL_SHAPE_WRITER),
           "what is written is an entry of its kind");
    const char *digits = buffer + folder.size + (reader ? 2 : 0);
    char *end;
    uint64_t magnitude = strtoull(digits + (lease < 0), &end, 16);
    expect((lease < 0 ? (int64_t)(0 - magnitude) : (int64_t)magnitude) == lease,
           "the lease can be read back");
    expect((*end ? strtoul(end + 1, NULL, 10) : 0) == slot, "and the slot");
    el_key_write(other, folder, reader, lease, slot ^ 1);
    expect(strcmp(buffer, other) != 0, "another slot has another name");
    free(buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    bool reader = input_u8(&in) & 1;
    int64_t lease = input_i64(&in);
    unsigned slot = (unsigned)input_i64(&in);
    expect_written(reader, lease, slot);
    uint8_t *bytes = input_bytes(&in);
    expect_shape((el_span){(const char *)bytes, in.size});
    free(bytes);
    expect_entry(&in);
    return 0;
}
