#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/alloc.h"

enum {
    CONTENTS_MAX = 1024 * 1024,
    FIRST_ROOM = 4096,
};

static int read_all(int fd, char **contents, size_t *size)
{
    char *text = NULL;
    size_t room = 0;
    *size = 0;
    for (;;) {
        if (*size + 1 >= room) {
            room = room ? room * 2 : FIRST_ROOM;
            char *larger = el_realloc(text, room);
            if (!larger) {
                el_free(text);
                return ENOMEM;
            }
            text = larger;
        }
        ssize_t got = read(fd, text + *size, room - *size - 1);
        if (got < 0 && errno == EINTR) continue;
        int error = got < 0 ? errno : 0;
        if (got > 0) *size += (size_t)got;
        if (*size > CONTENTS_MAX) error = EFBIG;
        if (error) {
            el_free(text);
            return error;
        }
        if (got == 0) break;
    }
    text[*size] = '\0';
    *contents = text;
    return 0;
}

int el_file_read(const char *path, char **contents, size_t *size)
{
    *contents = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return errno;
    int error = read_all(fd, contents, size);
    close(fd);
    return error;
}
