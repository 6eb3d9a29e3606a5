/* Texts of markers. Input: the choice of failing memory, the marker's text. */
#include "core/marker.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/key.h"
#include "input.h"

/* The place that seeds and inputs may name as the one that holds. */
static el_place place_of_ours(void)
{
    static char folder[] = "jobs/";
    static el_queue queue = {.folder = {folder, sizeof(folder) - 1}};
    static const char value[] = "{\"acquisition\":\"0123456789abcdef\"}";
    el_place place = {.queue = &queue, .create_revision = 41};
    place.value = (el_span){value, sizeof(value) - 1};
    return place;
}

static bool is_within(el_span part, const char *text, size_t size)
{
    return part.data >= text && part.data + part.size <= text + size;
}

/* Who died is told by two lines of the text itself, or by a constant where nobody can be read. */
static void expect_view(const el_marker_view *view, const char *text, size_t size)
{
    expect(!view->is_mine || !view->is_death, "nobody holds and is dead");
    expect(!view->is_death || view->dead.size > 0, "a death is somebody's");
    if (view->dead.size == 0) return;
    const char *end = view->dead.data + view->dead.size;
    const char *first = memchr(view->dead.data, '\n', view->dead.size);
    expect(end[-1] == '\n' && first && memchr(first + 1, '\n', (size_t)(end - first - 1)) == end - 1,
           "the dead one is two lines");
    expect(is_within(view->dead, text, size) || strcmp(view->dead.data, "0\n\n") == 0,
           "of the text, or of nobody known");
}

/* What is written for the next one is read by him as the death of the same one, and by us as ours. */
static void write_and_read(const el_place *place, const char *dead)
{
    char *text = el_marker_write(place, dead);
    expect(text != NULL, "a marker can be written");
    el_marker_view ours = el_marker_read(place, el_span_of(text, strlen(text)));
    expect(ours.is_mine && !ours.is_death, "our marker is ours");
    expect(ours.dead.size == (dead ? strlen(dead) : 0), "and remembers who died, or nobody");
    expect(!dead || memcmp(ours.dead.data, dead, ours.dead.size) == 0, "the same one");
    el_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    el_place place = place_of_ours();
    input in = {data, size};
    uint8_t failing = input_u8(&in);
    long alive = el_alloc_alive();
    uint8_t *bytes = input_bytes(&in);
    el_marker_view view = el_marker_read(&place, el_span_of((char *)bytes, in.size));
    expect_view(&view, (char *)bytes, in.size);

    memory_fail(failing);
    el_marker *marker = el_marker_new(&place, true, 0);
    bool remembered = marker && el_marker_remember(marker, view.dead);
    memory_recover();
    if (remembered) {
        expect((marker->dead != NULL) == (view.dead.size > 0), "who died is remembered");
        write_and_read(&place, marker->dead);
    }
    el_marker_free(marker);
    free(bytes);
    expect(el_alloc_alive() == alive, "nothing is left behind");
    return 0;
}
