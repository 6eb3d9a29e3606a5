#include "support/file_scene.h"

#include <stdio.h>
#include <unistd.h>

#include "support/live.h"

void open_scene(scene *s, int number)
{
    char part[8];
    *s = (scene){.guard = number ? "--no-guard" : NULL};
    snprintf(part, sizeof part, "%d/", number);
    s->prefix = live_name(part);
    snprintf(s->path, sizeof s->path, "/tmp/etcdlock-proof-%d-%d", (int)getpid(), number);
}

void close_scene(const scene *s)
{
    char guard_path[TEXT_ROOM + 8];
    snprintf(guard_path, sizeof guard_path, "%s.fence", s->path);
    ck_assert_int_eq(unlink(s->path), 0);
    ck_assert_int_eq(unlink(guard_path), 0);
}
