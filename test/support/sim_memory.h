/* Memory of the simulator: malloc that aborts, and arenas that hold one request with its answer. */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "transport/transport.h"

void *sim_alloc(size_t size); /* zeroed */
void *sim_grow(void *items, size_t *capacity, size_t needed, size_t item_size);
el_span sim_span_dup(el_span bytes); /* to be freed by sim_span_free */
void sim_span_free(el_span bytes);
int sim_span_compare(el_span a, el_span b);
el_span sim_text(const char *text);

typedef struct sim_arena {
    struct sim_chunk *chunks; /* newest first */
} sim_arena;

void *sim_arena_take(sim_arena *arena, size_t size); /* zeroed, aligned for anything here */
el_span sim_arena_span(sim_arena *arena, el_span bytes);
void sim_arena_free(sim_arena *arena);
el_request *sim_arena_request(sim_arena *arena, const el_request *request); /* with all it points to */

#endif
