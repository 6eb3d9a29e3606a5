/* The table of jobs: payments to be made, each of them once. table_sqlite.c and table_postgres.c are its two
 * forms; a program is linked with one of them.
 *
 * All functions return 0, or an error number after having written to stderr what the database said: ESTALE, a
 * guard refused the token, nothing was changed; ECONNABORTED, the connection was lost and has been made anew,
 * a transaction under way was rolled back, or committed if COMMIT was all that was left of it; EIO, the
 * database failed. All block for as long as the database takes. */
#ifndef JOB_TABLE_H
#define JOB_TABLE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct job_table job_table;

typedef struct job {
    int64_t id;
    int64_t amount;
    bool is_open; /* nobody has done it */
} job;

/* Under which hold a transaction is made. */
typedef struct hold {
    const char *lock; /* the name of the lock, which is that of the resource for the guard */
    uint64_t token;
    bool is_guarded; /* false: the token is written down, but nobody looks at it */
    bool stops;      /* in the middle of the transaction the process stops itself: for the proof */
} hold;

/* What the argument DATABASE of the program is, for its help text. */
extern const char *const table_argument;

int table_open(job_table **out, const char *database);
void table_close(job_table *table); /* NULL is allowed */

/* Makes the tables and n open jobs, numbered from 1. */
int table_fill(job_table *table, int64_t n);

/* Sets *id to the first open job after that number; 0 if there is none. A look without any lock. */
int table_next(job_table *table, int64_t after, int64_t *id);

/* One transaction: tells the guard who holds the lock now, then reads the job. What a former holder still
 * sends is refused from then on, so the job stays as it was read. */
int table_claim(job_table *table, const hold *under, int64_t id, job *out);

/* One transaction: asks the guard, pays, and marks the job as done. */
int table_finish(job_table *table, const hold *under, const job *what, const char *worker);

#endif
