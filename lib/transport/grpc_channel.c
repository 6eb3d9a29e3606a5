#include "transport/grpc_channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "core/alloc.h"
#include "etcdlock/version.h"
#include "transport/grpc_release.h"

enum {
    FIRST_BACKOFF_MS = 100, /* gRPC takes no less */
    LONGEST_BACKOFF_MS = 1000,
    RESOLVE_AGAIN_MS = 1000, /* gRPC would keep an address for 30 s, though a member may have moved */
    RESOLVE_TIMEOUT_MS = 5000,
    LARGEST_MESSAGE = 256 << 20,
};

#define QUOTED(x)        #x
#define VERSION(a, b, c) QUOTED(a) "." QUOTED(b) "." QUOTED(c)
#define USER_AGENT                                                                                           \
    "libetcdlock/" VERSION(ETCDLOCK_VERSION_MAJOR, ETCDLOCK_VERSION_MINOR, ETCDLOCK_VERSION_PATCH)

static const int64_t REOPEN_INTERVAL_NS = 1000000000;

/* One that is given less time tells nothing about its connection. */
static const int64_t SILENCE_NS = 500000000;

static const char *const METHODS[EL_GRPC_METHODS] = {
    [EL_TXN] = "/etcdserverpb.KV/Txn",
    [EL_RANGE] = "/etcdserverpb.KV/Range",
    [EL_LEASE_GRANT] = "/etcdserverpb.Lease/LeaseGrant",
    [EL_LEASE_REVOKE] = "/etcdserverpb.Lease/LeaseRevoke",
    [EL_LEASE_KEEPALIVE] = "/etcdserverpb.Lease/LeaseKeepAlive",
    [EL_LEASE_TIME_TO_LIVE] = "/etcdserverpb.Lease/LeaseTimeToLive",
    [EL_AUTHENTICATE] = "/etcdserverpb.Auth/Authenticate",
    [EL_STATUS] = "/etcdserverpb.Maintenance/Status",
    [EL_GRPC_WATCH] = "/etcdserverpb.Watch/Watch",
};

/* ---- endpoints ---- */

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._~:/", c));
}

/* NULL: no memory. */
static char *percent_encoded(const char *prefix, const char *text)
{
    static const char HEX[] = "0123456789ABCDEF";
    size_t start = strlen(prefix);
    char *out = el_alloc(start + 3 * strlen(text) + 1);
    if (!out) return NULL;
    memcpy(out, prefix, start);
    char *at = out + start;
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (is_plain(*text)) {
            *at++ = *text;
        } else {
            *at++ = '%';
            *at++ = HEX[byte >> 4];
            *at++ = HEX[byte & 15];
        }
    }
    return out;
}

/* Of a target with a port, not of a socket in the file system. */
static bool is_name(const char *target)
{
    char host[INET_ADDRSTRLEN];
    struct in_addr address;
    size_t size = strcspn(target, ":");
    if (target[0] == '[') return false;
    if (size >= sizeof host) return true;
    memcpy(host, target, size);
    host[size] = '\0';
    return inet_pton(AF_INET, host, &address) != 1;
}

int el_grpc_endpoint_set(el_grpc_endpoint *endpoint, const char *target)
{
    *endpoint = (el_grpc_endpoint){0};
    if (strncmp(target, "unix:", 5) == 0) {
        endpoint->uri = percent_encoded("unix:", target + 5);
        endpoint->authority = el_strdup("localhost");
    } else {
        /* The scheme is spelled out, for gRPC would take that of a host named "dns" or "ipv4" from its name.
         */
        endpoint->uri = percent_encoded("dns:///", target);
        endpoint->authority = el_strdup(target);
        endpoint->is_name = is_name(target);
    }
    return endpoint->uri && endpoint->authority ? 0 : ENOMEM;
}

void el_grpc_endpoint_clear(el_grpc_endpoint *endpoint)
{
    el_free(endpoint->uri);
    el_free(endpoint->authority);
    *endpoint = (el_grpc_endpoint){0};
}

/* ---- channels ---- */

static grpc_arg number(const char *key, int64_t value)
{
    grpc_arg arg = {.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key};
    arg.value.integer = value > INT_MAX ? INT_MAX : (int)value;
    return arg;
}

static grpc_arg text(const char *key, const char *value)
{
    grpc_arg arg = {.type = GRPC_ARG_STRING, .key = (char *)(uintptr_t)key};
    arg.value.string = (char *)(uintptr_t)value;
    return arg;
}

void el_grpc_channel_open(el_grpc_channel *channel, const el_grpc_endpoint *endpoint,
                          grpc_channel_credentials *credentials, int64_t keepalive_time_ms,
                          int64_t keepalive_timeout_ms, int64_t now_ns)
{
    grpc_arg args[] = {
        text(GRPC_ARG_DEFAULT_AUTHORITY, endpoint->authority),
        text(GRPC_ARG_PRIMARY_USER_AGENT_STRING, USER_AGENT),
        /* Otherwise channels of equal arguments share a connection and its back-off, and a bulk on one lane
         * would delay the renewals on the other. */
        number(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
        /* What to repeat, and where, is decided above the transport only. */
        number(GRPC_ARG_ENABLE_RETRIES, 0),
        number(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
        number(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        number(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_time_ms),
        number(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_timeout_ms),
        /* etcd counts pings on a connection without a call as an offence and hangs up. A connection that died
         * idle is found out by the first call on it. */
        number(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0),
        /* By default gRPC stops after two pings without data, and a silent watch would then never notice that
         * its member is gone. */
        number(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        /* The pings by which gRPC measures the bandwidth cost each small request 3 %; without them 8,000
         * entries come over a way of 50 ms in 180 ms instead of 80. */
        number(GRPC_ARG_HTTP2_BDP_PROBE, 0),
        number(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, FIRST_BACKOFF_MS),
        number(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, LONGEST_BACKOFF_MS),
        /* The "minimum back-off" is in truth the time that an attempt to connect may take (TCP, TLS and the
         * first HTTP/2 settings), so a small one would shut out every distant or busy member. */
        number(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, EL_GRPC_CONNECT_TIMEOUT_MS),
        number(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, RESOLVE_AGAIN_MS),
        number(GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, RESOLVE_TIMEOUT_MS),
        number(GRPC_ARG_CLIENT_IDLE_TIMEOUT_MS, INT_MAX),
        number(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, LARGEST_MESSAGE),
        number(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1),
        number(GRPC_ARG_ENABLE_CHANNELZ, 0),
        number(GRPC_ARG_MAX_CHANNEL_TRACE_EVENT_MEMORY_PER_NODE, 0),
    };
    grpc_channel_args all = {.num_args = sizeof args / sizeof args[0], .args = args};
    channel->opened_ns = now_ns;
    channel->is_name = endpoint->is_name;
    atomic_store_explicit(&channel->failing, false, memory_order_relaxed);
    atomic_store_explicit(&channel->silent, false, memory_order_relaxed);
    channel->channel = grpc_channel_create(endpoint->uri, credentials, &all);
    for (int i = 0; i < EL_GRPC_METHODS; i++) {
        channel->methods[i] = grpc_channel_register_call(channel->channel, METHODS[i], NULL, NULL);
    }
}

void el_grpc_channel_close(el_grpc_channel *channel)
{
    if (!channel->channel) return;
    el_grpc_destroy_channel(channel->channel);
    channel->channel = NULL;
}

grpc_call *el_grpc_channel_call(el_grpc_channel *channel, int method, grpc_completion_queue *queue,
                                gpr_timespec deadline)
{
    return grpc_channel_create_registered_call(channel->channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
                                               channel->methods[method], deadline, NULL);
}

/* Old calls that end late say nothing about a channel that was opened since. */
void el_grpc_channel_unanswered(el_grpc_channel *channel, int64_t begun_ns, int64_t now_ns)
{
    if (begun_ns < channel->opened_ns || now_ns - begun_ns < SILENCE_NS) return;
    atomic_store_explicit(&channel->silent, true, memory_order_relaxed);
}

/* gRPC waits up to two minutes between two looks at a name that did not resolve, keeps an address that has
 * become wrong, and has no option for the first nor a way to cut it short; a new channel looks at once. Only
 * one that fails is replaced, not one that is still connecting: so every attempt to connect has its full
 * time. An address is left to gRPC, which tries it again every second: one channel destroyed in the moment
 * between the connection and the server's first word leaks that connection (gRPC 1.51).
 *
 * A connection that was forgotten on the way, by a firewall, say, swallows everything without a word; gRPC's
 * own probes take keepalive_time and keepalive_timeout to find that out, which may be longer than a lease
 * lives. */
bool el_grpc_channel_is_stuck(el_grpc_channel *channel, int64_t now_ns)
{
    if (now_ns - channel->opened_ns < REOPEN_INTERVAL_NS) return false;
    if (atomic_load_explicit(&channel->silent, memory_order_relaxed))
        return el_grpc_channel_is_ready(channel);
    return channel->is_name && atomic_load_explicit(&channel->failing, memory_order_relaxed) &&
           grpc_channel_check_connectivity_state(channel->channel, false) == GRPC_CHANNEL_TRANSIENT_FAILURE;
}

bool el_grpc_channel_is_ready(el_grpc_channel *channel)
{
    return grpc_channel_check_connectivity_state(channel->channel, false) == GRPC_CHANNEL_READY;
}
