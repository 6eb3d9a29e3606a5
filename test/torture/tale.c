#include "torture/tale.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/oracle.h"

static int tale_fd = -1;

static void give_up(const char *what)
{
    perror(what);
    abort();
}

void tale_open(const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tale", folder);
    tale_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (tale_fd < 0) give_up(path);
}

void tale_tell(tale_record record)
{
    if (record.at_ns == 0) record.at_ns = oracle_now_ns();
    if (record.pid == 0) {
        record.pid = (int32_t)getpid();
        record.tid = (int32_t)syscall(SYS_gettid);
    }
    if (write(tale_fd, &record, sizeof record) != (ssize_t)sizeof record) give_up("tale");
}

tale_record *tale_read(const char *folder, size_t *n)
{
    char path[512];
    struct stat status;
    snprintf(path, sizeof path, "%s/tale", folder);
    FILE *file = fopen(path, "rbe");
    if (!file || fstat(fileno(file), &status) != 0) give_up(path);
    *n = (size_t)status.st_size / sizeof(tale_record);
    tale_record *records = calloc(*n + 1, sizeof *records);
    if (!records || fread(records, sizeof *records, *n, file) != *n) give_up(path);
    fclose(file);
    return records;
}

int tale_holder(const char *folder, int lock)
{
    enum { LOOKED_AT = 400 };
    char path[512];
    tale_record records[LOOKED_AT];
    struct stat status;
    int holder = -1;
    snprintf(path, sizeof path, "%s/tale", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) give_up(path);
    off_t n = status.st_size / (off_t)sizeof records[0], first = n > LOOKED_AT ? n - LOOKED_AT : 0;
    ssize_t size = pread(fd, records, sizeof records, first * (off_t)sizeof records[0]);
    close(fd);
    for (ssize_t i = 0; i < size / (ssize_t)sizeof records[0]; i++) {
        if (records[i].lock != lock) continue;
        if (records[i].kind == TALE_ENTER) holder = records[i].slot;
        if (records[i].kind == TALE_UNLOCK && records[i].slot == holder) holder = -1;
    }
    return holder;
}

const char *call_name(int call)
{
    static const char *const names[CALL_KINDS] = {"lock", "lock_for", "trylock"};
    return call >= 0 && call < CALL_KINDS ? names[call] : "?";
}

const char *how_name(int how)
{
    static const char *const names[HOW_KINDS] = {"callback", "descriptor", "ensure", "token", "unlock"};
    return how >= 0 && how < HOW_KINDS ? names[how] : "?";
}

const char *lock_name(int lock)
{
    static const char *const names[LOCKS] = {TORTURE_PREFIX "a", TORTURE_PREFIX "b", TORTURE_PREFIX "c"};
    return names[lock];
}
