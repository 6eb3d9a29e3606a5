/* One client without threads over the simulator, with a session; for tests that look at its insides. */
#ifndef SOLO_H
#define SOLO_H

#include "core/client.h"
#include "core/session.h"
#include "support/sim.h"

extern sim *solo_sim;
extern el_transport *solo_transport;
extern el_client *solo_client;
extern el_session *solo_session;

/* A calm etcd, and a session whose lease needs no renewal in the time of a test. group_max as in the client's
 * settings. */
void solo_start(const sim_options *options, unsigned group_max);

/* Until the next thing has happened; all that is due within so much simulated time. */
void solo_step(void);
void solo_run(int64_t ns);

/* Another session in the place of the one that has ended. */
void solo_open_session(void);

/* Requires that all that was made on the session has been freed. */
void solo_end(void);

#endif
