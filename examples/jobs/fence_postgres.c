#include "fence_postgres.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* 0 if the database did it; *rows: how many rows it wrote. */
static int execute(PGconn *db, const char *sql, int n, const char *const *values, int *rows)
{
    PGresult *result = PQexecParams(db, sql, n, NULL, values, NULL, NULL, 0);
    int error = PQresultStatus(result) == PGRES_COMMAND_OK ? 0 : EIO;
    if (rows) *rows = strcmp(PQcmdTuples(result), "0") != 0;
    PQclear(result);
    return error;
}

int fence_postgres_set_up(PGconn *db)
{
    static const char sql[] = "CREATE TABLE IF NOT EXISTS etcdlock_fence ("
                              " lock text PRIMARY KEY, token bigint NOT NULL)";
    return execute(db, sql, 0, NULL, NULL);
}

/* The row is written if there is none, or none with a higher token; otherwise nothing is changed. It stays
 * locked until the transaction ends, so that the check is still true when the write is committed. */
static int raise_token(PGconn *db, const char *lock, uint64_t token)
{
    static const char sql[] = "INSERT INTO etcdlock_fence AS seen (lock, token) VALUES ($1, $2)"
                              " ON CONFLICT (lock) DO UPDATE SET token = excluded.token"
                              " WHERE seen.token <= excluded.token";
    char number[24];
    int rows = 0;
    const char *const values[] = {lock, number};
    snprintf(number, sizeof number, "%" PRIu64, token);
    int error = execute(db, sql, 2, values, &rows);
    if (!error && rows == 0) error = ESTALE;
    return error;
}

int fence_postgres_begin(PGconn *db, const char *lock, uint64_t token, int idle_ms)
{
    char limit[80];
    snprintf(limit, sizeof limit, "SET LOCAL idle_in_transaction_session_timeout = %d", idle_ms);
    /* READ COMMITTED, whatever the database's default: what is read after waiting for the row must be what
     * the former holder of the row has committed. */
    if (execute(db, "BEGIN ISOLATION LEVEL READ COMMITTED", 0, NULL, NULL)) return EIO;
    int error = execute(db, limit, 0, NULL, NULL);
    if (!error) error = raise_token(db, lock, token);
    if (error) PQclear(PQexec(db, "ROLLBACK"));
    return error;
}
