/* A holder whose process is stopped for longer than its time to live, and that goes on where it was. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/caller.h"
#include "support/child.h"
#include "support/gateway.h"
#include "support/loss.h"
#include "support/oracle.h"
#include "support/raw.h"

enum { TTL_S = 3, HOLDERS = 8, PATIENCE_MS = 20000, NAME_MAX = 64 };

/* What all processes of a case share. */
typedef struct shared {
    atomic_bool is_over[HOLDERS]; /* the next one is in */
    atomic_int yes_after_the_end; /* checks that said to hold all the same */
    atomic_int stale_writes;      /* accepted from a former holder */
    atomic_int refused_writes;    /* refused to a former holder */
    atomic_int writes;            /* accepted in all */
} shared;

typedef struct scene {
    shared *all;
    oracle history;
    int file; /* its first bytes are the highest token that wrote it */
    int number;
    bool stops_itself; /* between the check and the write */
    char name[NAME_MAX];
    char data[NAME_MAX]; /* a key that is written under the lock */
} scene;

/* As a store does that is told tokens: none lower than the highest it has seen. */
static bool write_file(const scene *s, uint64_t token)
{
    off_t at = s->number * (off_t)sizeof token;
    uint64_t highest = 0;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = sizeof token};
    ck_assert_int_eq(fcntl(s->file, F_SETLKW, &whole), 0);
    ck_assert_int_ge(pread(s->file, &highest, sizeof highest, at), 0);
    bool is_taken = token >= highest;
    if (is_taken) ck_assert_int_eq(pwrite(s->file, &token, sizeof token, at), sizeof token);
    whole.l_type = F_UNLCK;
    ck_assert_int_eq(fcntl(s->file, F_SETLKW, &whole), 0);
    return is_taken;
}

static void count_write(const scene *s, bool was_over, bool is_taken)
{
    if (is_taken) s->all->writes++;
    if (was_over && is_taken) s->all->stale_writes++;
    if (was_over && !is_taken) s->all->refused_writes++;
}

/* To both stores, whatever the last check said: the fence has to hold without it. */
static void write_fenced(const scene *s, const char *key, uint64_t token)
{
    bool was_over = s->all->is_over[s->number];
    int64_t revision = raw_put_guarded(live_endpoint(0), key, token, s->data, "x");
    count_write(s, was_over, revision > 0);
    if (revision > 0) oracle_wrote(&s->history, s->data, token, revision);
    was_over = s->all->is_over[s->number];
    count_write(s, was_over, write_file(s, token));
}

static void work(child *parent, void *arg)
{
    const scene *s = arg;
    char key[256];
    party p = party_open(s->name, TTL_S);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_key(p.mutex, key, sizeof key), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    int64_t until_ns = oracle_now_ns() + etcdlock_mutex_remaining_ms(p.mutex) * INT64_C(1000000);
    oracle_enter(&s->history, s->name, token, until_ns);
    child_send(parent, 0);
    bool holds = true, has_stopped = false;
    while (holds) {
        bool was_over = s->all->is_over[s->number];
        int64_t now_ns = oracle_now_ns();
        holds = etcdlock_mutex_ensure(p.mutex, 0) == 0;
        if (holds && was_over) s->all->yes_after_the_end++;
        if (holds) until_ns = now_ns + etcdlock_mutex_remaining_ms(p.mutex) * INT64_C(1000000);
        if (s->stops_itself && !has_stopped) {
            has_stopped = true;
            (void)raise(SIGSTOP);
        }
        write_fenced(s, key, token);
    }
    oracle_leave(&s->history, s->name, token, until_ns, true);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), 0);
    assert_loss(etcdlock_mutex_unlock(p.mutex));
    await_session_loss(p.session, 0);
    party_close_lost(&p);
}

static void set_scene(scene *s, int number, shared *all, int file, const char *history)
{
    *s = (scene){.all = all, .file = file, .number = number, .stops_itself = number % 2 == 1};
    oracle_open(&s->history, history);
    snprintf(s->name, sizeof s->name, "%sl%d", live_prefix(), number);
    snprintf(s->data, sizeof s->data, "%sd%d", live_prefix(), number);
}

/* The next holder, which writes once and holds on while the former one comes back. */
static void take_over(const scene *s, const party *p, caller *next)
{
    char key[256];
    etcdlock_queue *queue;
    ck_assert_int_eq(caller_result(next, PATIENCE_MS), 0);
    ck_assert_int_eq(etcdlock_queue_get(&queue, p->client, s->name), 0);
    ck_assert_uint_eq(etcdlock_queue_size(queue), 1);
    snprintf(key, sizeof key, "%s", etcdlock_queue_at(queue, 0)->key);
    etcdlock_queue_free(queue);
    oracle_enter(&s->history, s->name, next->token, oracle_now_ns() + 1);
    write_fenced(s, key, next->token);
    s->all->is_over[s->number] = true;
}

static void await_stop(pid_t pid)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(WIFSTOPPED(status));
}

/* Lets all of them be stopped, the odd ones by themselves between a check and a write, and the next ones in.
 */
static void freeze_and_thaw(scene *scenes, child *holders)
{
    party p = party_open(live_prefix(), 30);
    etcdlock_mutex *mutexes[HOLDERS];
    caller next[HOLDERS];
    for (int i = 0; i < HOLDERS; i++) {
        if (!scenes[i].stops_itself) ck_assert_int_eq(kill(holders[i].pid, SIGSTOP), 0);
        await_stop(holders[i].pid);
        mutexes[i] = party_mutex(&p, scenes[i].name, 0);
        caller_start(&next[i], mutexes[i], -1);
    }
    for (int i = 0; i < HOLDERS; i++)
        take_over(&scenes[i], &p, &next[i]);
    for (int i = 0; i < HOLDERS; i++)
        ck_assert_int_eq(kill(holders[i].pid, SIGCONT), 0);
    for (int i = 0; i < HOLDERS; i++)
        child_end(&holders[i]);
    for (int i = 0; i < HOLDERS; i++) {
        ck_assert_int_eq(caller_end(&next[i]), 0);
        gateway_delete(scenes[i].data);
        ck_assert_int_eq(etcdlock_mutex_destroy(mutexes[i]), 0);
    }
    party_close(&p);
}

/* A stopped holder's first question after it goes on is answered with no, and what it writes all the same,
 * with its old token, is refused by stores that look at tokens (B47). */
START_TEST(checks_say_no_and_writes_are_refused)
{
    char history[] = "/tmp/paused-holder-XXXXXX", stored[] = "/tmp/paused-holder-XXXXXX";
    int fd = mkstemp(history), file = mkstemp(stored);
    scene scenes[HOLDERS];
    child holders[HOLDERS];
    oracle_verdict verdict;
    shared *all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(all, MAP_FAILED);
    close(fd);
    for (int i = 0; i < HOLDERS; i++) {
        set_scene(&scenes[i], i, all, file, history);
        child_start(&holders[i], work, &scenes[i]);
    }
    for (int i = 0; i < HOLDERS; i++)
        ck_assert_int_eq(child_receive(&holders[i]), 0);
    freeze_and_thaw(scenes, holders);
    ck_assert_int_eq(all->yes_after_the_end, 0);
    ck_assert_int_eq(all->stale_writes, 0);
    ck_assert_int_ge(all->refused_writes, 2 * HOLDERS);
    ck_assert_int_gt(all->writes, 2 * HOLDERS);
    ck_assert_msg(oracle_judge(history, &verdict), "%s", verdict.breach);
    ck_assert_uint_eq(verdict.losses, HOLDERS);
    for (int i = 0; i < HOLDERS; i++)
        oracle_close(&scenes[i].history);
    munmap(all, sizeof *all);
    close(file);
    unlink(history);
    unlink(stored);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("paused_holder", &cases, 60);
    tcase_add_loop_test(cases, checks_say_no_and_writes_are_refused, 0, 3);
    return live_run(suite);
}
