/* What the writers and the driver of the crash test share, in memory that outlives each of them. */
#ifndef TEST_FENCE_CRASH_SCENE_H
#define TEST_FENCE_CRASH_SCENE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "etcdlock/fence.h"

enum {
    CRASH_WRITERS = 4,
    CRASH_RESOURCES = 24,
    CRASH_NAME_ROOM = 800,
};

typedef struct crash_resource {
    char name[CRASH_NAME_ROOM];
    atomic_uint_fast64_t tried;    /* the highest token that any call was given, noted before the call */
    atomic_uint_fast64_t admitted; /* the highest that any call admitted, noted after it */
    /* The thing that is guarded: written between begin and end only. */
    atomic_uint_fast64_t value;
    atomic_uint_fast64_t writer; /* the number of the writer that is in, 0: none; one that was killed stays */
} crash_resource;

typedef struct crash_writer {
    atomic_bool in_call;
    atomic_uint_fast64_t admitted;
    atomic_uint_fast64_t refused;
    atomic_uint_fast64_t kept;
} crash_writer;

typedef struct crash_scene {
    char path[400];
    etcdlock_fence_durability durability;
    atomic_uint in_use; /* how many of the resources: they come one by one, so that adding is hit as well */
    crash_writer writers[CRASH_WRITERS];
    crash_resource resources[CRASH_RESOURCES];
    atomic_bool is_broken;
    char broken[400];
} crash_scene;

/* The life of writer `place`, the number-th process; never returns. */
_Noreturn void crash_write(crash_scene *scene, unsigned place, uint64_t number, uint64_t seed);

/* Notes that a rule was broken, if it is the first. */
void crash_break(crash_scene *scene, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
