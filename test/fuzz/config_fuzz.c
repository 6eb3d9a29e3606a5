/* The JSON configuration file, and all that follows from it. Input: the choice of failing memory, the file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/options.h"
#include "input.h"

/* A file without a place on any disk; made once. */
static int config = -1;
static char config_path[64];

static void set_up(void)
{
    for (int i = 0; i < EL_OPTIONS; i++)
        unsetenv(el_option_table[i].variable);
    config = memfd_create("config", MFD_CLOEXEC);
    expect(config >= 0, "a file can be made");
    snprintf(config_path, sizeof(config_path), "/proc/self/fd/%d", config);
}

static void expect_options(el_options *options)
{
    for (int i = 0; i < EL_OPTIONS; i++) {
        const el_option_row *row = &el_option_table[i];
        bool by_file = options->sources[i] == EL_SOURCE_FILE;
        expect(options->sources[i] != EL_SOURCE_NONE, "somebody has said each option");
        expect(!by_file || !row->not_in_file, "the file says only what it may");
        if (el_option_is_text(row)) {
            expect(*el_option_text(options, (el_option)i) != NULL, "a text is there");
        } else if (by_file) {
            int64_t number = *el_option_number(options, (el_option)i);
            expect(number >= row->min && number <= row->max, "a number is within its range");
        }
    }
    expect(options->targets.n_targets > 0, "there is an endpoint");
    expect((*options->user != '\0') == (*options->password != '\0'), "user and password go together");
    expect((*options->cert_file != '\0') == (*options->key_file != '\0'), "certificate and key go together");
}

static int resolve(void)
{
    etcdlock_client_options code = ETCDLOCK_CLIENT_OPTIONS_INIT;
    el_options options;
    el_failure failure = {0};
    code.config_file = config_path;
    errno = 77;
    int error = el_options_resolve(&options, &code, &failure);
    expect(errno == 77, "errno is left alone");
    if (error) {
        expect_failure(&failure, error);
    } else {
        expect_options(&options);
    }
    el_options_free(&options);
    return error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    uint8_t failing = input_u8(&in);
    if (config < 0) set_up();
    expect(ftruncate(config, 0) == 0, "the file can be emptied");
    expect(in.size == 0 || pwrite(config, in.data, in.size, 0) == (ssize_t)in.size, "and written");

    long alive = el_alloc_alive();
    int error = resolve();
    memory_fail(failing);
    int starved_error = resolve();
    memory_recover();
    expect(starved_error == error || starved_error == ENOMEM, "lack of memory is said to be that");
    expect(el_alloc_alive() == alive, "nothing is left behind");
    return 0;
}
