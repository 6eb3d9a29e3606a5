/* One connection through the fault proxy: its two sockets and the bytes between them. All of it is called
 * with the proxy's lock held. */
#ifndef TEST_PROXY_LINK_H
#define TEST_PROXY_LINK_H

#include "support/proxy.h"

enum { CLIENT, SERVER }; /* the sides; way i leads away from side i */

typedef struct proxy_flow {
    struct proxy_parcel *first, **last;
    size_t queued;
    int64_t left;  /* until the cut; negative: no cut */
    bool ended;    /* the source has nothing more to say */
    bool finished; /* the receiver gets nothing more */
    bool lost;     /* something was swallowed */
    bool blocked;  /* the receiver takes no more at the moment */
} proxy_flow;

typedef struct proxy_link {
    struct proxy_link *next;
    uint64_t id; /* even; with the side added it names a socket to epoll */
    int fd[2];   /* -1: none yet, or no more */
    uint32_t interest[2];
    bool connecting;
    bool closed; /* to be freed by the sweep */
    proxy_flow flows[2];
} proxy_link;

/* Takes over the client's socket. */
void proxy_link_open(proxy *p, int client);
/* Moves what can be moved. `events` of epoll for one side; 0: only what is due by the clock. */
void proxy_link_serve(proxy *p, proxy_link *link, int side, uint32_t events, int64_t now_ns);
/* When there is something to do without an event; INT64_MAX: never. */
int64_t proxy_link_due_ns(const proxy *p, const proxy_link *link);

void proxy_link_reset(proxy *p, proxy_link *link);
void proxy_link_close(proxy *p, proxy_link *link);
void proxy_link_half_close(proxy *p, proxy_link *link);
/* What waits on this way is lost too, for the mode became one that loses. */
void proxy_link_spill(proxy *p, proxy_link *link, int way);
/* Frees the closed ones. */
void proxy_links_sweep(proxy *p);

/* A socket's end, by RST, even if a forked child holds a copy of it. */
void proxy_abort_socket(int fd);
int64_t proxy_now_ns(void);
/* Prints what failed, with errno, and aborts. */
void proxy_must(bool good, const char *what);

#endif
