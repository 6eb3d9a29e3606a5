/* The value of a lock key: a small JSON object that tells people and queries who holds it. */
#ifndef EL_VALUE_H
#define EL_VALUE_H

#include <stddef.h>
#include <stdint.h>

/* Who asks for a place. Strings may be NULL when written; when read they are "" for what is missing. */
typedef struct el_value {
    const char *host;
    const char *program;
    const char *label;
    int64_t pid;
    int64_t thread;
    int64_t since_unix_ms;
    const char
        *acquisition; /* 16 hex digits, random: names this one place; what makes a repeated write ours */
} el_value;

enum { EL_ACQUISITION_SIZE = 16 + 1 };

/* The JSON text, el_alloc'ed, NUL-terminated, its length in *size; NULL if memory runs out. Labels that are
 * no valid UTF-8 are written with the offending bytes replaced by '?'. */
char *el_value_write(const el_value *value, size_t *size);

/* Reads any bytes: what is no such object gives an empty el_value, a field of the wrong type counts as
 * missing. The strings live in *text (el_alloc'ed; free it with el_free). 0 or ENOMEM. */
int el_value_read(el_value *value, char **text, const char *data, size_t size);

#endif
