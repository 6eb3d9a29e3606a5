/* What an answer means: the one place that decides whether a request has happened and whether it may be
 * asked again. */
#ifndef EL_OUTCOME_H
#define EL_OUTCOME_H

#include <stdbool.h>

#include "transport/transport.h"

typedef enum el_outcome {
    EL_OUTCOME_DONE,        /* answered */
    EL_OUTCOME_REFUSED,     /* nothing happened, and asking again would be answered the same way */
    EL_OUTCOME_NOT_APPLIED, /* nothing happened; ask again */
    EL_OUTCOME_MAYBE,       /* it may have happened, now or later */
} el_outcome;

typedef struct el_verdict {
    el_outcome outcome;
    int error;         /* what the caller is told if it ends here; 0 when done */
    bool retry;        /* ask again while there is time */
    bool leave_member; /* ask the next endpoint: this one cannot serve us now */
    bool new_token;    /* the auth token was refused */
} el_verdict;

/* Judges the end of one attempt. */
el_verdict el_outcome_of(const el_status *status);

/* True if a grant was refused because the lease exists already. */
bool el_outcome_lease_exists(const el_status *status);

#endif
