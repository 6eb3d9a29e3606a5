/* A TCP proxy with faults in front of one endpoint, as a thread of the test: what a network, or a server that
 * is stuck, does to a connection.
 *
 * What is said holds for all present and all future connections as soon as the call returns, until the next
 * word on the same matter. Every function may be called from any thread. */
#ifndef TEST_PROXY_H
#define TEST_PROXY_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* The two ways through a connection; may be or-ed. */
enum { PROXY_TO_SERVER = 1, PROXY_TO_CLIENT = 2, PROXY_BOTH = 3 };

typedef enum proxy_mode {
    PROXY_PASS,
    PROXY_HOLD,      /* nothing arrives, but all of it does later */
    PROXY_BLACKHOLE, /* what is sent is lost, and with it the rest of that connection */
    PROXY_DROP,      /* what is sent is lost; who lost something is reset at the return to another mode */
} proxy_mode;

typedef enum proxy_welcome {
    PROXY_ACCEPT,
    PROXY_REFUSE, /* nobody listens */
    PROXY_RESET,  /* accepted, then reset at once */
    PROXY_IGNORE, /* no answer to SYN */
} proxy_welcome;

typedef struct proxy {
    pthread_t thread;
    sem_t running;        /* while it starts */
    pthread_mutex_t lock; /* over all that follows */
    struct proxy_link *links;
    uint64_t links_made;
    int epoll;
    int alarm; /* an eventfd: something was said */
    int listener;
    int stuffing; /* the connection that fills the listener's backlog while SYNs are ignored; or -1 */
    bool stopping;
    proxy_welcome welcome;
    bool half_close;
    int64_t cut_after; /* bytes to the client; negative: never */
    struct proxy_way {
        proxy_mode mode;
        int64_t delay_ns;
        size_t piece; /* the largest write; 0: any */
        uint64_t delivered, swallowed;
    } ways[2]; /* to the server, to the client */
    struct sockaddr_storage target, address;
    socklen_t target_size, address_size;
    char endpoint[64];
} proxy;

/* Begins to serve in front of "host:port", with nothing wrong. It listens on the target's own address if that
 * is a loopback one, so that the name in the target's certificate fits. Returns when its thread has nothing
 * to do but wait for connections: a fork amid its start would leave the child with AddressSanitizer's
 * allocator locked for ever. Aborts the test if it cannot. */
void proxy_start(proxy *p, const char *target);
/* Ends all connections, the thread, and closes every descriptor. */
void proxy_stop(proxy *p);
/* "host:port" to give to the client. */
const char *proxy_endpoint(const proxy *p);

/* Ends every fault: pass both ways, no delay, new connections accepted. What was held is delivered. */
void proxy_pass(proxy *p);

/* ---- the bytes of one way or both. A FIN or RST of a side goes the way of the bytes after which it came. */

/* Kept back in order, as TCP does over an interrupted line; a connection made meanwhile is accepted, and
 * joined to the server at the release. More than a megabyte waits in the sender. */
void proxy_hold(proxy *p, int ways);
/* Sockets stay open and nothing gets through. A way of a connection that lost something stays silent for ever
 * (a stream with a hole in it is none), after proxy_pass too, as behind a firewall that has forgotten it. One
 * that was idle all the while works again. A connection made meanwhile is accepted. */
void proxy_blackhole(proxy *p, int ways);
/* Thrown away; a connection that lost something is reset as soon as the mode is another. */
void proxy_drop(proxy *p, int ways);
/* Requests go through, answers are swallowed. */
void proxy_drop_replies(proxy *p);
/* Pass again on these ways only; the other faults stay. */
void proxy_release(proxy *p, int ways);
/* Each byte arrives so much later than it was sent. Those under way keep their time. */
void proxy_delay(proxy *p, int ways, int64_t ms);
/* No write is larger than so many bytes; 0: any. */
void proxy_chunk(proxy *p, int ways, size_t bytes);

/* ---- connections */

/* Sends RST to both sides of every present connection. */
void proxy_reset(proxy *p);
/* Ends every present connection in good order, FIN to both sides. */
void proxy_close(proxy *p);
/* FIN to the client, and nothing more to it; its own bytes go on to the server. Future connections get it at
 * once. */
void proxy_half_close(proxy *p);
/* Closes a connection after exactly so many more bytes to its client; a new one after its first so many.
 * Negative: not any more. */
void proxy_cut_after(proxy *p, int64_t bytes);

void proxy_accept_new(proxy *p);
void proxy_refuse_new(proxy *p);
void proxy_reset_new(proxy *p);
/* A connect of the client is not even answered. */
void proxy_ignore_new(proxy *p);

/* ---- what was seen */

/* Connections whose client has not ended them. */
size_t proxy_connections(proxy *p);
/* How many were ever accepted. */
uint64_t proxy_accepted(proxy *p);
/* Bytes given to the receiver, and bytes lost, on one way. */
uint64_t proxy_bytes(proxy *p, int way);
uint64_t proxy_swallowed(proxy *p, int way);

#endif
