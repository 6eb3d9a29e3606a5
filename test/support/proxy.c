#include "support/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "support/proxy_link.h"

enum { EVENTS_AT_ONCE = 64, BACKLOG = 128 };
/* What epoll calls the two descriptors that are no links; links begin at 2. */
enum { ALARM, LISTENER };

/* ---- the thread
 * -------------------------------------------------------------------------------------------- */

static void welcome_new(proxy *p)
{
    for (;;) {
        int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (client < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
        if (client < 0) return;
        if (p->welcome == PROXY_RESET) {
            p->links_made++;
            proxy_abort_socket(client);
        } else {
            proxy_link_open(p, client);
        }
    }
}

static void handle(proxy *p, const struct epoll_event *event, int64_t now_ns)
{
    uint64_t count;
    if (event->data.u64 == ALARM) {
        ssize_t n = read(p->alarm, &count, sizeof count);
        (void)n;
    } else if (event->data.u64 == LISTENER) {
        welcome_new(p);
    } else {
        int side = (int)(event->data.u64 & 1);
        proxy_link *link = p->links;
        while (link && link->id + (uint64_t)side != event->data.u64)
            link = link->next;
        /* It may have been ended since epoll spoke. */
        if (link) proxy_link_serve(p, link, side, event->events, now_ns);
    }
}

/* How long to sleep, in whole milliseconds that are not too few. */
static int time_to_next(const proxy *p)
{
    int64_t due_ns = INT64_MAX;
    for (const proxy_link *link = p->links; link; link = link->next) {
        int64_t of_link_ns = proxy_link_due_ns(p, link);
        if (of_link_ns < due_ns) due_ns = of_link_ns;
    }
    if (due_ns == INT64_MAX) return -1;
    int64_t wait_ns = due_ns - proxy_now_ns();
    return wait_ns <= 0 ? 0 : (int)((wait_ns + 999999) / 1000000);
}

static void *run(void *arg)
{
    proxy *p = arg;
    struct epoll_event events[EVENTS_AT_ONCE];
    sem_post(&p->running);
    pthread_mutex_lock(&p->lock);
    while (!p->stopping) {
        int wait_ms = time_to_next(p);
        pthread_mutex_unlock(&p->lock);
        int n = epoll_wait(p->epoll, events, EVENTS_AT_ONCE, wait_ms);
        pthread_mutex_lock(&p->lock);
        int64_t now_ns = proxy_now_ns();
        for (int i = 0; i < n; i++)
            handle(p, &events[i], now_ns);
        for (proxy_link *link = p->links; link; link = link->next)
            proxy_link_serve(p, link, CLIENT, 0, now_ns);
        proxy_links_sweep(p);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- beginning and end
 * ------------------------------------------------------------------------------------- */

static void find_target(proxy *p, const char *target)
{
    char host[64];
    const char *colon = strrchr(target, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    proxy_must(colon && (size_t)(colon - target) < sizeof host, "proxy: target is not host:port");
    snprintf(host, sizeof host, "%.*s", (int)(colon - target), target);
    char *name = host;
    if (name[0] == '[') {
        name++;
        name[strcspn(name, "]")] = '\0';
    }
    proxy_must(getaddrinfo(name, colon + 1, &hints, &found) == 0, "proxy: no such target");
    memcpy(&p->target, found->ai_addr, found->ai_addrlen);
    p->target_size = found->ai_addrlen;
    freeaddrinfo(found);
}

static int bind_socket(proxy *p)
{
    int on = 1;
    int fd = socket(p->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    proxy_must(fd >= 0, "proxy: socket");
    proxy_must(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "proxy: setsockopt");
    proxy_must(bind(fd, (struct sockaddr *)&p->address, p->address_size) == 0, "proxy: bind");
    proxy_must(getsockname(fd, (struct sockaddr *)&p->address, &p->address_size) == 0, "proxy: getsockname");
    return fd;
}

/* Only a port that was asked for by number stays ours while nobody listens on it, so it is bound twice. */
static void find_address(proxy *p)
{
    char host[INET6_ADDRSTRLEN];
    p->address = p->target;
    p->address_size = p->target_size;
    if (p->address.ss_family == AF_INET6) {
        struct sockaddr_in6 *address = (struct sockaddr_in6 *)&p->address;
        address->sin6_addr = in6addr_loopback;
        address->sin6_port = 0;
    } else {
        struct sockaddr_in *address = (struct sockaddr_in *)&p->address;
        if (ntohl(address->sin_addr.s_addr) >> 24 != 127) address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address->sin_port = 0;
    }
    int keeper = bind_socket(p);
    p->listener = bind_socket(p);
    close(keeper);
    if (p->address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *address = (const struct sockaddr_in6 *)&p->address;
        inet_ntop(AF_INET6, &address->sin6_addr, host, sizeof host);
        snprintf(p->endpoint, sizeof p->endpoint, "[%s]:%u", host, ntohs(address->sin6_port));
    } else {
        const struct sockaddr_in *address = (const struct sockaddr_in *)&p->address;
        inet_ntop(AF_INET, &address->sin_addr, host, sizeof host);
        snprintf(p->endpoint, sizeof p->endpoint, "%s:%u", host, ntohs(address->sin_port));
    }
}

static void watch(proxy *p, int fd, uint64_t name)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = name};
    proxy_must(epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &event) == 0, "proxy: epoll_ctl");
}

static void begin_listening(proxy *p)
{
    proxy_must(listen(p->listener, BACKLOG) == 0, "proxy: listen");
    watch(p, p->listener, LISTENER);
}

/* Not by closing: a forked child may hold a copy, and the port is to stay ours. */
static void end_listening(proxy *p)
{
    epoll_ctl(p->epoll, EPOLL_CTL_DEL, p->listener, NULL);
    shutdown(p->listener, SHUT_RDWR);
}

void proxy_start(proxy *p, const char *target)
{
    memset(p, 0, sizeof *p);
    p->cut_after = -1;
    p->stuffing = -1;
    find_target(p, target);
    find_address(p);
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    p->alarm = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    proxy_must(p->epoll >= 0 && p->alarm >= 0, "proxy: epoll, eventfd");
    watch(p, p->alarm, ALARM);
    begin_listening(p);
    pthread_mutex_init(&p->lock, NULL);
    sem_init(&p->running, 0, 0);
    errno = pthread_create(&p->thread, NULL, run, p);
    proxy_must(errno == 0, "proxy: pthread_create");
    while (sem_wait(&p->running) != 0)
        ;
    sem_destroy(&p->running);
}

/* Settings are changed between these two; the thread then looks at everything once more. */
static void take(proxy *p)
{
    pthread_mutex_lock(&p->lock);
}

static void let_go(proxy *p)
{
    uint64_t one = 1;
    proxy_must(write(p->alarm, &one, sizeof one) == sizeof one, "proxy: eventfd");
    pthread_mutex_unlock(&p->lock);
}

void proxy_stop(proxy *p)
{
    take(p);
    p->stopping = true;
    let_go(p);
    pthread_join(p->thread, NULL);
    for (proxy_link *link = p->links; link; link = link->next)
        proxy_link_close(p, link);
    proxy_links_sweep(p);
    shutdown(p->listener, SHUT_RDWR);
    close(p->listener);
    if (p->stuffing >= 0) close(p->stuffing);
    close(p->alarm);
    close(p->epoll);
    pthread_mutex_destroy(&p->lock);
}

const char *proxy_endpoint(const proxy *p)
{
    return p->endpoint;
}

/* ---- the bytes
 * --------------------------------------------------------------------------------------------- */

static void set_mode(proxy *p, int ways, proxy_mode mode)
{
    for (int way = 0; way < 2; way++) {
        proxy_mode old = p->ways[way].mode;
        if (!(ways & (1 << way)) || old == mode) continue;
        p->ways[way].mode = mode;
        for (proxy_link *link = p->links; link; link = link->next) {
            if (link->closed) continue;
            if (old == PROXY_DROP && link->flows[way].lost) proxy_link_reset(p, link);
            if (mode == PROXY_BLACKHOLE || mode == PROXY_DROP) proxy_link_spill(p, link, way);
        }
    }
}

static void say_mode(proxy *p, int ways, proxy_mode mode)
{
    take(p);
    set_mode(p, ways, mode);
    let_go(p);
}

void proxy_hold(proxy *p, int ways)
{
    say_mode(p, ways, PROXY_HOLD);
}

void proxy_blackhole(proxy *p, int ways)
{
    say_mode(p, ways, PROXY_BLACKHOLE);
}

void proxy_drop(proxy *p, int ways)
{
    say_mode(p, ways, PROXY_DROP);
}

void proxy_drop_replies(proxy *p)
{
    say_mode(p, PROXY_TO_CLIENT, PROXY_DROP);
}

void proxy_release(proxy *p, int ways)
{
    say_mode(p, ways, PROXY_PASS);
}

void proxy_delay(proxy *p, int ways, int64_t ms)
{
    take(p);
    for (int way = 0; way < 2; way++) {
        if (ways & (1 << way)) p->ways[way].delay_ns = ms * 1000000;
    }
    let_go(p);
}

void proxy_chunk(proxy *p, int ways, size_t bytes)
{
    take(p);
    for (int way = 0; way < 2; way++) {
        if (ways & (1 << way)) p->ways[way].piece = bytes;
    }
    let_go(p);
}

/* ---- connections
 * ------------------------------------------------------------------------------------------- */

static void for_present(proxy *p, void (*act)(proxy *p, proxy_link *link))
{
    for (proxy_link *link = p->links; link; link = link->next) {
        if (!link->closed) act(p, link);
    }
}

void proxy_reset(proxy *p)
{
    take(p);
    for_present(p, proxy_link_reset);
    let_go(p);
}

void proxy_close(proxy *p)
{
    take(p);
    for_present(p, proxy_link_close);
    let_go(p);
}

void proxy_half_close(proxy *p)
{
    take(p);
    p->half_close = true;
    for_present(p, proxy_link_half_close);
    let_go(p);
}

static void set_cut(proxy *p, int64_t bytes)
{
    p->cut_after = bytes;
    for (proxy_link *link = p->links; link; link = link->next)
        link->flows[SERVER].left = bytes;
}

void proxy_cut_after(proxy *p, int64_t bytes)
{
    take(p);
    set_cut(p, bytes);
    let_go(p);
}

/* The kernel answers no SYN while the queue of a listener is full, and one connection fills a backlog of 0.
 */
static void stuff_listener(proxy *p)
{
    proxy_must(listen(p->listener, 0) == 0, "proxy: listen");
    p->stuffing = socket(p->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    proxy_must(p->stuffing >= 0, "proxy: socket");
    proxy_must(connect(p->stuffing, (struct sockaddr *)&p->address, p->address_size) == 0, "proxy: connect");
}

/* A shutdown while nobody listens would be remembered, and close every connection accepted later. */
static void set_welcome(proxy *p, proxy_welcome welcome)
{
    bool listened = p->welcome == PROXY_ACCEPT || p->welcome == PROXY_RESET;
    bool listens = welcome == PROXY_ACCEPT || welcome == PROXY_RESET;
    proxy_welcome old = p->welcome;
    p->welcome = welcome;
    if (old == welcome || (listened && listens)) return;
    if (old != PROXY_REFUSE) end_listening(p);
    if (p->stuffing >= 0) close(p->stuffing);
    p->stuffing = -1;
    if (welcome == PROXY_IGNORE) stuff_listener(p);
    if (listens) begin_listening(p);
}

static void say_welcome(proxy *p, proxy_welcome welcome)
{
    take(p);
    set_welcome(p, welcome);
    let_go(p);
}

void proxy_accept_new(proxy *p)
{
    say_welcome(p, PROXY_ACCEPT);
}

void proxy_refuse_new(proxy *p)
{
    say_welcome(p, PROXY_REFUSE);
}

void proxy_reset_new(proxy *p)
{
    say_welcome(p, PROXY_RESET);
}

void proxy_ignore_new(proxy *p)
{
    say_welcome(p, PROXY_IGNORE);
}

void proxy_pass(proxy *p)
{
    take(p);
    set_mode(p, PROXY_BOTH, PROXY_PASS);
    for (int way = 0; way < 2; way++) {
        p->ways[way].delay_ns = 0;
        p->ways[way].piece = 0;
    }
    p->half_close = false;
    set_cut(p, -1);
    set_welcome(p, PROXY_ACCEPT);
    let_go(p);
}

/* ---- what was seen
 * ----------------------------------------------------------------------------------------- */

size_t proxy_connections(proxy *p)
{
    size_t n = 0;
    take(p);
    for (const proxy_link *link = p->links; link; link = link->next)
        n += !link->closed && link->fd[CLIENT] >= 0 && !link->flows[CLIENT].ended;
    let_go(p);
    return n;
}

uint64_t proxy_accepted(proxy *p)
{
    take(p);
    uint64_t n = p->links_made;
    let_go(p);
    return n;
}

uint64_t proxy_bytes(proxy *p, int way)
{
    take(p);
    uint64_t n = p->ways[way == PROXY_TO_CLIENT].delivered;
    let_go(p);
    return n;
}

uint64_t proxy_swallowed(proxy *p, int way)
{
    take(p);
    uint64_t n = p->ways[way == PROXY_TO_CLIENT].swallowed;
    let_go(p);
    return n;
}
