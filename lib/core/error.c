#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[sizeof(((el_failure *)0)->text)];
static _Thread_local char system_text[128];

static const struct {
    int error;
    const char *text;
} texts[] = {
    {0, "no error"},
    {ETCDLOCK_ESESSION, "the session is lost"},
    {ETCDLOCK_EENTRY, "the lock's entry was deleted by somebody else"},
    {ETCDLOCK_EUNKNOWN, "no answer: the outcome is unknown"},
    {ETCDLOCK_EUNREACHABLE, "no endpoint of etcd can be reached"},
    {ETCDLOCK_EFORKED, "the handle belongs to the parent process"},
    {ETCDLOCK_EKIND, "the name is in use for another kind of lock"},
    {ETCDLOCK_EPROTOCOL, "an answer of etcd could not be understood"},
};

const char *etcdlock_strerror(int error)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].error == error) return texts[i].text;
    }
    /* The GNU function: it may return a constant text instead of filling the buffer. */
    const char *text = strerror_r(error, system_text, sizeof(system_text));
    if (text != system_text) snprintf(system_text, sizeof(system_text), "%s", text);
    return system_text;
}

const char *etcdlock_error_message(void)
{
    return message;
}

void el_one_line(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 127) *text = '?';
    }
}

__attribute__((format(printf, 3, 0))) static int fill(el_failure *failure, int error, const char *format,
                                                      va_list arguments)
{
    failure->error = error;
    vsnprintf(failure->text, sizeof(failure->text), format, arguments);
    el_one_line(failure->text);
    return error;
}

int el_fail(el_failure *failure, int error, const char *format, ...)
{
    if (!failure) return error;
    va_list arguments;
    va_start(arguments, format);
    fill(failure, error, format, arguments);
    va_end(arguments);
    return error;
}

int el_publish(const el_failure *failure)
{
    if (failure->error) memcpy(message, failure->text, sizeof(message));
    return failure->error;
}

int el_publish_new(int error, const char *format, ...)
{
    el_failure failure;
    va_list arguments;
    va_start(arguments, format);
    fill(&failure, error, format, arguments);
    va_end(arguments);
    return el_publish(&failure);
}
