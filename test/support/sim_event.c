#include "support/sim_event.h"

#include "support/sim_memory.h"

static bool before(const sim_event *a, const sim_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void place(sim_agenda *agenda, size_t slot, sim_event *event)
{
    agenda->heap[slot] = event;
    event->slot = slot;
}

static void rise(sim_agenda *agenda, size_t slot, sim_event *event)
{
    while (slot > 1 && before(event, agenda->heap[slot / 2])) {
        place(agenda, slot, agenda->heap[slot / 2]);
        slot /= 2;
    }
    place(agenda, slot, event);
}

static void sink(sim_agenda *agenda, size_t slot, sim_event *event)
{
    for (;;) {
        size_t child = 2 * slot;
        if (child > agenda->n) break;
        if (child < agenda->n && before(agenda->heap[child + 1], agenda->heap[child])) child++;
        if (!before(agenda->heap[child], event)) break;
        place(agenda, slot, agenda->heap[child]);
        slot = child;
    }
    place(agenda, slot, event);
}

void sim_event_clear(sim_agenda *agenda, sim_event *event)
{
    size_t slot = event->slot;
    if (!slot) return;
    event->slot = 0;
    sim_event *last = agenda->heap[agenda->n--];
    if (last == event) return;
    if (slot > 1 && before(last, agenda->heap[slot / 2]))
        rise(agenda, slot, last);
    else
        sink(agenda, slot, last);
}

void sim_event_set(sim_agenda *agenda, sim_event *event, int64_t at_ns)
{
    sim_event_clear(agenda, event);
    event->at_ns = at_ns;
    event->order = ++agenda->orders;
    agenda->n++;
    agenda->heap = sim_grow(agenda->heap, &agenda->capacity, agenda->n + 1, sizeof(sim_event *));
    rise(agenda, agenda->n, event);
}

sim_event *sim_event_first(const sim_agenda *agenda)
{
    return agenda->n ? agenda->heap[1] : NULL;
}
