/* One client without threads over the simulator, with a session; for tests that look at its insides. */
#ifndef SOLO_H
#define SOLO_H

#include "core/client.h"
#include "core/session.h"
#include "recipes/mutex.h"
#include "support/sim.h"

extern sim *solo_sim;
extern el_transport *solo_transport;
extern el_client *solo_client;
extern el_session *solo_session;

/* A calm etcd, and a session whose lease needs no renewal in the time of a test. Of the settings only
 * group_max, user and password count. */
void solo_start(const sim_options *options, const el_client_settings *settings);

/* Until the next thing has happened; all that is due within so much simulated time. */
void solo_step(void);
void solo_run(int64_t ns);

/* Another session in the place of the one that has ended. */
void solo_open_session(void);

/* Ends the session, and waits until all that its locks still had to do is done. */
void solo_end_session(void);

/* Requires that all that was made on the session has been freed. */
void solo_end(void);

/* ---- locks of that session ---- */

typedef struct solo_lock {
    el_mutex *mutex;
    el_hold *hold;
    int n_ended; /* of what was begun last: it must not be told twice */
    int error;
} solo_lock;

void solo_make(solo_lock *lock, const char *name);
void solo_drop(solo_lock *lock);
void solo_begin(solo_lock *lock, el_enter_mode mode);
void solo_unlock(solo_lock *lock);

/* Within a second it has ended, once, like this. */
void solo_expect(solo_lock *lock, int error);

#endif
