/* What the tests of the options share: an environment without them, a config file, and one result. */
#ifndef OPTIONS_FIXTURE_H
#define OPTIONS_FIXTURE_H

#include <check.h>

#include "core/options.h"

extern el_options options_got; /* the last result; freed after each case */
extern el_failure options_failure;
extern char options_folder[]; /* a temporary folder */
extern char options_config[]; /* "<folder>/config.json" */
extern long options_alive;    /* allocations alive before the case */

void options_write_file(const char *path, const char *text, size_t size);

/* Writes the config file and names it in the environment. */
void options_say_in_file(const char *json);

/* Resolving goes well and leaves errno alone. */
void options_expect(const etcdlock_client_options *code);

/* Resolving fails with this error, nothing is kept, and the message has these words. */
void options_refuse(const etcdlock_client_options *code, int error, const char *words);

/* Runs the cases; returns what main returns. */
int options_run(const char *name, const TTest *const *tests, size_t n_tests);

#endif
