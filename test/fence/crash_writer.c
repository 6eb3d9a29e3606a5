#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fence/crash_scene.h"

typedef struct life {
    crash_scene *scene;
    crash_writer *writer;
    uint64_t number;
    uint64_t seed;
    etcdlock_fence *fence;
} life;

typedef unsigned long long ull;

void crash_break(crash_scene *scene, const char *format, ...)
{
    if (atomic_exchange(&scene->is_broken, true)) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(scene->broken, sizeof(scene->broken), format, arguments);
    va_end(arguments);
}

static unsigned draw(life *l, unsigned below)
{
    l->seed = l->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(l->seed >> 33) % below;
}

static void raise_to(atomic_uint_fast64_t *highest, uint64_t token)
{
    uint64_t now = atomic_load(highest);
    while (now < token && !atomic_compare_exchange_weak(highest, &now, token)) {
    }
}

/* Half of them rise, some are as high as the highest, the rest come too late. */
static uint64_t choose_token(life *l, crash_resource *r)
{
    uint64_t admitted = atomic_load(&r->admitted);
    unsigned kind = draw(l, 8);
    if (kind < 4 || admitted == 0) return atomic_load(&r->tried) + 1 + draw(l, 3);
    if (kind < 6) return admitted;
    uint64_t late = admitted - draw(l, 20);
    return late - 1 < admitted ? late : 1;
}

/* Nobody else may be in, and nobody with a higher token may have been. */
static void write_resource(life *l, crash_resource *r, uint64_t token)
{
    atomic_store(&r->writer, l->number);
    uint64_t value = atomic_load(&r->value);
    if (value > token)
        crash_break(l->scene, "resource %.8s: %llu may write, though %llu has written", r->name, (ull)token,
                    (ull)value);
    atomic_store(&r->value, token);
    for (unsigned i = draw(l, 3000); i > 0; i--)
        atomic_signal_fence(memory_order_seq_cst);
    uint64_t me = l->number;
    if (!atomic_compare_exchange_strong(&r->writer, &me, 0) || atomic_load(&r->value) != token)
        crash_break(l->scene, "resource %.8s: somebody else was in while %llu was written", r->name,
                    (ull)token);
}

static void judge(life *l, crash_resource *r, uint64_t token, uint64_t least, int error)
{
    if (error == 0) {
        atomic_fetch_add(&l->writer->admitted, 1);
        if (token < least)
            crash_break(l->scene, "resource %.8s: %llu was admitted, though %llu had been", r->name,
                        (ull)token, (ull)least);
    } else if (error == ESTALE) {
        atomic_fetch_add(&l->writer->refused, 1);
        uint64_t tried = atomic_load(&r->tried);
        if (token >= tried)
            crash_break(l->scene, "resource %.8s: %llu was refused, though no higher one was ever tried",
                        r->name, (ull)token);
    } else {
        crash_break(l->scene, "resource %.8s: error %d: %.300s", r->name, error,
                    etcdlock_fence_error_message());
    }
}

static void act(life *l)
{
    crash_resource *r = &l->scene->resources[draw(l, atomic_load(&l->scene->in_use))];
    uint64_t token = choose_token(l, r);
    bool keep = draw(l, 3) == 0;
    raise_to(&r->tried, token);
    uint64_t least = atomic_load(&r->admitted);
    atomic_store(&l->writer->in_call, true);
    int error = keep ? etcdlock_fence_begin(l->fence, r->name, token)
                     : etcdlock_fence_check(l->fence, r->name, token);
    atomic_store(&l->writer->in_call, false);
    judge(l, r, token, least, error);
    if (error) return;
    raise_to(&r->admitted, token);
    if (!keep) return;
    write_resource(l, r, token);
    atomic_store(&l->writer->in_call, true);
    error = etcdlock_fence_end(l->fence, r->name);
    atomic_store(&l->writer->in_call, false);
    if (error) crash_break(l->scene, "end: error %d: %.300s", error, etcdlock_fence_error_message());
    atomic_fetch_add(&l->writer->kept, 1);
}

static bool reopen(life *l)
{
    etcdlock_fence_options options = ETCDLOCK_FENCE_OPTIONS_INIT;
    options.durability = l->scene->durability;
    atomic_store(&l->writer->in_call, true);
    int error = etcdlock_fence_close(l->fence);
    if (!error) error = etcdlock_fence_open_file(&l->fence, l->scene->path, &options);
    atomic_store(&l->writer->in_call, false);
    if (error) crash_break(l->scene, "open: error %d: %.300s", error, etcdlock_fence_error_message());
    return !error;
}

_Noreturn void crash_write(crash_scene *scene, unsigned place, uint64_t number, uint64_t seed)
{
    life l = {.scene = scene, .writer = &scene->writers[place], .number = number, .seed = seed};
    if (reopen(&l)) {
        while (!atomic_load(&scene->is_broken)) {
            act(&l);
            if (draw(&l, 200) == 0 && !reopen(&l)) break;
        }
    }
    for (;;)
        pause(); /* for the kill */
}
