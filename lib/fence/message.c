#include "fence/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "etcdlock/fence.h"

static _Thread_local char message[512];

const char *etcdlock_fence_error_message(void)
{
    return message;
}

/* Names and paths come from outside: they must not break the line or move a terminal's cursor. */
static void one_line(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 127) *text = '?';
    }
}

int el_fence_fail(int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    one_line(message);
    return error;
}

static const char *advice(int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
        return "it must be readable and writable by this user, its folder too if it is created";
    case EROFS:
        return "the file system is mounted read-only; a guard has to write";
    case ENOSPC:
    case EDQUOT:
        return "nothing was admitted; make room and try again";
    case EIO:
        return "nothing was admitted; look at the disk before using this store again";
    case ENOENT:
        return "make its folder, or, if the store should be there, restore it: a new one admits all";
    case ELOOP:
        return "symbolic links are not followed; give the path of the file itself";
    case EMFILE:
    case ENFILE:
        return "close other files or raise the limit";
    case ENOTSUP:
    case ENOLCK:
        return "put it on a local file system with hard links and locks of open file descriptions";
    default:
        return "nothing was admitted";
    }
}

int el_fence_fail_file(int error, const char *path, const char *what)
{
    char room[128];
    /* The GNU function: it may return a constant text instead of filling the buffer. */
    const char *reason = strerror_r(error, room, sizeof(room));
    return el_fence_fail(error, "fence file %.200s: cannot %s: %s; %s", path, what, reason, advice(error));
}
