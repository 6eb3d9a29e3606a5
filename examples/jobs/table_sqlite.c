/* The table of jobs in an SQLite database: a file, and no server. */
#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "fence_sqlite.h"
#include "job_table.h"

/* A writer waits so long for another one to finish. One that is frozen in a transaction keeps all others out
 * until it goes on or ends: its write is not late then. */
enum { BUSY_TIMEOUT_MS = 60000 };

struct job_table {
    sqlite3 *db;
};

const char *const table_argument = "a file, made by --fill if it does not exist";

static int tell(const job_table *table, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(table->db));
    return EIO;
}

static int execute(const job_table *table, const char *sql)
{
    return sqlite3_exec(table->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : tell(table, sql);
}

int table_open(job_table **out, const char *database)
{
    job_table *table = calloc(1, sizeof *table);
    *out = table;
    if (!table) return ENOMEM;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    if (sqlite3_open_v2(database, &table->db, flags, NULL) != SQLITE_OK) return tell(table, database);
    sqlite3_busy_timeout(table->db, BUSY_TIMEOUT_MS);
    return 0;
}

void table_close(job_table *table)
{
    if (!table) return;
    sqlite3_close(table->db);
    free(table);
}

int table_fill(job_table *table, int64_t n)
{
    static const char make[] =
        "CREATE TABLE IF NOT EXISTS jobs ("
        " id INTEGER PRIMARY KEY, amount INTEGER NOT NULL, done_by TEXT, token INTEGER);"
        /* No UNIQUE on job: a payment that is made twice has to show. */
        "CREATE TABLE IF NOT EXISTS payments ("
        " job INTEGER NOT NULL, amount INTEGER NOT NULL, worker TEXT NOT NULL, token INTEGER NOT NULL)";
    char fill[200];
    snprintf(fill, sizeof fill,
             "WITH RECURSIVE number (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM number WHERE id < %lld)"
             " INSERT INTO jobs (id, amount) SELECT id, id * 100 FROM number",
             (long long)n);
    int error = execute(table, make);
    if (!error && fence_sqlite_set_up(table->db)) error = tell(table, "making the guard's table");
    return error ? error : execute(table, fill);
}

/* Binds the numbers, and steps to the first row; the caller finalizes *statement. */
static int query(const job_table *table, sqlite3_stmt **statement, const char *sql, int64_t number)
{
    if (sqlite3_prepare_v2(table->db, sql, -1, statement, NULL) != SQLITE_OK) return tell(table, sql);
    sqlite3_bind_int64(*statement, 1, number);
    int result = sqlite3_step(*statement);
    return result == SQLITE_ROW || result == SQLITE_DONE ? 0 : tell(table, sql);
}

int table_next(job_table *table, int64_t after, int64_t *id)
{
    sqlite3_stmt *statement;
    int error = query(table, &statement, "SELECT min(id) FROM jobs WHERE done_by IS NULL AND id > ?1", after);
    *id = error ? 0 : sqlite3_column_int64(statement, 0); /* NULL reads as 0 */
    sqlite3_finalize(statement);
    return error;
}

static int begin(const job_table *table, const hold *under)
{
    if (!under->is_guarded) return execute(table, "BEGIN IMMEDIATE");
    int error = fence_sqlite_begin(table->db, under->lock, under->token);
    return error == EIO ? tell(table, "guard") : error;
}

static int end(const job_table *table, int error)
{
    if (!error) error = execute(table, "COMMIT");
    if (error)
        sqlite3_exec(table->db, "ROLLBACK", NULL, NULL, NULL); /* a COMMIT that fails may leave it open */
    return error;
}

int table_claim(job_table *table, const hold *under, int64_t id, job *out)
{
    sqlite3_stmt *statement = NULL;
    int error = begin(table, under);
    if (error) return error;
    error = query(table, &statement, "SELECT amount, done_by IS NULL FROM jobs WHERE id = ?1", id);
    if (!error) {
        *out = (job){.id = id,
                     .amount = sqlite3_column_int64(statement, 0),
                     .is_open = sqlite3_column_int(statement, 1)};
    }
    sqlite3_finalize(statement);
    return end(table, error);
}

static int change(const job_table *table, const char *sql, const hold *under, const job *what,
                  const char *worker)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(table->db, sql, -1, &statement, NULL) != SQLITE_OK) return tell(table, sql);
    sqlite3_bind_int64(statement, 1, what->id);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)under->token);
    sqlite3_bind_text(statement, 3, worker, -1, SQLITE_STATIC);
    int error = sqlite3_step(statement) == SQLITE_DONE ? 0 : tell(table, sql);
    sqlite3_finalize(statement);
    return error;
}

int table_finish(job_table *table, const hold *under, const job *what, const char *worker)
{
    int error = begin(table, under);
    if (error) return error;
    if (under->stops) (void)raise(SIGSTOP);
    error = change(table,
                   "INSERT INTO payments (job, amount, worker, token)"
                   " SELECT id, amount, ?3, ?2 FROM jobs WHERE id = ?1",
                   under, what, worker);
    if (!error)
        error = change(table, "UPDATE jobs SET done_by = ?3, token = ?2 WHERE id = ?1", under, what, worker);
    return end(table, error);
}
