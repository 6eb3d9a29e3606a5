/* Names of locks. Input: the name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/key.h"
#include "input.h"

static bool is_allowed(const char *name, size_t size)
{
    bool is_after_slash = true;
    for (size_t i = 0; i < size; i++) {
        if (name[i] == '/' && is_after_slash) return false;
        is_after_slash = name[i] == '/';
    }
    return size <= EL_NAME_MAX && !is_after_slash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    el_failure failure = {0};
    char *name = input_text(&in);
    int error = el_name_check(name, &failure);
    expect(error == (is_allowed(name, strlen(name)) ? 0 : EINVAL), "a name is allowed by the rules");
    if (error) expect_failure(&failure, error);
    free(name);
    return 0;
}
