/* Between the parts of the contender: coming to hold (contender.c, and its last steps in contender_mark.c)
 * and going for certain (contender_leave.c). */
#ifndef EL_CONTENDER_STEPS_H
#define EL_CONTENDER_STEPS_H

#include "core/contender.h"

/* The one way to change the state; tells the log at debug level. */
void el_contender_become(el_contender *contender, el_contender_state state);

/* From now on nobody waits or holds by it. */
void el_contender_disown(el_contender *contender);

/* Tells the owner, if there is one, that it is over, and disowns it. */
void el_contender_fail(el_contender *contender, const el_failure *failure);

/* Chooses a free place and writes its key. 0, ENOMEM or EAGAIN. */
int el_contender_name(el_contender *contender);

/* Removes the entry of an orphan, as soon as that is possible. It may be freed at once. */
void el_contender_withdraw(el_contender *contender);

/* Sends the delete; requires that no transaction is under way. */
void el_contender_begin_leave(el_contender *contender);

/* At the end of a transaction: true if the contender is an orphan or gone; then it has been taken care of and
 * must not be touched again. */
bool el_contender_must_go(el_contender *contender);

/* An answer shows that our entry is not there any more: whoever waits or holds by it is told. It may be freed
 * at once. */
void el_contender_entry_vanished(el_contender *contender);

/* It is first in the queue: now it holds, or begins to mark it if that is still to be done. */
void el_contender_hold(el_contender *contender);

/* Sends what ends in el_contender_hold, or in a failure. */
void el_contender_mark(el_contender *contender);

void el_contender_free_if_gone(el_contender *contender);

#endif
