/* The parts of the program that writes the seeds. */
#ifndef EL_FUZZ_MAKE_SEEDS_H
#define EL_FUZZ_MAKE_SEEDS_H

#include <stddef.h>

/* Writes head and body to the seed `name` of a target; ends the program if that fails. */
void seed_write(const char *target, const char *name, const void *head, size_t head_size, const void *body,
                size_t body_size);

/* Those that are etcd's messages: of the targets answer, watch and place. */
void seed_messages(void);

#endif
