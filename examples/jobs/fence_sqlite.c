#include "fence_sqlite.h"

#include <errno.h>
#include <stddef.h>

int fence_sqlite_set_up(sqlite3 *db)
{
    static const char sql[] = "CREATE TABLE IF NOT EXISTS etcdlock_fence ("
                              " lock TEXT PRIMARY KEY, token INTEGER NOT NULL) WITHOUT ROWID";
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : EIO;
}

/* The row is written if there is none, or none with a higher token; otherwise nothing is changed. */
static int raise_token(sqlite3 *db, const char *lock, uint64_t token)
{
    static const char sql[] = "INSERT INTO etcdlock_fence (lock, token) VALUES (?1, ?2)"
                              " ON CONFLICT (lock) DO UPDATE SET token = excluded.token"
                              " WHERE token <= excluded.token";
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) return EIO;
    sqlite3_bind_text(statement, 1, lock, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)token); /* etcd's revisions fit */
    int error = sqlite3_step(statement) == SQLITE_DONE ? 0 : EIO;
    if (!error && sqlite3_changes(db) == 0) error = ESTALE;
    sqlite3_finalize(statement);
    return error;
}

int fence_sqlite_begin(sqlite3 *db, const char *lock, uint64_t token)
{
    /* A plain BEGIN would take the write lock with the first write only, and fail there where another
     * connection has written since the first read. */
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK) return EIO;
    int error = raise_token(db, lock, token);
    if (error) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return error;
}
