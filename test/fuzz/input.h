/* What the fuzz targets share: the input taken apart, memory that fails where the input says, and checks. */
#ifndef EL_FUZZ_INPUT_H
#define EL_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

/* What libFuzzer, or the plain driver, calls with every input. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is left of the input. Each taker gives zeroes where the input is too short. */
typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

uint8_t input_u8(input *in);
int64_t input_i64(input *in);

/* What is left, on the heap without a byte to spare, so that the sanitizer sees a look beyond; free() it. */
uint8_t *input_bytes(const input *in);
/* The same as text: up to the first NUL, and with one at the end. */
char *input_text(const input *in);

/* Ends the process with `what` unless it is true. */
void expect(bool truth, const char *what);

/* A failure that was reported has this error and a message of one line. */
void expect_failure(const el_failure *failure, int error);

/* Reads every byte, so that the sanitizer sees it if they are not there. */
void touch(const void *data, size_t size);

/* From here on allocations fail: those of cJSON if `choice` is odd, those of the library if it is even, after
 * choice / 2 of them. */
void memory_fail(uint8_t choice);
void memory_recover(void);

#endif
