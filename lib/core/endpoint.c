#include "core/endpoint.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "core/alloc.h"

enum {
    HOST_MAX = 253,  /* of a name in the DNS */
    SHOWN_MAX = 120, /* bytes of an endpoint that a message shows */
    PORT_ROOM = sizeof("[]:65535"),
};

typedef enum scheme {
    SCHEME_NONE,
    SCHEME_HTTP,
    SCHEME_HTTPS,
    SCHEME_UNIX,
} scheme;

/* A stretch of the list. */
typedef struct piece {
    const char *data;
    size_t size;
} piece;

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static piece trimmed(const char *begin, const char *end)
{
    while (begin < end && is_space(*begin))
        begin++;
    while (end > begin && is_space(end[-1]))
        end--;
    return (piece){begin, (size_t)(end - begin)};
}

static bool take_prefix(piece *from, const char *prefix)
{
    size_t size = strlen(prefix);
    if (from->size < size || strncasecmp(from->data, prefix, size) != 0) return false;
    from->data += size;
    from->size -= size;
    return true;
}

static scheme take_scheme(piece *from)
{
    if (take_prefix(from, "http://")) return SCHEME_HTTP;
    if (take_prefix(from, "https://")) return SCHEME_HTTPS;
    if (take_prefix(from, "unix://") || take_prefix(from, "unix:")) return SCHEME_UNIX;
    return SCHEME_NONE;
}

/* The leaf functions below return NULL, or why they refuse. */

static const char *parse_port(unsigned *port, piece text)
{
    *port = 0;
    for (size_t i = 0; i < text.size && *port <= 65535; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return "its port is not a number";
        *port = *port * 10 + (unsigned)(text.data[i] - '0');
    }
    return *port >= 1 && *port <= 65535 ? NULL : "its port must be 1 to 65535";
}

static const char *check_name(piece host)
{
    if (host.size == 0) return "it has no host";
    if (host.size > HOST_MAX) return "its host is longer than 253 bytes";
    for (size_t i = 0; i < host.size; i++) {
        unsigned char c = (unsigned char)host.data[i];
        if (!(c < 128 && isalnum(c)) && c != '-' && c != '.' && c != '_') {
            return "write host:port, [IPv6]:port, http://host:port, https://host:port or unix:path";
        }
    }
    return NULL;
}

static const char *check_v6(piece host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (host.size >= sizeof(text)) return "its brackets hold no IPv6 address";
    memcpy(text, host.data, host.size);
    text[host.size] = '\0';
    return inet_pton(AF_INET6, text, &address) == 1 ? NULL : "its brackets hold no IPv6 address";
}

/* Splits what follows the scheme; *rest starts at the colon before the port or is empty. */
static const char *split_host(piece all, piece *host, piece *rest)
{
    const char *end = all.data + all.size;
    if (all.size > 0 && all.data[0] == '[') {
        const char *close = memchr(all.data, ']', all.size);
        if (!close) return "the bracket is not closed";
        *host = (piece){all.data + 1, (size_t)(close - all.data - 1)};
        *rest = (piece){close + 1, (size_t)(end - close - 1)};
        if (rest->size > 0 && rest->data[0] != ':') return "only a port may follow the bracket";
        return check_v6(*host);
    }
    const char *colon = memchr(all.data, ':', all.size);
    if (!colon) colon = end;
    *host = (piece){all.data, (size_t)(colon - all.data)};
    *rest = (piece){colon, (size_t)(end - colon)};
    if (rest->size > 0 && memchr(colon + 1, ':', rest->size - 1)) {
        return "an IPv6 address stands in brackets, for example [::1]:2379";
    }
    return check_name(*host);
}

static const char *write_network(char *target, piece all, size_t *size)
{
    piece host;
    piece rest;
    unsigned port = EL_ENDPOINT_DEFAULT_PORT;
    if (memmem(all.data, all.size, "://", 3)) return "its scheme is none of http, https and unix";
    if (memchr(all.data, '@', all.size)) return "a user is said by the option user";
    if (all.size > 0 && all.data[all.size - 1] == '/') all.size--;
    if (memchr(all.data, '/', all.size)) return "nothing may follow the port";
    const char *reason = split_host(all, &host, &rest);
    if (!reason && rest.size > 0) reason = parse_port(&port, (piece){rest.data + 1, rest.size - 1});
    if (reason) return reason;
    bool v6 = all.data[0] == '[';
    *size = (size_t)snprintf(target, host.size + PORT_ROOM, v6 ? "[%.*s]:%u" : "%.*s:%u", (int)host.size,
                             host.data, port);
    /* Lower case, so that the same host written twice is recognised. */
    for (char *c = target; *c; c++) {
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    }
    /* Only reached by way of http://; as a target it would be a socket's path. */
    if (strncmp(target, "unix:", 5) == 0) return "its host is called unix: write its address instead";
    return NULL;
}

static const char *write_unix(char *target, piece path, size_t *size)
{
    /* "unix://x" would be a URI with the authority x and no path; to the kernel it is all one slash. */
    while (path.size > 1 && path.data[0] == '/' && path.data[1] == '/') {
        path.data++;
        path.size--;
    }
    if (path.size == 0) return "it has no path";
    if (path.size >= sizeof(((struct sockaddr_un *)0)->sun_path)) return "its path is longer than 107 bytes";
    for (size_t i = 0; i < path.size; i++) {
        unsigned char c = (unsigned char)path.data[i];
        /* gRPC reads the target as a URI, in which these would have to be escaped or mean something else. */
        if (c <= ' ' || c >= 127 || strchr("%?#\"<>\\^`{|}[]", c)) {
            return "its path holds a character other than letters, digits and -._~/:@!$&'()*+;=";
        }
    }
    *size = (size_t)snprintf(target, path.size + sizeof("unix:"), "unix:%.*s", (int)path.size, path.data);
    return NULL;
}

static int refuse(el_failure *failure, const char *where, piece item, const char *reason)
{
    int shown_size = item.size > SHOWN_MAX ? SHOWN_MAX : (int)item.size;
    return el_fail(failure, EINVAL, "%s: endpoint \"%.*s\": %s", where, shown_size, item.data, reason);
}

static const char *add(el_endpoints *out, char **cursor, piece item, unsigned *plain)
{
    if (item.size == 0) return "it is empty";
    if (out->n_targets == EL_ENDPOINTS_MAX) return "it is one too many, 64 are allowed";
    piece rest = item;
    size_t size = 0;
    scheme kind = take_scheme(&rest);
    const char *reason =
        kind == SCHEME_UNIX ? write_unix(*cursor, rest, &size) : write_network(*cursor, rest, &size);
    if (reason) return reason;
    for (unsigned i = 0; i < out->n_targets; i++) {
        if (strcmp(out->targets[i], *cursor) == 0) return "it is there twice";
    }
    if (kind == SCHEME_HTTP) (*plain)++;
    if (kind == SCHEME_HTTPS) out->tls = true;
    if (out->tls && *plain > 0) return "http:// and https:// cannot be mixed";
    out->targets[out->n_targets++] = *cursor;
    *cursor += size + 1;
    return NULL;
}

int el_endpoints_parse(el_endpoints *out, const char *list, const char *where, el_failure *failure)
{
    unsigned plain = 0;
    size_t n_items = 1;
    memset(out, 0, sizeof(*out));
    for (const char *c = list; *c; c++)
        n_items += *c == ',';
    out->targets = el_alloc(EL_ENDPOINTS_MAX * sizeof(*out->targets));
    out->storage = el_alloc(strlen(list) + n_items * PORT_ROOM + 1);
    if (!out->targets || !out->storage) {
        el_endpoints_free(out);
        return el_fail(failure, ENOMEM, "%s: out of memory", where);
    }

    char *cursor = out->storage;
    for (const char *begin = list;;) {
        const char *end = strchrnul(begin, ',');
        piece item = trimmed(begin, end);
        const char *reason = add(out, &cursor, item, &plain);
        if (reason) {
            el_endpoints_free(out);
            return refuse(failure, where, item, reason);
        }
        if (!*end) return 0;
        begin = end + 1;
    }
}

void el_endpoints_free(el_endpoints *endpoints)
{
    el_free(endpoints->targets);
    el_free(endpoints->storage);
    memset(endpoints, 0, sizeof(*endpoints));
}
