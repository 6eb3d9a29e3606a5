/* A guard for writes to a PostgreSQL database: it keeps the highest token that each lock has come with, and
 * checks a token in the same transaction in which the guarded write is made. */
#ifndef FENCE_POSTGRES_H
#define FENCE_POSTGRES_H

#include <libpq-fe.h>
#include <stdint.h>

/* Makes the table etcdlock_fence if it is not there. 0 or EIO; PQerrorMessage says why. */
int fence_postgres_set_up(PGconn *db);

/* Begins a transaction that only the present holder of the lock, or a later one, can begin: refuses a token
 * lower than the highest seen with this lock, else remembers it. Any number of transactions may be made with
 * one token. End it with COMMIT or ROLLBACK; if it is rolled back, the token is not remembered either.
 * Blocks while another transaction with this lock's name is open. A client that is frozen within one would
 * keep it so: therefore the server ends a session that leaves such a transaction idle for idle_ms, which has
 * to be longer than the program ever takes between two statements.
 * The first one of each holder has to come before it reads what it will base its writes on.
 * ESTALE: a later holder has been here, no transaction is open; EIO: the same, but the database failed. */
int fence_postgres_begin(PGconn *db, const char *lock, uint64_t token, int idle_ms);

#endif
