#include "torture/crew.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/oracle.h"

enum { POLL_US = 20 * 1000 };

static void endpoints_of(const crew *f, int slot, char *out, size_t size)
{
    const crew_slot *s = &f->slots[slot];
    if (slot < FIRST_WITH_PROXIES)
        snprintf(out, size, "%s", f->endpoints);
    else
        snprintf(out, size, "%s,%s,%s", proxy_endpoint(&s->proxies[0]), proxy_endpoint(&s->proxies[1]),
                 proxy_endpoint(&s->proxies[2]));
}

void crew_start_client(crew *f, int slot)
{
    crew_slot *s = &f->slots[slot];
    char endpoints[256], number[16], ttl[16], threads[16], seed[32], log[512];
    endpoints_of(f, slot, endpoints, sizeof endpoints);
    snprintf(number, sizeof number, "%d", slot);
    snprintf(ttl, sizeof ttl, "%d", s->ttl_s);
    snprintf(threads, sizeof threads, "%d", f->threads);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)f->seed * 10000 + (unsigned long long)f->started);
    snprintf(log, sizeof log, "%s/client-%d-%d.log", f->folder, slot, f->started);
    f->started++;
    pid_t pid = fork();
    if (pid < 0) abort();
    if (pid == 0) {
        /* Between fork and exec only what may be done while other threads, the proxies, hold locks. */
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(fd, STDERR_FILENO);
        dup2(fd, STDOUT_FILENO);
        execl(f->program, f->program, f->folder, number, endpoints, ttl, threads, seed, (char *)NULL);
        _exit(127);
    }
    s->pid = pid;
    s->is_stopped = false;
}

void crew_start(crew *f, char *const members[MEMBERS])
{
    for (int i = 0; i < CLIENTS; i++) {
        for (int m = 0; m < MEMBERS && i >= FIRST_WITH_PROXIES; m++)
            proxy_start(&f->slots[i].proxies[m], members[m]);
        f->slots[i].ttl_s = 3 + i % (LONGEST_TTL_S - 2);
        crew_start_client(f, i);
    }
}

void crew_kill_client(crew *f, int slot)
{
    crew_slot *s = &f->slots[slot];
    int status;
    if (s->pid == 0) return;
    kill(s->pid, SIGKILL);
    waitpid(s->pid, &status, 0);
    tale_tell((tale_record){.kind = TALE_KILLED, .slot = slot, .pid = s->pid, .tid = s->pid, .lock = -1});
    s->pid = 0;
    s->is_stopped = false;
}

void crew_stop_client(crew *f, int slot)
{
    if (f->slots[slot].pid == 0) return;
    kill(f->slots[slot].pid, SIGSTOP);
    f->slots[slot].is_stopped = true;
}

void crew_continue_client(crew *f, int slot)
{
    if (f->slots[slot].pid != 0) kill(f->slots[slot].pid, SIGCONT);
    f->slots[slot].is_stopped = false;
}

void crew_look(crew *f)
{
    for (int i = 0; i < CLIENTS; i++) {
        crew_slot *s = &f->slots[i];
        int status;
        if (s->pid == 0 || waitpid(s->pid, &status, WNOHANG) != s->pid) continue;
        snprintf(f->crash, sizeof f->crash, "client %d, process %d, ended by itself, status 0x%x", i,
                 (int)s->pid, (unsigned)status);
        f->crashed++;
        s->pid = 0;
    }
}

int crew_end(crew *f, int64_t patience_ms)
{
    int64_t until_ns = oracle_now_ns() + patience_ms * 1000000;
    int left = 0, status;
    for (int i = 0; i < CLIENTS; i++)
        if (f->slots[i].pid != 0) kill(f->slots[i].pid, SIGTERM);
    do {
        left = 0;
        for (int i = 0; i < CLIENTS; i++) {
            crew_slot *s = &f->slots[i];
            if (s->pid == 0) continue;
            if (waitpid(s->pid, &status, WNOHANG) != s->pid) {
                left++;
                continue;
            }
            s->has_ended_well = status == 0;
            s->pid = 0;
        }
        if (left > 0) usleep(POLL_US);
    } while (left > 0 && oracle_now_ns() < until_ns);
    for (int i = 0; i < CLIENTS; i++)
        crew_kill_client(f, i);
    return left;
}

void crew_stop_proxies(crew *f)
{
    for (int i = FIRST_WITH_PROXIES; i < CLIENTS; i++)
        for (int m = 0; m < MEMBERS; m++)
            proxy_stop(&f->slots[i].proxies[m]);
}

int64_t crew_rss_kb(const crew *f, int slot)
{
    char path[64];
    long size = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)f->slots[slot].pid);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    if (fscanf(file, "%ld %ld", &size, &resident) != 2) resident = 0;
    fclose(file);
    return (int64_t)resident * (sysconf(_SC_PAGESIZE) / 1024);
}
