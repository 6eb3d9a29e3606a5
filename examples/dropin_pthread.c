/* Before and after: dropin_pthread.c is an ordinary program with a pthread_mutex_t, dropin.c the same program
 * made safe across processes and machines, by renaming the calls and naming the lock. `diff` shows all of it.
 *
 *     dropin [FILE]
 *
 * Some processes with some threads each add one to a counter in FILE, many times. A pthread_mutex_t keeps
 * apart the threads of one process only, so the processes lose each other's additions. Exit status 1 if the
 * counter is not what it should be. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 3, THREADS = 3, ADDITIONS = 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *file = "dropin.counter";

static void check(const char *what, int error)
{
    if (error == 0) return;
    fprintf(stderr, "%s: %s\n", what, strerror(error));
    exit(1);
}

static int read_counter(void)
{
    int counter = 0;
    FILE *stream = fopen(file, "r");
    if (!stream || fscanf(stream, "%d", &counter) != 1) fprintf(stderr, "%s has no counter\n", file);
    if (stream) fclose(stream);
    return counter;
}

static void write_counter(int counter)
{
    FILE *stream = fopen(file, "r+");
    if (!stream) stream = fopen(file, "w");
    if (!stream || fprintf(stream, "%8d\n", counter) < 0 || fclose(stream) != 0) {
        perror(file);
        exit(1);
    }
}

static void *add(void *unused)
{
    for (int i = 0; i < ADDITIONS; i++) {
        check("lock", pthread_mutex_lock(&lock));
        int counter = read_counter();
        usleep(1000); /* the work */
        write_counter(counter + 1);
        check("unlock", pthread_mutex_unlock(&lock));
    }
    return unused;
}

static void run_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        check("thread", pthread_create(&threads[i], NULL, add, NULL));
    for (int i = 0; i < THREADS; i++)
        check("join", pthread_join(threads[i], NULL));
}

int main(int argc, char **argv)
{
    int status = 0;
    int failed = 0;
    if (argc > 1) file = argv[1];
    write_counter(0);
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        if (child < 0) perror("fork");
        if (child == 0) {
            run_threads();
            exit(0);
        }
    }
    while (wait(&status) > 0) {
        if (status != 0) failed++;
    }
    int counter = read_counter();
    int expected = PROCESSES * THREADS * ADDITIONS;
    printf("counter %d, expected %d: %s\n", counter, expected,
           counter == expected ? "ok" : "additions are missing");
    return failed || counter != expected;
}
