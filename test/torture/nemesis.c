#include "torture/nemesis.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/oracle.h"
#include "torture/shell.h"

static void read_pids(nemesis *n)
{
    for (int m = 0; m < MEMBERS; m++) {
        long long pid = shell_number("%s pid %d 2>/dev/null", n->cluster, m + 1);
        n->members[m] = pid > 0 ? (pid_t)pid : 0;
    }
}

void nemesis_start(nemesis *n)
{
    read_pids(n);
}

static void begin_errand(nemesis *n, pid_t pid)
{
    if (pid > 0 && n->errands_n < MOST_UNDER_WAY) n->errands[n->errands_n++] = pid;
}

static void reap_errands(nemesis *n)
{
    for (int i = 0; i < n->errands_n; i++) {
        int status;
        if (!shell_ended(n->errands[i], &status)) continue;
        n->failed += status != 0;
        if (n->errands[i] == n->restart) {
            n->restart = 0;
            read_pids(n);
        }
        n->errands[i--] = n->errands[--n->errands_n];
    }
}

static bool is_of_member(fault_kind kind)
{
    return kind <= FAULT_MEMBER_ISOLATE;
}

static bool is_of_network(fault_kind kind)
{
    return kind >= FAULT_NET_DELAY && kind <= FAULT_NET_REFUSE;
}

static bool is_of_client(fault_kind kind)
{
    return kind >= FAULT_CLIENT_KILL && kind <= FAULT_CLIENT_FREEZE;
}

/* One member at a time, and one fault of a kind at a client. */
static bool is_possible(const nemesis *n, const fault *f)
{
    if (f->kind == FAULT_MEMBER_ISOLATE && !n->has_netns) return false;
    if (n->n == MOST_UNDER_WAY || n->errands_n == MOST_UNDER_WAY) return false;
    if (is_of_member(f->kind) && n->restart != 0) return false;
    if (is_of_network(f->kind) && f->target < FIRST_WITH_PROXIES) return false;
    if (is_of_client(f->kind) && n->crew->slots[f->target].pid == 0) return false;
    for (int i = 0; i < n->n; i++) {
        const fault *other = &n->faults[i].fault;
        if (is_of_member(f->kind) && is_of_member(other->kind)) return false;
        if (other->target != f->target) continue;
        if (is_of_network(f->kind) && is_of_network(other->kind)) return false;
        if (is_of_client(f->kind) && is_of_client(other->kind)) return false;
    }
    return true;
}

/* ---- what an operator does: recorded before, since from then on the hold may be over
 * ------------------------- */

static bool break_hold(nemesis *n, const fault *f)
{
    char answer[1024], key[512];
    uint64_t revision = 0;
    int64_t lease = 0;
    (void)n;
    if (!shell_read(answer, sizeof answer, "%s first %s/", n->script, lock_name(f->target)) ||
        sscanf(answer, "%511s %" SCNu64 " %" SCNd64, key, &revision, &lease) != 3)
        return false;
    tale_record record = {.kind = TALE_BREAK, .what = (int32_t)f->kind, .lock = f->target, .lease = lease};
    if (f->kind == FAULT_DELETE) record.token = revision;
    tale_tell(record);
    if (f->kind == FAULT_DELETE)
        return shell_read(answer, sizeof answer, "%s delete %s %" PRIu64, n->script, key, revision);
    return shell_read(answer, sizeof answer, "%s revoke %" PRIx64, n->script, (uint64_t)lease);
}

/* ---- beginning and ending
 * ---------------------------------------------------------------------------------------- */

static void do_to_proxies(nemesis *n, const fault *f)
{
    /* Half of the faults hit all ways to the cluster. */
    int mask = f->span_ms % 2 == 0 ? (1 << MEMBERS) - 1 : f->detail;
    for (int m = 0; m < MEMBERS; m++) {
        proxy *p = &n->crew->slots[f->target].proxies[m];
        if (!(mask & 1 << m)) continue;
        switch (f->kind) {
        case FAULT_NET_DELAY:
            proxy_delay(p, PROXY_BOTH, 20 + f->span_ms % 600);
            break;
        case FAULT_NET_BLACKHOLE:
            proxy_blackhole(p, f->detail % 3 == 0 ? PROXY_TO_SERVER : PROXY_BOTH);
            break;
        case FAULT_NET_HOLD:
            proxy_hold(p, f->detail % 3 == 0 ? PROXY_TO_CLIENT : PROXY_BOTH);
            break;
        case FAULT_NET_DROP_REPLIES:
            proxy_drop_replies(p);
            break;
        case FAULT_NET_RESET:
            proxy_reset(p);
            break;
        default:
            proxy_refuse_new(p);
            proxy_reset(p);
            break;
        }
    }
}

static bool begin(nemesis *n, const fault *f)
{
    char out[256];
    int other = (f->target + 1) % MEMBERS;
    switch (f->kind) {
    case FAULT_MEMBER_KILL:
        n->members[f->target] = 0;
        return shell_read(out, sizeof out, "%s kill %d", n->cluster, f->target + 1);
    case FAULT_MEMBERS_STOP:
        if (n->members[other] > 0) kill(n->members[other], SIGSTOP);
        /* fall through */
    case FAULT_MEMBER_STOP:
        return n->members[f->target] > 0 && kill(n->members[f->target], SIGSTOP) == 0;
    case FAULT_MEMBER_ISOLATE:
        return shell_read(out, sizeof out, "%s isolate %d", n->cluster, f->target + 1);
    case FAULT_COMPACT:
        begin_errand(n, shell_start("%s compact >/dev/null 2>&1", n->script));
        return true;
    case FAULT_MOVE_LEADER:
        begin_errand(n, shell_start("%s move-leader %d >/dev/null 2>&1", n->script, f->target));
        return true;
    case FAULT_CLIENT_KILL:
        crew_kill_client(n->crew, f->target);
        return true;
    case FAULT_CLIENT_BLINK:
    case FAULT_CLIENT_FREEZE:
        crew_stop_client(n->crew, f->target);
        return true;
    case FAULT_REVOKE:
    case FAULT_DELETE:
        return break_hold(n, f);
    default:
        do_to_proxies(n, f);
        return true;
    }
}

static void end(nemesis *n, const under_way *u)
{
    const fault *f = &u->fault;
    char out[256];
    int other = (f->target + 1) % MEMBERS;
    int64_t ended_ns = oracle_now_ns();
    switch (f->kind) {
    case FAULT_MEMBER_KILL:
        n->restart = shell_start("%s restart %d >/dev/null 2>&1", n->cluster, f->target + 1);
        begin_errand(n, n->restart);
        break;
    case FAULT_MEMBERS_STOP:
        if (n->members[other] > 0) kill(n->members[other], SIGCONT);
        /* fall through */
    case FAULT_MEMBER_STOP:
        if (n->members[f->target] > 0) kill(n->members[f->target], SIGCONT);
        break;
    case FAULT_MEMBER_ISOLATE:
        shell_read(out, sizeof out, "%s heal %d", n->cluster, f->target + 1);
        break;
    case FAULT_CLIENT_KILL:
        crew_start_client(n->crew, f->target);
        break;
    case FAULT_CLIENT_BLINK:
    case FAULT_CLIENT_FREEZE:
        crew_continue_client(n->crew, f->target);
        break;
    default:
        for (int m = 0; is_of_network(f->kind) && m < MEMBERS; m++)
            proxy_pass(&n->crew->slots[f->target].proxies[m]);
    }
    /* A member that goes on may act at once, and before we do. */
    bool is_stop = f->kind == FAULT_MEMBER_STOP || f->kind == FAULT_MEMBERS_STOP;
    tale_tell((tale_record){.kind = TALE_FAULT,
                            .slot = is_of_network(f->kind) || is_of_client(f->kind) ? f->target : -1,
                            .pid = u->pid > 0 ? u->pid : -1,
                            .what = (int32_t)f->kind,
                            .lock = -1,
                            .target = f->target,
                            .at_ns = u->began_ns,
                            .span_ns = (is_stop ? ended_ns : oracle_now_ns()) - u->began_ns});
}

/* Aims at a holder where the schedule says so; but the first client is never killed. */
static fault aim(const nemesis *n, const fault *scheduled)
{
    fault f = *scheduled;
    if ((f.kind != FAULT_CLIENT_KILL && f.kind != FAULT_CLIENT_FREEZE) || f.holder < 0) return f;
    int slot = tale_holder(n->crew->folder, f.holder);
    if (slot > 0) f.target = slot;
    return f;
}

void nemesis_do(nemesis *n, const fault *scheduled)
{
    fault aimed = aim(n, scheduled);
    const fault *f = &aimed;
    under_way u = {.fault = aimed, .began_ns = oracle_now_ns()};
    if (!is_possible(n, f)) {
        n->skipped++;
        return;
    }
    if (is_of_client(f->kind)) u.pid = n->crew->slots[f->target].pid;
    if (!begin(n, f)) {
        n->skipped++;
        return;
    }
    n->done[f->kind]++;
    u.due_ns = oracle_now_ns() + f->span_ms * 1000000;
    n->faults[n->n++] = u;
}

void nemesis_look(nemesis *n)
{
    int64_t now_ns = oracle_now_ns();
    reap_errands(n);
    for (int i = 0; i < n->n; i++) {
        if (n->faults[i].due_ns > now_ns) continue;
        under_way u = n->faults[i];
        n->faults[i--] = n->faults[--n->n];
        end(n, &u);
    }
}

bool nemesis_heal(nemesis *n, int64_t patience_ms)
{
    int64_t until_ns = oracle_now_ns() + patience_ms * 1000000;
    char out[1024];
    for (int i = 0; i < n->n; i++)
        n->faults[i].due_ns = 0;
    do {
        nemesis_look(n);
        usleep(20 * 1000);
    } while ((n->n > 0 || n->errands_n > 0) && oracle_now_ns() < until_ns);
    while (!shell_read(out, sizeof out, "timeout 5 etcdctl endpoint health >/dev/null 2>&1"))
        if (oracle_now_ns() > until_ns) return false;
    return true;
}
