/* The marker of a lock: how the next holder tells a death from a leaving.
 *
 * `<prefix>NAME.robust`, a key without a lease beside the lock's folder. A holder writes itself into it when
 * it has come to hold and before its caller is told, and deletes it in the transaction that deletes its
 * entry. So a marker that names somebody whose entry is gone tells of a death, whether anybody waited at that
 * time or not. Every write of it is guarded by the entry of the writer, so that none can arrive after the
 * writer has left. This part is pure, it sends nothing; contender_mark.c does.
 *
 * The text, in lines:   held TOKEN      who holds; missing when a holder left without repairing
 *                       VALUE           the value of its entry
 *                       dead TOKEN      whose death has not been repaired; missing when there is none
 *                       VALUE           */
#ifndef EL_MARKER_H
#define EL_MARKER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/place.h"
#include "core/timer.h"
#include "transport/transport.h"

typedef struct el_marker {
    bool is_robust;        /* deaths are told; otherwise they only delay */
    int64_t delay_ns;      /* so long after a death nobody holds; 0: not at all */
    bool is_ours;          /* etcd has it with us in it */
    bool is_inconsistent;  /* we were told of a death and have not said that all is well again */
    bool leaves_it;        /* etcd refuses to write it as we leave: then it stays as it is */
    int64_t seen_revision; /* mod_revision of what the next write replaces; 0: nothing */
    char *text;            /* what is written; el_alloc'ed, NUL-terminated */
    char *dead;            /* "TOKEN\nVALUE\n" of the one that died; NULL: nobody. el_alloc'ed */
    struct el_contender *contender;
    el_timer delay; /* until it is over */
    el_compare compares[2];
    el_op success;
    el_op failure[2];
    el_op leave[3]; /* room for what the contender writes when it leaves */
    el_span key;
    char bytes[];
} el_marker;

/* What a marker says. */
typedef struct el_marker_view {
    bool is_mine;  /* it names this place */
    bool is_death; /* it names another one, or nobody can read it */
    el_span dead;  /* "TOKEN\nVALUE\n" of who is to be told of; empty: nobody */
} el_marker_view;

/* NULL if memory runs out. */
el_marker *el_marker_new(const el_place *place, bool is_robust, int64_t delay_ns);
void el_marker_free(el_marker *marker);

/* Writes us, and who died before us, into the marker, if our entry stands and the marker is as it was seen.
 * Else reads both. Requires the create_revision. False if memory runs out. */
bool el_marker_claim(el_marker *marker, const el_place *place, el_txn_request *txn);

el_marker_view el_marker_read(const el_place *place, el_span text);

/* Remembers who died; an empty one: nobody. False if memory runs out. */
bool el_marker_remember(el_marker *marker, el_span dead);

/* The text that names us, and `dead` if it is not NULL. NULL if memory runs out. */
char *el_marker_write(const el_place *place, const char *dead);

/* What becomes of it as we leave; false: nothing. */
bool el_marker_leave(el_marker *marker, el_op *op);

#endif
