/* Before and after: dropin_pthread.c is an ordinary program with a pthread_mutex_t, dropin.c the same program
 * made safe across processes and machines, by renaming the calls and naming the lock. `diff` shows all of it.
 *
 *     dropin [FILE]
 *
 * Some processes with some threads each add one to a counter in FILE, many times. A pthread_mutex_t keeps
 * apart the threads of one process only, so the processes lose each other's additions. FILE is counted on
 * from what it says, so that several runs may share it; without one it is a temporary file. Exit status 1 if
 * the counter did not grow by as much as this run added. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 3, THREADS = 3, ADDITIONS = 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *file;

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
    if (!stream) return 0; /* nobody has counted yet */
    int found = fscanf(stream, "%d", &counter);
    fclose(stream);
    if (found == 0) {
        fprintf(stderr, "%s is not a counter\n", file);
        exit(1);
    }
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

static void make_temporary_file(void)
{
    static char path[] = "/tmp/dropin-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0) {
        perror(path);
        exit(1);
    }
    close(fd);
    file = path;
}

int main(int argc, char **argv)
{
    int status = 0;
    int failed = 0;
    file = argc > 1 ? argv[1] : NULL;
    if (!file) make_temporary_file();
    int before = read_counter();
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
    int counted = read_counter() - before;
    int expected = PROCESSES * THREADS * ADDITIONS;
    bool is_right = argc > 1 ? counted >= expected : counted == expected; /* others may add to FILE, too */
    printf("counted %d, expected %d: %s\n", counted, expected, is_right ? "ok" : "additions are missing");
    if (argc <= 1) unlink(file);
    return failed || !is_right;
}
