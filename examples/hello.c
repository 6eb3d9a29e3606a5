/* The quickstart: one lock, one piece of work that only one process at a time may do.
 * Run it in two terminals at once:  hello [NAME] */
#include <etcdlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(const char *what, int error)
{
    if (error == 0) return;
    fprintf(stderr, "%s: %s: %s\n", what, etcdlock_strerror(error), etcdlock_error_message());
    exit(1);
}

int main(int argc, char **argv)
{
    etcdlock_client *client;
    etcdlock_session *session;
    etcdlock_mutex *mutex;

    check("client", etcdlock_client_open(&client, NULL)); /* ETCDCTL_ENDPOINTS, or 127.0.0.1:2379 */
    check("session", etcdlock_session_open(&session, client, NULL));
    check("mutex", etcdlock_mutex_new(&mutex, session, argc > 1 ? argv[1] : "hello", NULL));

    printf("waiting for the lock ...\n");
    check("lock", etcdlock_mutex_lock(mutex));
    printf("process %d holds it with fencing token %llu\n", (int)getpid(),
           (unsigned long long)etcdlock_mutex_token(mutex));
    check("ensure", etcdlock_mutex_ensure(mutex, 3000)); /* good for the 3 s that the work takes? */
    sleep(3);
    check("unlock", etcdlock_mutex_unlock(mutex));
    printf("done\n");

    check("destroy", etcdlock_mutex_destroy(mutex));
    check("close", etcdlock_session_close(session));
    check("close", etcdlock_client_close(client));
    return 0;
}
