/* Endpoints of every kind in one list: a learner, IPv4, IPv6 and names, and a name that stops resolving
 * (B48). */
/* cluster: 3 */
#include <dlfcn.h>
#include <netdb.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/caller.h"
#include "support/etcdctl.h"
#include "support/live.h"
#include "support/proxy.h"
#include "support/stranger.h"
#include "support/through.h"

extern char **environ;

enum { SOON_MS = 15000, ROUNDS = 12 };

/* ---- names ---- */

/* Names that end so are known, or not, to the resolver below, which gRPC is told to use. */
static const char domain[] = ".etcdlock.test";
static atomic_bool is_known;

typedef int lookup(const char *node, const char *service, const struct addrinfo *hints,
                   struct addrinfo **found);

__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service,
                                                       const struct addrinfo *hints, struct addrinfo **found)
{
    lookup *next = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
    const char *end = node ? strstr(node, domain) : NULL;
    if (!end || end[sizeof domain - 1]) return next(node, service, hints, found);
    return atomic_load(&is_known) ? next("127.0.0.1", service, hints, found) : EAI_NONAME;
}

static const char *port_of(const char *endpoint)
{
    return strrchr(endpoint, ':') + 1;
}

/* ---- a learner ---- */

typedef struct learner {
    pid_t pid;
    char folder[64];
    char client[64];
    char id[32];
} learner;

static bool is_listening(void *arg)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found;
    ck_assert_int_eq(getaddrinfo("127.0.0.1", port_of(arg), &hints, &found), 0);
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool listens = connect(fd, found->ai_addr, found->ai_addrlen) == 0;
    close(fd);
    freeaddrinfo(found);
    return listens;
}

static void spawn_etcd(learner *l, const char *peer, const char *cluster)
{
    char data[96], client_url[96], members[512], listen[96], listen_peer[96], advertise_peer[128];
    char log[96];
    snprintf(data, sizeof data, "--data-dir=%s/data", l->folder);
    snprintf(client_url, sizeof client_url, "--advertise-client-urls=http://%s", l->client);
    snprintf(listen, sizeof listen, "--listen-client-urls=http://%s", l->client);
    snprintf(listen_peer, sizeof listen_peer, "--listen-peer-urls=http://%s", peer);
    snprintf(advertise_peer, sizeof advertise_peer, "--initial-advertise-peer-urls=http://%s", peer);
    snprintf(members, sizeof members, "--initial-cluster=%s", cluster);
    snprintf(log, sizeof log, "--log-outputs=%s/log", l->folder);
    static char program[] = "etcd", name[] = "--name=learner", state[] = "--initial-cluster-state=existing",
                logger[] = "--logger=zap";
    char *words[] = {program, name,        state,          logger,  data, client_url,
                     listen,  listen_peer, advertise_peer, members, log,  NULL};
    ck_assert_int_eq(posix_spawnp(&l->pid, program, NULL, NULL, words, environ), 0);
}

/* Only members that have been connected for 5 s admit another. */
static bool is_added(void *peer_url)
{
    return etcdctl_status("member", "add", "learner", "--learner", peer_url, NULL) == 0;
}

/* From lines "id, state, name, peer URL, client URL, learner or not". */
static void list_members(learner *l, char *cluster, size_t room)
{
    char lines[1024], *rest, *fields;
    size_t used = 0;
    snprintf(lines, sizeof lines, "%s", etcdctl("member", "list", NULL));
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *id = strtok_r(line, ", ", &fields), *state = strtok_r(NULL, ", ", &fields);
        bool is_new = strcmp(state, "unstarted") == 0;
        const char *name = is_new ? "learner" : strtok_r(NULL, ", ", &fields);
        if (is_new) snprintf(l->id, sizeof l->id, "%s", id);
        used += (size_t)snprintf(cluster + used, room - used, "%s%s=%s", used ? "," : "", name,
                                 strtok_r(NULL, ", ", &fields));
        ck_assert_uint_lt(used, room);
    }
}

static void learner_start(learner *l)
{
    char peer[64], peer_url[96], cluster[400];
    snprintf(l->client, sizeof l->client, "%s", stranger_nobody());
    snprintf(peer, sizeof peer, "%s", stranger_nobody());
    snprintf(peer_url, sizeof peer_url, "--peer-urls=http://%s", peer);
    snprintf(l->folder, sizeof l->folder, "/dev/shm/etcdlock-learner-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(l->folder));
    ck_assert(live_wait_until(is_added, peer_url, SOON_MS));
    list_members(l, cluster, sizeof cluster);
    spawn_etcd(l, peer, cluster);
    ck_assert(live_wait_until(is_listening, l->client, SOON_MS));
}

static void learner_end(learner *l)
{
    char line[96];
    kill(l->pid, SIGKILL);
    waitpid(l->pid, NULL, 0);
    etcdctl("member", "remove", l->id, NULL);
    snprintf(line, sizeof line, "rm -rf '%s'", l->folder);
    ck_assert_int_eq(system(line), 0);
}

/* A learner serves nothing that a lock needs and says so at once: whoever begins with it is with another
 * member within a second, for a new session, a lock, a wait and a renewal. */
START_TEST(with_learner)
{
    char endpoints[256];
    const char *name = live_name("a");
    learner l;
    learner_start(&l);
    snprintf(endpoints, sizeof endpoints, "%s,%s", l.client, getenv("ETCDLOCK_TEST_ENDPOINTS"));
    for (int i = 0; i < ROUNDS; i++) { /* each begins at a random one */
        caller waiter;
        int64_t began_ms = live_now_ms();
        party p = party_through(endpoints, name, 0, 0), other = party_through(endpoints, name, 0, 0);
        ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
        live_within(began_ms, 1000);
        caller_start(&waiter, other.mutex, -1);
        party_await_queue(&p, name, 2);
        began_ms = live_now_ms();
        ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 9400), 0); /* renews */
        ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
        ck_assert_int_eq(caller_result(&waiter, SOON_MS), 0);
        live_within(began_ms, 1000);
        ck_assert_int_eq(caller_end(&waiter), 0);
        party_close(&p);
        party_close(&other);
    }
    learner_end(&l);
}
END_TEST

static void use(const char *endpoints)
{
    int64_t began_ms = live_now_ms();
    party p = party_through(endpoints, live_name("a"), 0, 0);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    live_within(began_ms, 4000);
    party_close(&p);
}

/* IPv4, IPv6, names, a name that nobody knows and an address where nobody listens, alone where they lead
 * somewhere and together. */
START_TEST(mixed)
{
    char v6[64], name[64], known[64], all[512];
    atomic_store(&is_known, true);
    snprintf(v6, sizeof v6, "[::ffff:127.0.0.1]:%s", port_of(live_endpoint(1)));
    snprintf(name, sizeof name, "localhost:%s", port_of(live_endpoint(2)));
    snprintf(known, sizeof known, "http://a%s:%s", domain, port_of(live_endpoint(0)));
    use(v6);
    use(name);
    use(known);
    snprintf(all, sizeof all, "no-such-host.invalid:2379,[::1]:%s,%s,%s,%s,http://%s",
             port_of(stranger_nobody()), v6, name, known, live_endpoint(0));
    for (int i = 0; i < ROUNDS; i++)
        use(all);
}
END_TEST

/* The name of the member in use stops to resolve, its old address is gone and its connections break: the hold
 * goes on through another endpoint. A client that has only the name is told so in time, and gets in soon
 * after it resolves again. */
START_TEST(name_stops_resolving)
{
    char by_name[64], both[160];
    const char *name = live_name("a");
    proxy px;
    proxy_start(&px, live_endpoint(0));
    atomic_store(&is_known, true);
    snprintf(by_name, sizeof by_name, "b%s:%s", domain, port_of(proxy_endpoint(&px)));
    snprintf(both, sizeof both, "%s,%s", by_name, live_endpoint(1));
    party p = party_through(both, name, 10, 0), only = party_through(by_name, name, 60, 1500);
    ck_assert_int_eq(etcdlock_mutex_lock(p.mutex), 0);
    uint64_t token = etcdlock_mutex_token(p.mutex);
    atomic_store(&is_known, false);
    proxy_refuse_new(&px); /* nor does the address that it had lead anywhere now */
    proxy_reset(&px);
    int64_t began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_ensure(p.mutex, 9400), 0);
    ck_assert_uint_eq(etcdlock_mutex_token(p.mutex), token);
    ck_assert_int_eq(etcdlock_mutex_unlock(p.mutex), 0);
    live_within(began_ms, 5000);
    began_ms = live_now_ms();
    int error = etcdlock_mutex_trylock(only.mutex);
    live_within(began_ms, 1500);
    ck_assert_msg(error == ETCDLOCK_EUNREACHABLE, "%d %s", error, etcdlock_error_message());
    ck_assert_str_ne(etcdlock_error_message(), "");
    atomic_store(&is_known, true);
    proxy_accept_new(&px);
    began_ms = live_now_ms();
    ck_assert_int_eq(etcdlock_mutex_lock_for(only.mutex, SOON_MS), 0);
    live_within(began_ms, 5000);
    ck_assert_int_eq(etcdlock_mutex_unlock(only.mutex), 0);
    party_close(&p);
    party_close(&only);
    proxy_stop(&px);
}
END_TEST

int main(void)
{
    TCase *cases;
    setenv("GRPC_DNS_RESOLVER", "native", 1);
    Suite *suite = live_suite("endpoints_fault", &cases, 120);
    tcase_add_test(cases, with_learner);
    tcase_add_test(cases, mixed);
    tcase_add_test(cases, name_stops_resolving);
    return live_run(suite);
}
