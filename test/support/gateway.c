#include "support/gateway.h"

#include <arpa/inet.h>
#include <check.h>
#include <inttypes.h>
#include <netdb.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/live.h"

enum { KEY_MAX = 1200, BASE64_ROOM = KEY_MAX / 3 * 4 + 8, REQUEST_ROOM = 8192, ANSWER_ROOM = 512 * 1024 };

static int connect_to(const char *endpoint)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found;
    char host[128];
    const char *colon = strrchr(endpoint, ':');
    ck_assert_ptr_nonnull(colon);
    snprintf(host, sizeof host, "%.*s", (int)(colon - endpoint), endpoint);
    ck_assert_int_eq(getaddrinfo(host, colon + 1, &hints, &found), 0);
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, found->ai_addr, found->ai_addrlen), 0);
    freeaddrinfo(found);
    return fd;
}

/* Sends a request and reads the answer up to the end of the connection; its body, to be freed. HTTP/1.0, so
 * that the body comes in one piece. */
static char *ask(const char *verb, const char *path, const char *body)
{
    char request[REQUEST_ROOM];
    char *answer = malloc(ANSWER_ROOM);
    size_t size = 0;
    ssize_t n;
    ck_assert_ptr_nonnull(answer);
    int length = snprintf(request, sizeof request, "%s %s HTTP/1.0\r\nContent-Length: %zu\r\n\r\n%s", verb,
                          path, strlen(body), body);
    ck_assert_int_lt(length, REQUEST_ROOM);
    int fd = connect_to(live_endpoint(0));
    ck_assert_int_eq(write(fd, request, (size_t)length), length);
    while ((n = read(fd, answer + size, ANSWER_ROOM - 1 - size)) > 0)
        size += (size_t)n;
    close(fd);
    answer[size] = '\0';
    ck_assert_msg(strstr(answer, " 200 ") != NULL, "%s %s: %s", path, body, answer);
    char *content = strstr(answer, "\r\n\r\n");
    ck_assert_ptr_nonnull(content);
    memmove(answer, content + 4, strlen(content + 4) + 1);
    return answer;
}

/* Posts a body of so much format; the number after `field` in the answer, or 0. */
__attribute__((format(printf, 3, 4))) static int64_t post(const char *path, const char *field,
                                                          const char *format, ...)
{
    char body[REQUEST_ROOM - 256];
    char name[40];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(body, sizeof body, format, values);
    va_end(values);
    ck_assert_int_lt(length, (int)sizeof body);
    char *answer = ask("POST", path, body);
    snprintf(name, sizeof name, "\"%s\":\"", field);
    const char *found = strstr(answer, name);
    int64_t number = found ? strtoll(found + strlen(name), NULL, 10) : 0;
    free(answer);
    return number;
}

static const char *encode(char *to, const char *text, size_t size)
{
    ck_assert_uint_lt(size, KEY_MAX);
    EVP_EncodeBlock((unsigned char *)to, (const unsigned char *)text, (int)size);
    return to;
}

void gateway_grant(int64_t id, int ttl_s)
{
    post("/v3/lease/grant", "ID", "{\"ID\":\"%" PRId64 "\",\"TTL\":\"%d\"}", id, ttl_s);
}

void gateway_revoke(int64_t id)
{
    post("/v3/kv/lease/revoke", "revision", "{\"ID\":\"%" PRId64 "\"}", id);
}

int64_t gateway_put(const char *key, const char *value, int64_t lease)
{
    char name[BASE64_ROOM], content[BASE64_ROOM];
    return post("/v3/kv/put", "revision", "{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%" PRId64 "\"}",
                encode(name, key, strlen(key)), encode(content, value, strlen(value)), lease);
}

void gateway_delete(const char *key)
{
    char name[BASE64_ROOM];
    post("/v3/kv/deleterange", "deleted", "{\"key\":\"%s\"}", encode(name, key, strlen(key)));
}

size_t gateway_count(const char *prefix)
{
    char name[BASE64_ROOM], end_name[BASE64_ROOM], end[KEY_MAX];
    size_t size = strlen(prefix);
    ck_assert_uint_lt(size, KEY_MAX);
    ck_assert_uint_gt(size, 0);
    memcpy(end, prefix, size);
    ck_assert_int_ne(end[size - 1], '\xff');
    end[size - 1]++;
    return (size_t)post("/v3/kv/range", "count", "{\"key\":\"%s\",\"range_end\":\"%s\",\"count_only\":true}",
                        encode(name, prefix, size), encode(end_name, end, size));
}

double gateway_metric(const char *name)
{
    char *answer = ask("GET", "/metrics", "");
    size_t size = strlen(name);
    double sum = 0;
    char *rest;
    for (char *line = strtok_r(answer, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, name, size) == 0 && (line[size] == ' ' || line[size] == '{'))
            sum += strtod(strrchr(line, ' '), NULL);
    }
    free(answer);
    return sum;
}
