#include "core/key.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SLOT_DIGITS_MAX = 10 };

bool el_span_equal(el_span a, el_span b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

int el_name_check(const char *name, el_failure *failure)
{
    if (!name) return el_fail(failure, EINVAL, "no lock name given (NULL)");
    size_t size = strlen(name);
    if (size == 0) return el_fail(failure, EINVAL, "the lock name is empty: give 1 to %d bytes", EL_NAME_MAX);
    if (size > EL_NAME_MAX)
        return el_fail(failure, EINVAL, "the lock name has %zu bytes: at most %d are allowed", size,
                       EL_NAME_MAX);
    if (name[0] == '/' || name[size - 1] == '/')
        return el_fail(failure, EINVAL,
                       "the lock name \"%.100s\" begins or ends with '/': leave that '/' out", name);
    if (strstr(name, "//"))
        return el_fail(failure, EINVAL, "the lock name \"%.100s\" contains \"//\": use a single '/'", name);
    return 0;
}

static size_t count_hex(const char *text, size_t size)
{
    size_t n = 0;
    while (n < size && ((text[n] >= '0' && text[n] <= '9') || (text[n] >= 'a' && text[n] <= 'f')))
        n++;
    return n;
}

static size_t count_decimal(const char *text, size_t size)
{
    size_t n = 0;
    while (n < size && text[n] >= '0' && text[n] <= '9')
        n++;
    return n;
}

el_entry_shape el_key_shape(el_span key, el_span folder)
{
    if (key.size <= folder.size || memcmp(key.data, folder.data, folder.size) != 0) return EL_SHAPE_STRAY;
    const char *entry = key.data + folder.size;
    size_t left = key.size - folder.size;
    el_entry_shape shape = EL_SHAPE_WRITER;
    if (left > 2 && entry[0] == 'r' && entry[1] == '-') {
        shape = EL_SHAPE_READER;
        entry += 2;
        left -= 2;
    }
    if (left > 1 && entry[0] == '-') { /* Go prints a negative lease id with its sign */
        entry++;
        left--;
    }
    size_t n = count_hex(entry, left);
    if (n == 0 || n > 16) return EL_SHAPE_STRAY;
    if (n == left) return shape;
    if (entry[n] != '-') return EL_SHAPE_STRAY;
    size_t digits = count_decimal(entry + n + 1, left - n - 1);
    /* No longer than what el_key_write writes: whoever remembers an entry has EL_ENTRY_MAX bytes for it. */
    if (digits == 0 || digits > SLOT_DIGITS_MAX) return EL_SHAPE_STRAY;
    return n + 1 + digits == left ? shape : EL_SHAPE_STRAY;
}

size_t el_key_write(char *buffer, el_span folder, bool reader, int64_t lease, unsigned slot)
{
    memcpy(buffer, folder.data, folder.size);
    uint64_t magnitude = lease < 0 ? 0 - (uint64_t)lease : (uint64_t)lease;
    char *entry = buffer + folder.size;
    int n = snprintf(entry, EL_ENTRY_MAX + 1, "%s%s%" PRIx64, reader ? "r-" : "", lease < 0 ? "-" : "",
                     magnitude);
    if (slot > 0) n += snprintf(entry + n, EL_ENTRY_MAX + 1 - (size_t)n, "-%u", slot);
    return folder.size + (size_t)n;
}
