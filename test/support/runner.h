/* The end of the main of every program of checks. */
#ifndef TEST_RUNNER_H
#define TEST_RUNNER_H

#include <check.h>

/* Runs the suite, frees it, and tells what main returns: 0 if no check failed. */
int runner_run(Suite *suite);

#endif
