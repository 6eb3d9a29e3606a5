#include "fence/caller.h"

#include <errno.h>
#include <pthread.h>

void el_fence_caller_hold(el_fence_caller *caller)
{
    caller->error = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &caller->cancel_state);
}

void el_fence_caller_release(const el_fence_caller *caller)
{
    pthread_setcancelstate(caller->cancel_state, NULL);
    errno = caller->error;
}
