#include "support/raw.h"

#include <check.h>
#include <inttypes.h>
#include <netdb.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "support/gateway.h"
#include "support/live.h"

enum { PATIENCE_S = 5, BODY_ROOM = 2048, TEXT_MAX = 360, BASE64_ROOM = 512 };

/* ---- HTTP ------------------------------------------------------------------------------------------------
 */

/* -1 if it cannot. */
static int connect_to(const char *endpoint)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found = NULL;
    struct timeval patience = {.tv_sec = PATIENCE_S};
    char host[128];
    const char *colon = strrchr(endpoint, ':');
    if (!colon || (size_t)(colon - endpoint) >= sizeof host) return -1;
    snprintf(host, sizeof host, "%.*s", (int)(colon - endpoint), endpoint);
    if (getaddrinfo(host, colon + 1, &hints, &found)) return -1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if (connect(fd, found->ai_addr, found->ai_addrlen)) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

static bool send_request(int fd, const char *path, const char *body)
{
    char request[BODY_ROOM + 256];
    int size = body ? snprintf(request, sizeof request, "POST %s HTTP/1.0\r\nContent-Length: %zu\r\n\r\n%s",
                               path, strlen(body), body)
                    : snprintf(request, sizeof request, "GET %s HTTP/1.0\r\n\r\n", path);
    return send(fd, request, (size_t)size, MSG_NOSIGNAL) == size;
}

/* Reads to the end of the connection, which it closes; true if the answer is a good one. */
static bool receive(int fd, char *answer, size_t room)
{
    size_t size = 0;
    ssize_t n;
    while (size < room - 1 && (n = recv(fd, answer + size, room - 1 - size, 0)) > 0)
        size += (size_t)n;
    answer[size] = '\0';
    close(fd);
    return strncmp(answer, "HTTP/1.0 200", 12) == 0;
}

static bool ask(const char *endpoint, const char *path, const char *body, char *answer, size_t room)
{
    int fd = connect_to(endpoint);
    answer[0] = '\0';
    if (fd < 0) return false;
    if (!send_request(fd, path, body)) {
        close(fd);
        return false;
    }
    return receive(fd, answer, room);
}

/* As JSON carries bytes. */
static const char *encode(char *to, const char *text)
{
    ck_assert_uint_lt(strlen(text), TEXT_MAX);
    EVP_EncodeBlock((unsigned char *)to, (const unsigned char *)text, (int)strlen(text));
    return to;
}

static int64_t revision_in(const char *answer)
{
    const char *found = strstr(answer, "\"revision\":\"");
    return found ? strtoll(found + strlen("\"revision\":\""), NULL, 10) : -1;
}

/* ---- requests made ready ---------------------------------------------------------------------------------
 */

void raw_connect(raw_call *call, const char *endpoint)
{
    call->fd = connect_to(endpoint);
    ck_assert_int_ge(call->fd, 0);
}

void raw_send_revoke(raw_call *call, int64_t lease)
{
    char body[BODY_ROOM];
    snprintf(body, sizeof body, "{\"ID\":\"%" PRId64 "\"}", lease);
    ck_assert(send_request(call->fd, "/v3/kv/lease/revoke", body));
}

void raw_send_delete(raw_call *call, const char *key)
{
    char body[BODY_ROOM], encoded[BASE64_ROOM];
    snprintf(body, sizeof body, "{\"key\":\"%s\"}", encode(encoded, key));
    ck_assert(send_request(call->fd, "/v3/kv/deleterange", body));
}

int64_t raw_end(raw_call *call)
{
    char answer[BODY_ROOM];
    return receive(call->fd, answer, sizeof answer) ? revision_in(answer) : -1;
}

/* ---- whole operations -------------------------------------------------------------------------------------
 */

raw_entry raw_enter(const char *name, int ttl_s)
{
    static int last;
    raw_entry entry = {.lease = (int64_t)getpid() * 100000 + ++last};
    snprintf(entry.key, sizeof entry.key, "%s/%" PRIx64, name, (uint64_t)entry.lease);
    gateway_grant(entry.lease, ttl_s);
    gateway_put(entry.key, "", entry.lease);
    return entry;
}

void raw_leave(const raw_entry *entry)
{
    gateway_revoke(entry->lease);
}

void raw_grant(int64_t lease, int64_t ttl_s)
{
    char body[BODY_ROOM], answer[BODY_ROOM];
    snprintf(body, sizeof body, "{\"ID\":\"%" PRId64 "\",\"TTL\":\"%" PRId64 "\"}", lease, ttl_s);
    bool good = ask(live_endpoint(0), "/v3/lease/grant", body, answer, sizeof answer);
    ck_assert_msg(good, "lease grant: %s", answer);
}

int64_t raw_put_guarded(const char *endpoint, const char *guard, uint64_t create_revision, const char *key,
                        const char *value)
{
    char body[BODY_ROOM], answer[BODY_ROOM], guards[BASE64_ROOM], keys[BASE64_ROOM], values[BASE64_ROOM];
    snprintf(body, sizeof body,
             "{\"compare\":[{\"target\":\"CREATE\",\"result\":\"EQUAL\",\"key\":\"%s\",\"create_revision\":"
             "\"%" PRIu64 "\"}],\"success\":[{\"requestPut\":{\"key\":\"%s\",\"value\":\"%s\"}}]}",
             encode(guards, guard), create_revision, encode(keys, key), encode(values, value));
    if (!ask(endpoint, "/v3/kv/txn", body, answer, sizeof answer)) return -1;
    return strstr(answer, "\"succeeded\":true") ? revision_in(answer) : 0;
}

int64_t raw_put(const char *endpoint, const char *key, const char *value)
{
    char body[BODY_ROOM], answer[BODY_ROOM], keys[BASE64_ROOM], values[BASE64_ROOM];
    snprintf(body, sizeof body, "{\"key\":\"%s\",\"value\":\"%s\"}", encode(keys, key),
             encode(values, value));
    return ask(endpoint, "/v3/kv/put", body, answer, sizeof answer) ? revision_in(answer) : -1;
}
