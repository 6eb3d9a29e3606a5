#include "bench/samples.h"

#include <stdlib.h>
#include <time.h>

void samples_add(samples *s, int64_t at_us, int64_t span_us)
{
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 1024;
        s->at_us = realloc(s->at_us, s->room * sizeof *s->at_us);
        s->span_us = realloc(s->span_us, s->room * sizeof *s->span_us);
        if (!s->at_us || !s->span_us) abort();
    }
    s->at_us[s->n] = at_us;
    s->span_us[s->n++] = span_us;
}

void samples_free(samples *s)
{
    free(s->at_us);
    free(s->span_us);
    *s = (samples){0};
}

int64_t clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
