/* Lists of endpoints. Input: the choice of failing memory, the list. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/alloc.h"
#include "core/endpoint.h"
#include "input.h"

static void expect_target(const el_endpoints *endpoints, unsigned i)
{
    const char *target = endpoints->targets[i];
    const char *colon = strrchr(target, ':');
    expect(colon && colon != target, "a target has two parts");
    if (strncmp(target, "unix:", 5) == 0) {
        expect(target[5] != '\0', "a path is there");
        expect(strncmp(target, "unix://", 7) != 0, "a path is not taken for the authority of a URI");
    } else {
        long port = strtol(colon + 1, NULL, 10);
        expect(strspn(colon + 1, "0123456789") == strlen(colon + 1), "a port is a number");
        expect(port >= 1 && port <= 65535, "a port is in range");
    }
    for (unsigned k = 0; k < i; k++)
        expect(strcmp(endpoints->targets[k], target) != 0, "no target is there twice");
}

/* The targets written as a list are the same targets. */
static void expect_stable(const el_endpoints *endpoints, size_t size)
{
    el_endpoints again;
    el_failure failure = {0};
    size_t room = size + EL_ENDPOINTS_MAX * sizeof("[]:65535,");
    char *list = malloc(room + 1);
    expect(list != NULL, "the test has memory");
    list[0] = '\0';
    for (unsigned i = 0; i < endpoints->n_targets; i++) {
        if (i > 0) strcat(list, ",");
        strcat(list, endpoints->targets[i]);
        expect(strlen(list) < room, "the targets are hardly longer than the list");
    }
    int error = el_endpoints_parse(&again, list, "endpoints", &failure);
    expect(error == 0, "targets are endpoints, too");
    expect(again.n_targets == endpoints->n_targets, "as many");
    for (unsigned i = 0; i < again.n_targets; i++)
        expect(strcmp(again.targets[i], endpoints->targets[i]) == 0, "and the same ones");
    el_endpoints_free(&again);
    free(list);
}

static int parse(const char *list)
{
    el_endpoints endpoints;
    el_failure failure = {0};
    int error = el_endpoints_parse(&endpoints, list, "endpoints (somewhere)", &failure);
    if (error) {
        expect_failure(&failure, error);
        expect(!endpoints.targets && !endpoints.storage && !endpoints.n_targets, "on failure it is empty");
        return error;
    }
    expect(endpoints.n_targets >= 1 && endpoints.n_targets <= EL_ENDPOINTS_MAX, "the number is in range");
    for (unsigned i = 0; i < endpoints.n_targets; i++)
        expect_target(&endpoints, i);
    bool is_network = strncasecmp(list, "http", 4) == 0;
    expect(!is_network || strncmp(endpoints.targets[0], "unix:", 5) != 0, "http is not taken for a path");
    el_endpoints_free(&endpoints);
    return 0;
}

static void parse_stable(const char *list)
{
    el_endpoints endpoints;
    if (el_endpoints_parse(&endpoints, list, "endpoints", NULL)) return;
    expect_stable(&endpoints, strlen(list));
    el_endpoints_free(&endpoints);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    uint8_t failing = input_u8(&in);
    char *list = input_text(&in);
    long alive = el_alloc_alive();
    int error = parse(list);
    expect(error == 0 || error == EINVAL, "with memory a list is read or refused");
    parse_stable(list);
    memory_fail(failing);
    int starved_error = parse(list);
    memory_recover();
    expect(starved_error == error || starved_error == ENOMEM, "lack of memory is said to be that");
    expect(el_alloc_alive() == alive, "nothing is left behind");
    free(list);
    return 0;
}
