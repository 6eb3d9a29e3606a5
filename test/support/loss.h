/* Parties to a lock that have lost it, or may have: what they are told, and how they end. */
#ifndef TEST_LOSS_H
#define TEST_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "support/live.h"

/* One of the two errors that say so. */
bool is_loss(int error);
/* Fails the case unless it is. */
void assert_loss(int error);

/* Fails the case unless the session is told to be over within the time. */
void await_session_loss(etcdlock_session *session, int64_t ms);

/* Ends a session that is lost, or whose lease is gone without its knowing yet. */
void session_close_lost(etcdlock_session *session);
/* As party_close, with such a session. */
void party_close_lost(party *p);

#endif
