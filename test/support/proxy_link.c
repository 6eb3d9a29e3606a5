#include "support/proxy_link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { QUEUE_MAX = 1 << 20, READ_SIZE = 16384 };

/* Bytes on their way, or the end of them. */
typedef struct proxy_parcel {
    struct proxy_parcel *next;
    enum { DATA, FIN, RST } kind;
    int64_t due_ns;
    size_t size, sent;
    char bytes[];
} proxy_parcel;

void proxy_must(bool good, const char *what)
{
    if (good) return;
    perror(what);
    abort();
}

int64_t proxy_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- sockets ----------------------------------------------------------------------------------------------
 */

void proxy_abort_socket(int fd)
{
    struct linger none = {.l_onoff = 1};
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    connect(fd, &nowhere, sizeof nowhere);
    close(fd);
}

/* A descriptor's copy in a forked child would otherwise go on to be watched, and to hold the connection. */
static void close_side(proxy *p, proxy_link *link, int side, bool reset)
{
    int fd = link->fd[side];
    if (fd < 0) return;
    epoll_ctl(p->epoll, EPOLL_CTL_DEL, fd, NULL);
    link->fd[side] = -1;
    if (reset) {
        proxy_abort_socket(fd);
    } else {
        shutdown(fd, SHUT_RDWR);
        close(fd);
    }
}

static void watch_side(proxy *p, proxy_link *link, int side)
{
    int on = 1;
    struct epoll_event event = {.events = 0, .data.u64 = link->id + (uint64_t)side};
    setsockopt(link->fd[side], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    link->interest[side] = 0;
    proxy_must(epoll_ctl(p->epoll, EPOLL_CTL_ADD, link->fd[side], &event) == 0, "proxy: epoll_ctl");
}

static bool loses(proxy_mode mode)
{
    return mode == PROXY_BLACKHOLE || mode == PROXY_DROP;
}

static void want_events(proxy *p, proxy_link *link, int side)
{
    const proxy_flow *from = &link->flows[side], *towards = &link->flows[!side];
    uint32_t interest = 0;
    if (link->fd[side] < 0) return;
    if (!from->ended && from->queued < QUEUE_MAX) interest |= EPOLLIN;
    if (towards->blocked || (side == SERVER && link->connecting)) interest |= EPOLLOUT;
    if (interest == link->interest[side]) return;
    struct epoll_event event = {.events = interest, .data.u64 = link->id + (uint64_t)side};
    proxy_must(epoll_ctl(p->epoll, EPOLL_CTL_MOD, link->fd[side], &event) == 0, "proxy: epoll_ctl");
    link->interest[side] = interest;
}

/* ---- the bytes of one way ---------------------------------------------------------------------------------
 */

static void drop_first(proxy_flow *flow)
{
    proxy_parcel *gone = flow->first;
    flow->queued -= gone->size - gone->sent;
    flow->first = gone->next;
    if (!flow->first) flow->last = &flow->first;
    free(gone);
}

void proxy_link_spill(proxy *p, proxy_link *link, int way)
{
    proxy_flow *flow = &link->flows[way];
    while (flow->first) {
        p->ways[way].swallowed += flow->first->size - flow->first->sent;
        flow->lost = true;
        drop_first(flow);
    }
}

/* Takes what the source said into the queue, or swallows it. */
static void post(proxy *p, proxy_link *link, int way, int kind, const char *bytes, size_t size)
{
    proxy_flow *flow = &link->flows[way];
    struct proxy_way *rules = &p->ways[way];
    if (kind != DATA) flow->ended = true;
    if (flow->finished || flow->lost || loses(rules->mode)) {
        rules->swallowed += size;
        if (!flow->finished) flow->lost = true;
        return;
    }
    proxy_parcel *parcel = malloc(sizeof *parcel + size);
    proxy_must(parcel != NULL, "proxy: malloc");
    parcel->next = NULL;
    parcel->kind = kind;
    parcel->due_ns = proxy_now_ns() + rules->delay_ns;
    parcel->size = size;
    parcel->sent = 0;
    if (size > 0) memcpy(parcel->bytes, bytes, size);
    *flow->last = parcel;
    flow->last = &parcel->next;
    flow->queued += size;
}

/* The side has gone: what it sent before is still delivered, and then its end. */
static void lose_side(proxy *p, proxy_link *link, int side, int kind)
{
    proxy_flow *towards = &link->flows[!side];
    if (!link->flows[side].ended) post(p, link, side, kind, NULL, 0);
    while (towards->first)
        drop_first(towards);
    towards->finished = true;
    towards->blocked = false;
    close_side(p, link, side, kind == RST);
}

/* After a hang-up epoll would tell of it again and again, so then all is read whatever the queue holds. */
static void read_side(proxy *p, proxy_link *link, int side, bool hung_up)
{
    proxy_flow *flow = &link->flows[side];
    char bytes[READ_SIZE];
    while (!flow->ended && (hung_up || flow->queued < QUEUE_MAX)) {
        ssize_t n = recv(link->fd[side], bytes, sizeof bytes, MSG_DONTWAIT);
        if (n > 0) {
            post(p, link, side, DATA, bytes, (size_t)n);
        } else if (n == 0) {
            post(p, link, side, FIN, NULL, 0);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            lose_side(p, link, side, RST);
            return;
        }
    }
    if (hung_up) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(link->fd[side], SOL_SOCKET, SO_ERROR, &error, &size);
        lose_side(p, link, side, error ? RST : FIN);
    }
}

static void deliver_end(proxy *p, proxy_link *link, int way)
{
    proxy_flow *flow = &link->flows[way];
    bool reset = flow->first->kind == RST;
    drop_first(flow);
    flow->finished = true;
    if (reset) {
        proxy_link_reset(p, link);
    } else {
        shutdown(link->fd[!way], SHUT_WR);
    }
}

/* One write; false if no more can be written now. */
static bool deliver_bytes(proxy *p, proxy_link *link, int way)
{
    proxy_flow *flow = &link->flows[way];
    proxy_parcel *parcel = flow->first;
    size_t size = parcel->size - parcel->sent;
    if (p->ways[way].piece > 0 && size > p->ways[way].piece) size = p->ways[way].piece;
    if (flow->left >= 0 && size > (size_t)flow->left) size = (size_t)flow->left;
    if (size > 0) {
        ssize_t n = send(link->fd[!way], parcel->bytes + parcel->sent, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) return true;
        if (n < 0 && errno == EAGAIN) {
            flow->blocked = true;
            return false;
        }
        if (n < 0) {
            lose_side(p, link, !way, RST);
            return false;
        }
        parcel->sent += (size_t)n;
        flow->queued -= (size_t)n;
        p->ways[way].delivered += (uint64_t)n;
        if (flow->left > 0) flow->left -= n;
    }
    if (flow->left == 0) {
        proxy_link_close(p, link);
        return false;
    }
    if (parcel->sent == parcel->size) drop_first(flow);
    return true;
}

static bool may_deliver(const proxy *p, const proxy_link *link, int way)
{
    const proxy_flow *flow = &link->flows[way];
    return !link->closed && flow->first && !flow->blocked && p->ways[way].mode == PROXY_PASS &&
           link->fd[!way] >= 0 && !(way == CLIENT && link->connecting);
}

static void deliver(proxy *p, proxy_link *link, int way, int64_t now_ns)
{
    while (may_deliver(p, link, way) && link->flows[way].first->due_ns <= now_ns) {
        if (link->flows[way].first->kind != DATA) {
            deliver_end(p, link, way);
        } else if (!deliver_bytes(p, link, way)) {
            break;
        }
    }
}

int64_t proxy_link_due_ns(const proxy *p, const proxy_link *link)
{
    int64_t due_ns = INT64_MAX;
    for (int way = 0; way < 2; way++) {
        if (may_deliver(p, link, way) && link->flows[way].first->due_ns < due_ns)
            due_ns = link->flows[way].first->due_ns;
    }
    return due_ns;
}

/* ---- connections ------------------------------------------------------------------------------------------
 */

/* Not while nothing gets to the server: neither would a SYN. */
static void connect_server(proxy *p, proxy_link *link)
{
    const proxy_flow *flow = &link->flows[CLIENT];
    if (link->fd[SERVER] >= 0 || link->flows[SERVER].ended || flow->lost) return;
    if (p->ways[CLIENT].mode != PROXY_PASS && p->ways[CLIENT].mode != PROXY_DROP) return;
    int fd = socket(p->target.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    proxy_must(fd >= 0, "proxy: socket");
    link->fd[SERVER] = fd;
    if (connect(fd, (struct sockaddr *)&p->target, p->target_size) && errno != EINPROGRESS) {
        close(fd);
        link->fd[SERVER] = -1;
        proxy_link_reset(p, link);
        return;
    }
    link->connecting = true;
    watch_side(p, link, SERVER);
}

static void finish_connect(proxy *p, proxy_link *link)
{
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(link->fd[SERVER], SOL_SOCKET, SO_ERROR, &error, &size);
    link->connecting = false;
    if (error) proxy_link_reset(p, link);
}

void proxy_link_open(proxy *p, int client)
{
    proxy_link *link = calloc(1, sizeof *link);
    proxy_must(link != NULL, "proxy: calloc");
    link->id = 2 * ++p->links_made;
    link->fd[CLIENT] = client;
    link->fd[SERVER] = -1;
    for (int way = 0; way < 2; way++) {
        link->flows[way].last = &link->flows[way].first;
        link->flows[way].left = -1;
    }
    link->flows[SERVER].left = p->cut_after;
    link->next = p->links;
    p->links = link;
    watch_side(p, link, CLIENT);
    if (p->half_close) proxy_link_half_close(p, link);
    proxy_link_serve(p, link, CLIENT, 0, proxy_now_ns());
}

void proxy_link_serve(proxy *p, proxy_link *link, int side, uint32_t events, int64_t now_ns)
{
    bool hung_up = (events & (EPOLLHUP | EPOLLERR)) != 0;
    if (link->closed) return;
    if (side == SERVER && events && link->connecting) finish_connect(p, link);
    if (link->fd[side] >= 0 && (hung_up || (events & EPOLLIN))) read_side(p, link, side, hung_up);
    if (events & EPOLLOUT) link->flows[!side].blocked = false;
    if (!link->closed) connect_server(p, link);
    for (int way = 0; way < 2; way++)
        deliver(p, link, way, now_ns);
    if (link->closed) return;
    bool nobody = link->fd[CLIENT] < 0 && link->fd[SERVER] < 0;
    if (nobody || (link->flows[0].finished && link->flows[1].finished)) {
        proxy_link_close(p, link);
        return;
    }
    want_events(p, link, CLIENT);
    want_events(p, link, SERVER);
}

static void end_link(proxy *p, proxy_link *link, bool reset)
{
    close_side(p, link, CLIENT, reset);
    close_side(p, link, SERVER, reset);
    link->closed = true;
}

void proxy_link_reset(proxy *p, proxy_link *link)
{
    end_link(p, link, true);
}

void proxy_link_close(proxy *p, proxy_link *link)
{
    end_link(p, link, false);
}

void proxy_link_half_close(proxy *p, proxy_link *link)
{
    if (link->fd[CLIENT] < 0) return;
    proxy_link_spill(p, link, SERVER);
    link->flows[SERVER].finished = true;
    link->flows[SERVER].blocked = false;
    shutdown(link->fd[CLIENT], SHUT_WR);
}

void proxy_links_sweep(proxy *p)
{
    for (proxy_link **at = &p->links; *at;) {
        proxy_link *link = *at;
        if (!link->closed) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        for (int way = 0; way < 2; way++) {
            while (link->flows[way].first)
                drop_first(&link->flows[way]);
        }
        free(link);
    }
}
