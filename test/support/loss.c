#include "support/loss.h"

bool is_loss(int error)
{
    return error == ETCDLOCK_ESESSION || error == ETCDLOCK_EENTRY;
}

void assert_loss(int error)
{
    ck_assert_msg(is_loss(error), "%d %s", error, etcdlock_strerror(error));
}

void await_session_loss(etcdlock_session *session, int64_t ms)
{
    ck_assert_msg(live_readable(etcdlock_session_lost_fd(session), ms),
                  "the session is not lost after %lld ms", (long long)ms);
    ck_assert_int_eq(etcdlock_session_get_state(session), ETCDLOCK_SESSION_LOST);
    ck_assert_int_eq(etcdlock_session_remaining_ms(session), 0);
}

void session_close_lost(etcdlock_session *session)
{
    int error = etcdlock_session_close(session);
    ck_assert_msg(error == 0 || error == ETCDLOCK_ESESSION, "session_close: %d %s", error,
                  etcdlock_error_message());
}

void party_close_lost(party *p)
{
    ck_assert_int_eq(etcdlock_mutex_destroy(p->mutex), 0);
    session_close_lost(p->session);
    p->mutex = NULL;
    p->session = NULL;
    party_close(p);
}
