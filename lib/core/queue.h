/* The queue of one lock as one session sees it: where its keys lie, and which places the session has in it.
 *
 * Names of places are reused on purpose: etcd keeps a deleted name in its index until compaction, and each
 * range over the folder walks it. A number is given back only when it is certain that its key is gone and
 * that no request that could write it is still on its way. */
#ifndef EL_QUEUE_H
#define EL_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/map.h"
#include "core/session.h"

enum { EL_SLOTS_MAX = 1 << 16 };

typedef struct el_queue {
    el_session *session;
    el_map_link link; /* in the session's map, by folder */
    unsigned references;
    uint64_t *slots; /* one bit per number in use */
    unsigned n_words;
    unsigned next_hint;     /* no number below it is free */
    bool was_held;          /* when it was tried last */
    int64_t death_revision; /* mod_revision of the marker by which a death was noticed last; 0: none was */
    int64_t death_seen_ns;  /* when it was */
    el_span folder;         /* "<prefix>NAME/" */
    el_span folder_end;     /* the first key after it: "<prefix>NAME0" */
    el_span writers_end; /* the first key after all writers: they begin with a hex digit or '-', before 'g' */
    char keys[];         /* the bytes of the three */
} el_queue;

/* Finds or makes it; takes a reference to it and, through it, to the session. NULL if memory runs out. The
 * name has been checked. */
el_queue *el_queue_get(el_session *session, const char *name);
/* One of those that are in use through the session; NULL if there is none. Takes no reference. */
el_queue *el_queue_any(const el_session *session);
void el_queue_ref(el_queue *queue);
void el_queue_unref(el_queue *queue);

/* The lowest free number. 0, ENOMEM, or EAGAIN when EL_SLOTS_MAX are in use. */
int el_queue_take_slot(el_queue *queue, unsigned *slot);
void el_queue_return_slot(el_queue *queue, unsigned slot);

#endif
