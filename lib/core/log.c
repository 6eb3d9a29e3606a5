#include "core/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/alloc.h"
#include "core/error.h"

enum { QUEUED_MAX = 1000 };

typedef struct message {
    el_notice notice;
    el_client *client;
    etcdlock_log_level level;
    char text[400];
} message;

static void run(el_notice *notice)
{
    message *m = EL_CONTAINER(notice, message, notice);
    el_client *client = m->client;
    pthread_mutex_lock(&client->lock);
    etcdlock_log_function *log = client->log;
    pthread_mutex_unlock(&client->lock);
    if (log) log(m->level, m->text, client->log_arg);
    pthread_mutex_lock(&client->lock);
    client->queued_messages--;
    unsigned dropped = client->queued_messages == 0 ? client->dropped_messages : 0;
    client->dropped_messages -= dropped;
    if (dropped)
        el_log(client, ETCDLOCK_LOG_WARNING, "%u log messages were dropped: the log function is slow",
               dropped);
    pthread_mutex_unlock(&client->lock);
    el_free(m);
}

void el_log(el_client *client, etcdlock_log_level level, const char *format, ...)
{
    if (!client->log || level > client->log_level) return;
    if (client->queued_messages >= QUEUED_MAX) {
        client->dropped_messages++;
        return;
    }
    message *m = el_alloc(sizeof(*m));
    if (!m) return;
    m->notice.run = run;
    m->client = client;
    m->level = level;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(m->text, sizeof(m->text), format, arguments);
    va_end(arguments);
    el_one_line(m->text);
    if (el_notifier_post(&client->notifier, &m->notice)) {
        el_free(m);
        return;
    }
    client->queued_messages++;
}
