/* cluster: 1 | 3 */
/* The counter in a file: a process is frozen under the lock, between its last question and its write, and
 * others count on. Every addition that was acknowledged must be in the file. The same run without the guard
 * loses some, or the proof is none. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etcdlock/fence.h"
#include "support/file_scene.h"
#include "support/live.h"

static long counter(const scene *s)
{
    char text[32] = "";
    FILE *stream = fopen(s->path, "re");
    ck_assert_ptr_nonnull(stream);
    ck_assert_ptr_nonnull(fgets(text, sizeof text, stream));
    fclose(stream);
    return strtol(text, NULL, 10);
}

static void start(program *p, const scene *s, const char *ttl, const char *rounds, const char *stop)
{
    const char *words[] = {"file_counter", s->path, ttl, rounds, stop, s->guard};
    program_start(p, s->prefix, words, sizeof words / sizeof *words);
}

/* Starts both late ones, which stop themselves as this option says. */
static void freeze(scene *scenes, const char *rounds, const char *stop)
{
    for (int i = 0; i < SCENES; i++) {
        open_scene(&scenes[i], i);
        start(&scenes[i].late, &scenes[i], "--ttl=2", rounds, stop);
    }
    for (int i = 0; i < SCENES; i++)
        program_await_stop(&scenes[i].late);
}

static size_t acknowledged(const scene *s)
{
    return program_count_all(&s->late, "counted ") + program_count_all(&s->next, "counted ");
}

static void judge(const scene *s, long expected, long without_guard, size_t refusals)
{
    ck_assert_int_eq(acknowledged(s), expected);
    ck_assert_int_eq(counter(s), s->guard ? without_guard : expected);
    ck_assert_uint_eq(program_count(&s->late, "refused"), s->guard ? 0 : refusals);
    ck_assert_uint_ge(program_count(&s->late, "lost"), 1); /* which it learns after its write */
    close_scene(s);
}

/* The frozen process comes back when others have counted on: its write is refused, and it counts later.
 * Without the guard it sets the counter back to where it was. */
START_TEST(late_write_comes_after_the_next_ones)
{
    scene scenes[SCENES];
    freeze(scenes, "--rounds=2", "--stop-at=2");
    for (int i = 0; i < SCENES; i++)
        start(&scenes[i].next, &scenes[i], "--ttl=60", "--rounds=5", NULL);
    for (int i = 0; i < SCENES; i++)
        program_end(&scenes[i].next);
    for (int i = 0; i < SCENES; i++)
        program_continue(&scenes[i].late);
    for (int i = 0; i < SCENES; i++) {
        program_end(&scenes[i].late);
        judge(&scenes[i], 7, 2, 1);
    }
}
END_TEST

/* The frozen process comes back when the next one has read the counter, but not written it: its write is
 * refused as well, since the next one's look has told the guard. Without the guard both write the same. */
START_TEST(late_write_comes_before_the_next_ones)
{
    scene scenes[SCENES];
    freeze(scenes, "--rounds=1", "--stop-at=1");
    for (int i = 0; i < SCENES; i++)
        start(&scenes[i].next, &scenes[i], "--ttl=60", "--rounds=1", "--stop-at=1");
    for (int i = 0; i < SCENES; i++) {
        program_await_stop(&scenes[i].next);
        program_continue(&scenes[i].late);
        program_await(&scenes[i].late, "lost");
    }
    for (int i = 0; i < SCENES; i++)
        program_continue(&scenes[i].next);
    for (int i = 0; i < SCENES; i++) {
        program_end(&scenes[i].next);
        program_end(&scenes[i].late);
        judge(&scenes[i], 2, 1, 1);
    }
}
END_TEST

/* A process that is frozen in the middle of its write keeps the guard: the next one holds the lock, and waits
 * before it reads, so that the write is not late at all. Without the guard it does not wait. */
START_TEST(next_one_waits_for_a_write_under_way)
{
    scene scenes[SCENES];
    freeze(scenes, "--rounds=1", "--stop-within=1");
    for (int i = 0; i < SCENES; i++)
        start(&scenes[i].next, &scenes[i], "--ttl=60", "--rounds=1", NULL);
    for (int i = 0; i < SCENES; i++)
        program_await(&scenes[i].next, scenes[i].guard ? "counted 1" : "held");
    for (int i = 0; i < SCENES; i++)
        program_continue(&scenes[i].late);
    for (int i = 0; i < SCENES; i++) {
        program_end(&scenes[i].late);
        program_end(&scenes[i].next);
        ck_assert_uint_eq(program_count(&scenes[i].late, "counted 1"), 1);
        judge(&scenes[i], 2, 1, 0);
    }
}
END_TEST

/* A guard that has seen tokens of the future, as after etcd was restored from an old snapshot: the process
 * says so and ends, counts nothing, and leaves its lock. */
START_TEST(guard_ahead_of_etcd)
{
    scene s;
    char guard_path[TEXT_ROOM + 8];
    etcdlock_fence *guard;
    open_scene(&s, 0);
    snprintf(guard_path, sizeof guard_path, "%s.fence", s.path);
    ck_assert_int_eq(etcdlock_fence_open_file(&guard, guard_path, NULL), 0);
    ck_assert_int_eq(etcdlock_fence_check(guard, "counter", UINT64_C(1) << 62), 0);
    ck_assert_int_eq(etcdlock_fence_close(guard), 0);
    start(&s.next, &s, "--ttl=60", "--rounds=1", NULL);
    int status = program_status(&s.next);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    ck_assert_uint_eq(program_count(&s.next, "refused"), 1);
    ck_assert_uint_eq(acknowledged(&s), 0);
    close_scene(&s);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("file_counter", &cases, 60);
    tcase_add_test(cases, late_write_comes_after_the_next_ones);
    tcase_add_test(cases, late_write_comes_before_the_next_ones);
    tcase_add_test(cases, next_one_waits_for_a_write_under_way);
    tcase_add_test(cases, guard_ahead_of_etcd);
    return live_run(suite);
}
