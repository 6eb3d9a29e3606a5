/* A guard for writes to an SQLite database: it keeps the highest token that each lock has come with, and
 * checks a token in the same transaction in which the guarded write is made. */
#ifndef FENCE_SQLITE_H
#define FENCE_SQLITE_H

#include <sqlite3.h>
#include <stdint.h>

/* Makes the table etcdlock_fence if it is not there. 0 or EIO; sqlite3_errmsg says why. */
int fence_sqlite_set_up(sqlite3 *db);

/* Begins a transaction that only the present holder of the lock, or a later one, can begin: refuses a token
 * lower than the highest seen with this lock, else remembers it. Any number of transactions may be made with
 * one token. End it with COMMIT or ROLLBACK; if it is rolled back, the token is not remembered either.
 * Blocks while another connection writes, for as long as its sqlite3_busy_timeout says. The first one of each
 * holder has to come before it reads what it will base its writes on.
 * ESTALE: a later holder has been here, no transaction is open; EIO: the same, but the database failed. */
int fence_sqlite_begin(sqlite3 *db, const char *lock, uint64_t token);

#endif
