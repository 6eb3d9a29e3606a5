/* Room for the parts of a small transaction, which the request points to. */
#ifndef EL_PARTS_H
#define EL_PARTS_H

#include "transport/transport.h"

typedef struct el_parts {
    el_compare compare;
    el_op success[2];
    el_op failure[2];
} el_parts;

#endif
