#include "bench/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    const char *unit;
    bool is_time;
} properties[FIGURES] = {
    [FIGURE_CYCLE_P50] = {"cycle p50", "us", true},
    [FIGURE_CYCLE_P99] = {"cycle p99", "us", true},
    [FIGURE_RATE] = {"rate", "/s", false},
    [FIGURE_HANDOVERS] = {"hand-overs", "/s", false},
    [FIGURE_HANDOVER_P50] = {"hand-over p50", "ms", true},
    [FIGURE_HANDOVER_P99] = {"hand-over p99", "ms", true},
    [FIGURE_LONGEST_WAIT] = {"longest wait", "ms", true},
};

const char *figure_name(figure which)
{
    return properties[which].name;
}

const char *figure_unit(figure which)
{
    return properties[which].unit;
}

bool figure_is_time(figure which)
{
    return properties[which].is_time;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double figure_percentile(double *numbers, size_t n, double part)
{
    if (n == 0) return (double)NAN;
    qsort(numbers, n, sizeof *numbers, by_size);
    return numbers[(size_t)((double)(n - 1) * part + 0.5)];
}

/* The spans of the cycles, or of the hand-overs; the caller frees them. */
static double *spans_us(const slice *s, bool of_handovers, size_t *n)
{
    double *spans = malloc((s->n + 1) * sizeof *spans);
    if (!spans) abort();
    *n = 0;
    for (size_t i = 0; i < s->n; i++) {
        const sample *now = &s->all[i];
        if (!of_handovers)
            spans[(*n)++] = (double)now->span_us;
        else if (i > 0 && now[-1].contender != now->contender)
            spans[(*n)++] = (double)(now->at_us - now[-1].at_us);
    }
    return spans;
}

double figure_of(const slice *s, figure which)
{
    static const double parts[FIGURES] = {[FIGURE_CYCLE_P50] = 0.5,
                                          [FIGURE_CYCLE_P99] = 0.99,
                                          [FIGURE_HANDOVER_P50] = 0.5,
                                          [FIGURE_HANDOVER_P99] = 0.99,
                                          [FIGURE_LONGEST_WAIT] = 1};
    bool of_handovers =
        which == FIGURE_HANDOVERS || which == FIGURE_HANDOVER_P50 || which == FIGURE_HANDOVER_P99;
    double seconds = (double)(s->end_us - s->begin_us) / 1e6, result;
    size_t n;
    double *spans = spans_us(s, of_handovers, &n);
    if (!figure_is_time(which))
        result = (double)n / seconds;
    else
        result = figure_percentile(spans, n, parts[which]);
    free(spans);
    return strcmp(figure_unit(which), "ms") == 0 ? result / 1000 : result;
}

double figure_longest_gap_ms(const slice *s)
{
    int64_t last_us = s->begin_us, longest_us = 0;
    for (size_t i = 0; i <= s->n; i++) {
        int64_t now_us = i < s->n ? s->all[i].at_us : s->end_us;
        if (now_us - last_us > longest_us) longest_us = now_us - last_us;
        last_us = now_us;
    }
    return (double)longest_us / 1000;
}
