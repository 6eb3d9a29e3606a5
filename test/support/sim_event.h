/* The simulator's agenda: events in a heap by time, those of one time in the order they were set. */
#ifndef SIM_EVENT_H
#define SIM_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Embedded in what it is about. With `run` and `owner` filled in and the rest zero it is an event not set. */
typedef struct sim_event {
    int64_t at_ns;
    uint64_t order;           /* of setting, the tie-breaker */
    size_t slot;              /* in the heap, from 1; 0: not set */
    void (*run)(void *owner); /* called once it has been taken off the agenda */
    void *owner;
} sim_event;

typedef struct sim_agenda {
    sim_event **heap; /* [0] unused */
    size_t n, capacity;
    uint64_t orders;
} sim_agenda;

void sim_event_set(sim_agenda *agenda, sim_event *event, int64_t at_ns); /* moves it if it is set already */
void sim_event_clear(sim_agenda *agenda, sim_event *event);              /* allowed if it is not set */
sim_event *sim_event_first(const sim_agenda *agenda);                    /* NULL: none is set */

#endif
