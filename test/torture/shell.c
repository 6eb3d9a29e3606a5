#include "torture/shell.h"

#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

enum { LINE_ROOM = 2048 };

static bool read_v(char *out, size_t size, const char *format, va_list words)
{
    char line[LINE_ROOM];
    if (vsnprintf(line, sizeof line, format, words) >= (int)sizeof line) return false;
    FILE *pipe = popen(line, "re");
    if (!pipe) return false;
    size_t n = fread(out, 1, size - 1, pipe);
    out[n] = '\0';
    return pclose(pipe) == 0;
}

bool shell_read(char *out, size_t size, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    bool good = read_v(out, size, format, words);
    va_end(words);
    return good;
}

long long shell_number(const char *format, ...)
{
    char out[64], *end;
    va_list words;
    va_start(words, format);
    bool good = read_v(out, sizeof out, format, words);
    va_end(words);
    long long number = strtoll(out, &end, 10);
    return good && end != out ? number : -1;
}

pid_t shell_start(const char *format, ...)
{
    char line[LINE_ROOM], sh[] = "sh", c[] = "-c";
    char *words[] = {sh, c, line, NULL};
    pid_t pid = -1;
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (size >= (int)sizeof line || posix_spawn(&pid, "/bin/sh", NULL, NULL, words, environ) != 0) return -1;
    return pid;
}

bool shell_ended(pid_t pid, int *status)
{
    return waitpid(pid, status, WNOHANG) == pid;
}
