/* lib/core/endpoint.c: from the text of endpoints to targets. */
#include "core/endpoint.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "support/runner.h"

static el_endpoints endpoints;
static el_failure failure;

static int parse(const char *list)
{
    memset(&failure, 0, sizeof(failure));
    return el_endpoints_parse(&endpoints, list, "endpoints (test)", &failure);
}

/* The list parses to these targets, joined by '|'. */
static void expect(const char *list, bool tls, const char *targets)
{
    char joined[512] = "";
    long alive = el_alloc_alive();
    ck_assert_msg(parse(list) == 0, "%s", failure.text);
    for (unsigned i = 0; i < endpoints.n_targets; i++) {
        if (i > 0) strcat(joined, "|");
        strcat(joined, endpoints.targets[i]);
    }
    ck_assert_str_eq(joined, targets);
    ck_assert_int_eq(endpoints.tls, tls);
    el_endpoints_free(&endpoints);
    ck_assert_int_eq(el_alloc_alive(), alive);
}

/* The list is refused, and the message has these words and names who said it. */
static void refuse(const char *list, const char *words)
{
    long alive = el_alloc_alive();
    ck_assert_msg(parse(list) == EINVAL, "%s was taken", list);
    ck_assert_msg(strstr(failure.text, words) != NULL, "%s", failure.text);
    ck_assert(strncmp(failure.text, "endpoints (test): ", 18) == 0);
    ck_assert_ptr_null(endpoints.targets);
    ck_assert_uint_eq(endpoints.n_targets, 0);
    ck_assert_int_eq(el_alloc_alive(), alive);
}

/* A host without a port gets etcd's; case of the host does not count. */
START_TEST(hosts_and_ports)
{
    expect("127.0.0.1:2379", false, "127.0.0.1:2379");
    expect("Node-1.Example.com", false, "node-1.example.com:2379");
    expect("a:1,b:65535,c_d:00080", false, "a:1|b:65535|c_d:80");
}
END_TEST

/* Spaces around commas and one trailing slash do no harm. */
START_TEST(spaces_and_slashes)
{
    expect(" a:1 ,\tb:2/, http://c:3/ ", false, "a:1|b:2|c:3");
    refuse("http://a:1//", "nothing may follow");
    refuse("a b:1", "write host:port");
}
END_TEST

/* One https:// is enough for TLS; http:// beside it is a contradiction, in either order. */
START_TEST(schemes)
{
    expect("https://a:1,b:2", true, "a:1|b:2");
    expect("HTTPS://a,HttpS://b", true, "a:2379|b:2379");
    expect("http://a,b", false, "a:2379|b:2379");
    refuse("https://a,http://b", "cannot be mixed");
    refuse("http://a,b,https://c", "cannot be mixed");
    refuse("ftp://a:1", "its scheme is none of");
    refuse("ftp://a", "its scheme is none of");
    refuse("unixs:/a/b", "nothing may follow");
    refuse("http://a:1/path", "nothing may follow");
    refuse("http://user:pw@a:1", "by the option user");
    refuse("a?x=1", "write host:port");
}
END_TEST

/* IPv6 addresses stand in brackets and are checked. */
START_TEST(ipv6)
{
    expect("[::1]:2380,[fe80::AB]", false, "[::1]:2380|[fe80::ab]:2379");
    expect("https://[::1]/", true, "[::1]:2379");
    refuse("::1", "brackets");
    refuse("::1:2379", "brackets");
    refuse("[::1", "not closed");
    refuse("[::1]2379", "only a port");
    refuse("[]", "no IPv6");
    refuse("[127.0.0.1]:1", "no IPv6");
    refuse("[fe80::1%eth0]:1", "no IPv6");
    refuse("[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]", "no IPv6");
    refuse("[::1]:", "1 to 65535");
}
END_TEST

/* The three ways to write a socket's path become one; what gRPC's URI could not carry is refused. */
START_TEST(unix_sockets)
{
    char list[200] = "unix:/";
    expect("unix:/run/etcd.sock", false, "unix:/run/etcd.sock");
    expect("unix:///run/etcd.sock", false, "unix:/run/etcd.sock");
    expect("unix://localhost:m0,https://a", true, "unix:localhost:m0|a:2379");
    expect("unix:////run/etcd.sock", false, "unix:/run/etcd.sock");
    refuse("unix:///s,unix:////s", "there twice");
    refuse("http://Unix:2379", "called unix");
    refuse("unix:", "no path");
    refuse("unix:/a b", "its path holds");
    refuse("unix:/a%20b", "its path holds");
    memset(list + 6, 'x', 106);
    expect(list, false, list);
    list[112] = 'x';
    refuse(list, "107 bytes");
}
END_TEST

/* Ports are whole numbers from 1 to 65535. */
START_TEST(bad_ports)
{
    refuse("a:0", "1 to 65535");
    refuse("a:65536", "1 to 65535");
    refuse("a:99999999999999999999999", "1 to 65535");
    refuse("a:-1", "not a number");
    refuse("a:", "1 to 65535");
    refuse(":2379", "no host");
    refuse("http://", "no host");
    refuse("/", "no host");
}
END_TEST

/* Empty items and the same target twice, however it is written, are refused. */
START_TEST(empty_and_twice)
{
    refuse("", "it is empty");
    refuse("a,", "it is empty");
    refuse("a,,b", "it is empty");
    refuse(" ", "it is empty");
    refuse("a,A:2379", "there twice");
    refuse("unix:/s,unix:///s", "there twice");
}
END_TEST

/* 64 endpoints are taken and the 65th is not. */
START_TEST(too_many)
{
    char list[EL_ENDPOINTS_MAX * 16] = "h0";
    for (int i = 1; i < EL_ENDPOINTS_MAX; i++)
        sprintf(list + strlen(list), ",h%d", i);
    ck_assert_int_eq(parse(list), 0);
    ck_assert_uint_eq(endpoints.n_targets, EL_ENDPOINTS_MAX);
    ck_assert_str_eq(endpoints.targets[63], "h63:2379");
    el_endpoints_free(&endpoints);
    strcat(list, ",last");
    refuse(list, "\"last\": it is one too many");
}
END_TEST

/* Long names, long items and odd bytes are refused with a message of one line. */
START_TEST(hostile_text)
{
    char *list = calloc(1, 20001);
    memset(list, 'a', 253);
    ck_assert_int_eq(parse(list), 0);
    el_endpoints_free(&endpoints);
    memset(list, 'a', 20000);
    refuse(list, "longer than 253");
    memset(list, ',', 20000);
    refuse(list, "it is empty");
    free(list);
    refuse("a\nb:1", "\"a?b:1\"");
    refuse("\xff\xfe", "write host:port");
}
END_TEST

/* Whichever allocation fails, the answer is ENOMEM and nothing is left behind. */
START_TEST(no_memory)
{
    long alive = el_alloc_alive();
    int error = ENOMEM;
    for (long n = 0; error; n++) {
        el_alloc_fail_after(n);
        error = parse("a:1,unix:/b,[::1]");
        ck_assert(error == 0 || error == ENOMEM);
        el_alloc_fail_after(-1);
        if (error) ck_assert_int_eq(el_alloc_alive(), alive);
    }
    el_endpoints_free(&endpoints);
    el_endpoints_free(&endpoints);
    ck_assert_int_eq(el_alloc_alive(), alive);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("endpoint");
    TCase *tests = tcase_create("parse");
    tcase_add_test(tests, hosts_and_ports);
    tcase_add_test(tests, spaces_and_slashes);
    tcase_add_test(tests, schemes);
    tcase_add_test(tests, ipv6);
    tcase_add_test(tests, unix_sockets);
    tcase_add_test(tests, bad_ports);
    tcase_add_test(tests, empty_and_twice);
    tcase_add_test(tests, too_many);
    tcase_add_test(tests, hostile_text);
    tcase_add_test(tests, no_memory);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
