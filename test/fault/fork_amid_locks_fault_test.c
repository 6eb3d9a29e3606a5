/* fork() in a process that holds a lock and goes on: whatever the child does, lives or dies, the parent keeps
 * its lock and the child never renews it. test/live/fork_test.c has what each function says in the child. */
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/child.h"
#include "support/etcdctl.h"
#include "support/live.h"

enum { TTL_S = 2, LIFE_MS = 3 * TTL_S * 1000, LOCKERS = 4, SPAWNS = 40 };

extern char **environ;

/* ---- ends of a child ------------------------------------------------------------------------------------
 */

typedef enum ending { ENDS_AT_ONCE, EXITS, EXECS, CALLS_AND_EXITS, LIVES_ON, ENDINGS } ending;

static void call_all(party *p)
{
    ck_assert_int_eq(etcdlock_mutex_lock(p->mutex), ETCDLOCK_EFORKED);
    ck_assert_int_eq(etcdlock_mutex_unlock(p->mutex), ETCDLOCK_EFORKED);
    ck_assert_int_eq(etcdlock_session_close(p->session), ETCDLOCK_EFORKED);
    ck_assert_int_eq(etcdlock_client_close(p->client), ETCDLOCK_EFORKED);
}

static void end_as_child(party *p, ending how)
{
    child_without_threads();
    switch (how) {
    case EXECS:
        execlp("true", "true", (char *)NULL);
        _exit(EXIT_FAILURE);
    case CALLS_AND_EXITS:
        call_all(p);
        exit(EXIT_SUCCESS);
    case LIVES_ON:
        usleep(LIFE_MS * 1000);
        exit(EXIT_SUCCESS);
    case EXITS:
        exit(EXIT_SUCCESS);
    default:
        _exit(EXIT_SUCCESS);
    }
}

static bool has_ended(void *pid)
{
    int status;
    pid_t ended = waitpid(*(pid_t *)pid, &status, WNOHANG);
    if (ended == 0) return false;
    ck_assert_int_eq(ended, *(pid_t *)pid);
    ck_assert_msg(status == 0, "the child ended with 0x%x", (unsigned)status);
    return true;
}

/* The child ends by _exit, by exit with all handlers, by exec, after calling the library in vain, or lives on
 * beyond three times to live: the parent holds all the while and after, and unlocks for the next (B30). */
START_TEST(child_ends)
{
    const char *name = live_name("a");
    party p = party_open(name, TTL_S), other = party_open(name, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    fflush(NULL);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) end_as_child(&p, (ending)_i);
    int64_t until_ms = live_now_ms() + TTL_S * 1000 + 1000;
    bool ended = false;
    while (!ended || live_now_ms() < until_ms) {
        ck_assert_int_eq(etcdlock_session_get_state(p.session), ETCDLOCK_SESSION_OK);
        ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), token);
        if (!ended) ended = has_ended(&pid);
        ck_assert_msg(live_now_ms() < until_ms + LIFE_MS + 5000, "the child hangs");
        usleep(20000);
    }
    ck_assert_uint_eq(etcdctl_count(name), 1);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_lock(other.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(other.mutex), 0);
    party_close(&p);
    party_close(&other);
}
END_TEST

static void hold_with_child(child *parent, void *name)
{
    party p = party_open(name, TTL_S);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        child_receive(parent); /* until the test ends: nobody else can read what it writes */
        _exit(EXIT_SUCCESS);
    }
    child_send(parent, pid);
    pause();
}

/* The holder is killed and its child lives on, with copies of all its memory and connections: the lock is
 * free when the time to live is over, for nobody renews it (B30). */
START_TEST(parent_dies)
{
    const char *name = live_name("a");
    child holder;
    child_start(&holder, hold_with_child, (void *)(uintptr_t)name);
    pid_t orphan = (pid_t)child_receive(&holder);
    party p = party_open(name, 0);
    ck_assert_int_eq(kill(holder.pid, SIGKILL), 0);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_lock_for(p.mutex, (TTL_S + 5) * 1000), 0);
    printf("in %lld ms after the holder was killed, its child alive\n",
           (long long)(live_now_ms() - began_ms));
    ck_assert_int_eq(kill(orphan, 0), 0);
    child_send(&holder, 0);
    ck_assert_int_eq(child_status(&holder), SIGKILL);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    party_close(&p);
}
END_TEST

/* ---- programs started amid traffic ----------------------------------------------------------------------
 */

static atomic_bool stops;
static atomic_int n_cycles;

static void *lock_and_unlock(void *mutex)
{
    while (!stops) {
        ck_assert_int_eq(etcdlock_mutex_lock(mutex), 0);
        ck_assert_int_eq(etcdlock_mutex_unlock(mutex), 0);
        n_cycles++;
    }
    return NULL;
}

static void spawn_true(void)
{
    static char name[] = "true";
    char *words[] = {name, NULL};
    pid_t pid;
    int status;
    ck_assert_int_eq(posix_spawnp(&pid, "true", NULL, NULL, words, environ), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

/* The shell sees no descriptor of ours but the three: each connection is closed by exec. */
static void read_from_shell(void)
{
    char text[64] = "";
    FILE *output = popen("ls /proc/self/fd | wc -l", "r");
    ck_assert_ptr_nonnull(output);
    ck_assert_ptr_nonnull(fgets(text, sizeof text, output));
    ck_assert_int_eq(pclose(output), 0);
    ck_assert_int_le(atoi(text), 8);
}

/* Amid traffic the child of AddressSanitizer may not even free memory: its allocator, unlike the system's, is
 * not held still over a fork, and may be locked for ever by a thread that the child does not have. */
static _Noreturn void exit_amid_traffic(void)
{
#ifdef __SANITIZE_ADDRESS__
    _exit(EXIT_SUCCESS);
#else
    exit(EXIT_SUCCESS);
#endif
}

static void fork_and_exit(void)
{
    fflush(NULL);
    pid_t pid = fork();
    int status;
    ck_assert_int_ge(pid, 0);
    if (pid == 0) exit_amid_traffic();
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

/* system, popen, posix_spawn and fork with exit, again and again amid heavy lock traffic of four threads: all
 * end well, the traffic goes on, and a hold outlasts it (B30). */
START_TEST(programs_started)
{
    party p = party_open(live_name("a"), TTL_S);
    etcdlock_mutex *busy = party_mutex(&p, live_name("b"), 0);
    pthread_t lockers[LOCKERS];
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    for (int i = 0; i < LOCKERS; i++)
        ck_assert_int_eq(pthread_create(&lockers[i], NULL, lock_and_unlock, busy), 0);
    for (int i = 0; i < SPAWNS; i++) {
        int before = n_cycles;
        ck_assert_int_eq(system("true"), 0);
        read_from_shell();
        spawn_true();
        fork_and_exit();
        int64_t until_ms = live_now_ms() + 5000;
        while (n_cycles == before)
            ck_assert_msg(live_now_ms() < until_ms, "the traffic has stopped in round %d", i);
    }
    printf("%d programs started amid %d cycles\n", 4 * SPAWNS, n_cycles);
    stops = true;
    for (int i = 0; i < LOCKERS; i++)
        ck_assert_int_eq(pthread_join(lockers[i], NULL), 0);
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 500), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_destroy(busy), 0);
    party_close(&p);
}
END_TEST

int main(void)
{
    TCase *cases;
    Suite *suite = live_suite("fork_amid_locks", &cases, 60);
    tcase_add_loop_test(cases, child_ends, 0, ENDINGS);
    tcase_add_test(cases, parent_dies);
    tcase_add_test(cases, programs_started);
    return live_run(suite);
}
