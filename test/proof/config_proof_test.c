/* cluster: 1 | 3 */
/* The configuration example: an editor has read the document, is held up before its write, and another editor
 * changes another setting meanwhile. Both changes must be in the document at the end. The same run without
 * the guard loses one, or the proof is none. */
#include <stdio.h>
#include <stdlib.h>

#include "support/etcdctl.h"
#include "support/live.h"
#include "support/program.h"
#include "support/proxy.h"

enum { SCENES = 2, TEXT_ROOM = 256 };

typedef struct scene {
    const char *guard; /* "--no-guard" or NULL */
    const char *prefix;
    char key[TEXT_ROOM];
    program late;
    program next;
} scene;

static void open_scene(scene *s, int number)
{
    char part[8];
    *s = (scene){.guard = number ? "--no-guard" : NULL};
    snprintf(part, sizeof part, "%d/", number);
    s->prefix = live_name(part);
    snprintf(s->key, sizeof s->key, "%sconfig.document", s->prefix);
    etcdctl("put", s->key, "color=red\nsize=1\n", NULL);
}

static void start_late(scene *s, const char *ttl)
{
    const char *words[] = {"config", "--ttl", ttl, "--stop", s->guard, "set", "color", "blue"};
    program_start(&s->late, s->prefix, words, sizeof words / sizeof *words);
}

/* stop: "--stop" or NULL */
static void start_next(scene *s, const char *stop)
{
    const char *words[] = {"config", "--ttl", "60", stop, s->guard, "set", "size", "2"};
    program_start(&s->next, s->prefix, words, sizeof words / sizeof *words);
}

/* Both changes are there, or, without the guard, this document. */
static void judge(const scene *s, const char *without_guard)
{
    const char *found = etcdctl("get", "--print-value-only", s->key, NULL); /* and a line break */
    ck_assert_str_eq(found, !s->guard ? "color=blue\nsize=2\n\n" : without_guard);
    ck_assert_uint_eq(program_count(&s->late, "set\n"), 1);
    ck_assert_uint_eq(program_count(&s->next, "set\n"), 1);
    etcdctl("del", s->key, NULL);
}

/* An editor that is frozen before its write: the write is refused, and the editor starts over from the
 * document as it is now. Without the guard it puts the old document back. */
START_TEST(frozen_editor)
{
    scene scenes[SCENES];
    for (int i = 0; i < SCENES; i++) {
        open_scene(&scenes[i], i);
        start_late(&scenes[i], "2");
    }
    for (int i = 0; i < SCENES; i++) {
        program_await_stop(&scenes[i].late);
        start_next(&scenes[i], NULL);
    }
    for (int i = 0; i < SCENES; i++)
        program_end(&scenes[i].next);
    for (int i = 0; i < SCENES; i++)
        program_continue(&scenes[i].late);
    for (int i = 0; i < SCENES; i++) {
        program_end(&scenes[i].late);
        ck_assert_uint_eq(program_count(&scenes[i].late, "refused\n"), !scenes[i].guard ? 1 : 0);
        judge(&scenes[i], "color=blue\nsize=1\n\n");
    }
}
END_TEST

/* An editor that comes back when the next one has read the document, but not written it: its write is refused
 * as well. Without the guard it is taken, and the next one puts an old document over it. */
START_TEST(frozen_editor_comes_in_between)
{
    scene scenes[SCENES];
    for (int i = 0; i < SCENES; i++) {
        open_scene(&scenes[i], i);
        start_late(&scenes[i], "2");
    }
    for (int i = 0; i < SCENES; i++) {
        program_await_stop(&scenes[i].late);
        start_next(&scenes[i], "--stop");
    }
    for (int i = 0; i < SCENES; i++) {
        program_await_stop(&scenes[i].next);
        program_continue(&scenes[i].late);
        program_await(&scenes[i].late, !scenes[i].guard ? "refused\n" : "set\n");
    }
    for (int i = 0; i < SCENES; i++)
        program_continue(&scenes[i].next);
    for (int i = 0; i < SCENES; i++) {
        program_end(&scenes[i].next);
        program_end(&scenes[i].late);
        judge(&scenes[i], "color=red\nsize=2\n\n");
    }
}
END_TEST

/* An operator deletes the lock's key; the editor, behind a network that is stuck, does not hear of it. Its
 * lease lives on, so that nothing but the comparison with that key keeps its write out. */
static void take_lock_away(const scene *s)
{
    char folder[TEXT_ROOM];
    snprintf(folder, sizeof folder, "%sconfig/", s->prefix);
    ck_assert_uint_ge(etcdctl_count(folder), 1);
    etcdctl("del", "--prefix", folder, NULL);
}

/* Stops it, lets it go on behind a network that is stuck, and so its write, and the next one in. */
static void get_stuck(scene *s, int number, proxy *way)
{
    open_scene(s, number);
    proxy_start(way, live_endpoint(0));
    /* It is to wait for the answer to that one request, and not to send it again. */
    setenv("ETCDCTL_DIAL_TIMEOUT", "50s", 1);
    setenv("ETCDCTL_COMMAND_TIMEOUT", "50s", 1);
    program_use(proxy_endpoint(way));
    start_late(s, "60");
    program_use(NULL);
    unsetenv("ETCDCTL_DIAL_TIMEOUT");
    unsetenv("ETCDCTL_COMMAND_TIMEOUT");
    program_await_stop(&s->late);
    proxy_hold(way, PROXY_BOTH);
    program_continue(&s->late);
    take_lock_away(s);
    start_next(s, NULL);
}

/* An editor that is awake and believes to hold the lock, but whose write is stuck in the network until the
 * next one is done: etcd itself refuses it as it arrives. Without the guard it puts the old document back. */
START_TEST(stuck_write)
{
    scene scenes[SCENES];
    proxy ways[SCENES];
    for (int i = 0; i < SCENES; i++)
        get_stuck(&scenes[i], i, &ways[i]);
    for (int i = 0; i < SCENES; i++)
        program_end(&scenes[i].next);
    for (int i = 0; i < SCENES; i++) {
        ck_assert_str_eq(scenes[i].late.said, "");
        proxy_release(&ways[i], PROXY_TO_SERVER); /* the write first, before any news come back */
        etcdctl_revision();
    }
    for (int i = 0; i < SCENES; i++)
        proxy_pass(&ways[i]);
    for (int i = 0; i < SCENES; i++) {
        program_end(&scenes[i].late);
        ck_assert_uint_eq(program_count(&scenes[i].late, "refused\n"), scenes[i].guard ? 0 : 1);
        judge(&scenes[i], "color=blue\nsize=1\n\n");
        proxy_stop(&ways[i]);
    }
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("config", &cases, 60);
    tcase_add_test(cases, frozen_editor);
    tcase_add_test(cases, frozen_editor_comes_in_between);
    tcase_add_test(cases, stuck_write);
    return live_run(suite);
}
