/* The table of jobs in a PostgreSQL database. */
#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "fence_postgres.h"
#include "job_table.h"

/* Between two statements of one transaction this program does nothing that takes time. */
enum { IDLE_MS = 2000, NUMBER_SIZE = 24 };

struct job_table {
    PGconn *db;
};

const char *const table_argument =
    "a connection string of libpq (\"host=... dbname=...\"); empty: PGHOST, PGDATABASE and so on";

static int tell(const job_table *table, const char *what)
{
    fprintf(stderr, "%s: %s", what, PQerrorMessage(table->db)); /* which ends with a line break */
    if (PQstatus(table->db) == CONNECTION_OK) return EIO;
    PQreset(table->db);
    return PQstatus(table->db) == CONNECTION_OK ? ECONNABORTED : EIO;
}

/* On success the rows, to be freed with PQclear; NULL after having told what went wrong, with *error set. */
static PGresult *query(const job_table *table, const char *sql, int n, const char *const *values, int *error)
{
    PGresult *result = PQexecParams(table->db, sql, n, NULL, values, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    *error = 0;
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) return result;
    *error = tell(table, sql);
    PQclear(result);
    return NULL;
}

static int execute(const job_table *table, const char *sql, int n, const char *const *values)
{
    int error;
    PQclear(query(table, sql, n, values, &error));
    return error;
}

static int64_t number_at(const PGresult *result, int column)
{
    return strtoll(PQgetvalue(result, 0, column), NULL, 10); /* NULL reads as 0 */
}

static void ignore_notice(void *arg, const char *message)
{
    (void)arg, (void)message; /* "relation already exists, skipping" */
}

int table_open(job_table **out, const char *database)
{
    job_table *table = calloc(1, sizeof *table);
    *out = table;
    if (!table) return ENOMEM;
    table->db = PQconnectdb(database);
    if (PQstatus(table->db) != CONNECTION_OK) return tell(table, "connecting");
    PQsetNoticeProcessor(table->db, ignore_notice, NULL);
    return 0;
}

void table_close(job_table *table)
{
    if (!table) return;
    PQfinish(table->db);
    free(table);
}

int table_fill(job_table *table, int64_t n)
{
    static const char make_jobs[] =
        "CREATE TABLE IF NOT EXISTS jobs ("
        " id bigint PRIMARY KEY, amount bigint NOT NULL, done_by text, token bigint)";
    /* No UNIQUE on job: a payment that is made twice has to show. */
    static const char make_payments[] =
        "CREATE TABLE IF NOT EXISTS payments ("
        " job bigint NOT NULL, amount bigint NOT NULL, worker text NOT NULL, token bigint NOT NULL)";
    static const char fill[] =
        "INSERT INTO jobs (id, amount) SELECT id, id * 100 FROM generate_series(1, $1::bigint) AS id";
    char number[NUMBER_SIZE];
    const char *const values[] = {number};
    snprintf(number, sizeof number, "%" PRId64, n);
    int error = execute(table, make_jobs, 0, NULL);
    if (!error) error = execute(table, make_payments, 0, NULL);
    if (!error && fence_postgres_set_up(table->db)) error = tell(table, "making the guard's table");
    return error ? error : execute(table, fill, 1, values);
}

int table_next(job_table *table, int64_t after, int64_t *id)
{
    static const char sql[] = "SELECT min(id) FROM jobs WHERE done_by IS NULL AND id > $1";
    char number[NUMBER_SIZE];
    const char *const values[] = {number};
    int error;
    snprintf(number, sizeof number, "%" PRId64, after);
    PGresult *result = query(table, sql, 1, values, &error);
    *id = result ? number_at(result, 0) : 0;
    PQclear(result);
    return error;
}

static int begin(const job_table *table, const hold *under)
{
    if (!under->is_guarded) return execute(table, "BEGIN", 0, NULL);
    int error = fence_postgres_begin(table->db, under->lock, under->token, IDLE_MS);
    return error == EIO ? tell(table, "guard") : error;
}

static int end(const job_table *table, int error)
{
    if (!error) return execute(table, "COMMIT", 0, NULL);
    PQclear(PQexec(table->db, "ROLLBACK"));
    return error;
}

int table_claim(job_table *table, const hold *under, int64_t id, job *out)
{
    static const char sql[] = "SELECT amount, (done_by IS NULL)::int FROM jobs WHERE id = $1";
    char number[NUMBER_SIZE];
    const char *const values[] = {number};
    snprintf(number, sizeof number, "%" PRId64, id);
    int error = begin(table, under);
    if (error) return error;
    PGresult *result = query(table, sql, 1, values, &error);
    if (result) *out = (job){.id = id, .amount = number_at(result, 0), .is_open = number_at(result, 1) != 0};
    PQclear(result);
    return end(table, error);
}

int table_finish(job_table *table, const hold *under, const job *what, const char *worker)
{
    char id[NUMBER_SIZE], token[NUMBER_SIZE];
    const char *const values[] = {id, token, worker};
    snprintf(id, sizeof id, "%" PRId64, what->id);
    snprintf(token, sizeof token, "%" PRIu64, under->token);
    int error = begin(table, under);
    if (error) return error;
    if (under->stops) (void)raise(SIGSTOP);
    error = execute(table,
                    "INSERT INTO payments (job, amount, worker, token)"
                    " SELECT id, amount, $3, $2::bigint FROM jobs WHERE id = $1",
                    3, values);
    if (!error)
        error = execute(table, "UPDATE jobs SET done_by = $3, token = $2::bigint WHERE id = $1", 3, values);
    return end(table, error);
}
