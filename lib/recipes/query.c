/* The queue of a lock as a snapshot: one range over its folder, sorted into contenders and strays. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core/alloc.h"
#include "core/backoff.h"
#include "core/client.h"
#include "core/error.h"
#include "core/key.h"
#include "core/rpc.h"
#include "core/value.h"
#include "etcdlock/query.h"

typedef struct row {
    etcdlock_entry entry;
    char *key;
    char *texts; /* what the strings of the entry point into */
} row;

struct etcdlock_queue {
    uint64_t revision;
    size_t n_rows;
    size_t n_contenders;
    row rows[];
};

typedef struct query {
    el_rpc rpc;
    pthread_cond_t changed;
    bool is_done;
    el_span folder;
    el_failure failure;
    etcdlock_queue *queue;
} query;

void etcdlock_queue_free(etcdlock_queue *queue)
{
    if (!queue) return;
    for (size_t i = 0; i < queue->n_rows; i++) {
        el_free(queue->rows[i].key);
        el_free(queue->rows[i].texts);
    }
    el_free(queue);
}

static int fill_row(row *r, const el_key_value *kv, el_entry_shape shape)
{
    el_value value = {.host = "", .program = "", .label = "", .acquisition = ""};
    r->key = el_alloc(kv->key.size + 1);
    if (!r->key) return ENOMEM;
    memcpy(r->key, kv->key.data, kv->key.size);
    if (shape != EL_SHAPE_STRAY && el_value_read(&value, &r->texts, kv->value.data, kv->value.size))
        return ENOMEM;
    r->entry = (etcdlock_entry){
        .kind = shape == EL_SHAPE_STRAY    ? ETCDLOCK_ENTRY_STRAY
                : shape == EL_SHAPE_READER ? ETCDLOCK_ENTRY_READER
                                           : ETCDLOCK_ENTRY_CONTENDER,
        .key = r->key,
        .key_size = kv->key.size,
        .lease = kv->lease,
        .create_revision = (uint64_t)kv->create_revision,
        .host = value.host,
        .program = value.program,
        .label = value.label,
        .pid = value.pid,
        .thread = value.thread,
        .since_unix_ms = value.since_unix_ms,
        .acquisition = value.acquisition,
    };
    return 0;
}

/* Keys of the locks below ours ("a/b/..." and "a/b.robust" for lock "a") are none of our business and left
 * out; so are the records of guarded writes. */
static bool is_of_another_lock(el_span key, el_span folder)
{
    static const char marker[] = ".robust";
    if (key.size < folder.size || memcmp(key.data, folder.data, folder.size) != 0) return true;
    size_t size = key.size - folder.size, marker_size = sizeof(marker) - 1;
    if (memchr(key.data + folder.size, '/', size)) return true;
    return size > marker_size && memcmp(key.data + key.size - marker_size, marker, marker_size) == 0;
}

/* First the entries by place, then the strays. */
static int take_kvs(etcdlock_queue *queue, const el_range_answer *range, el_span folder, bool strays)
{
    for (size_t i = 0; i < range->n_kvs; i++) {
        el_entry_shape shape = el_key_shape(range->kvs[i].key, folder);
        if ((shape == EL_SHAPE_STRAY) != strays || is_of_another_lock(range->kvs[i].key, folder)) continue;
        int error = fill_row(&queue->rows[queue->n_rows++], &range->kvs[i], shape);
        if (error) return error;
    }
    return 0;
}

static int take_answer(query *q, const el_answer *answer)
{
    etcdlock_queue *queue = el_alloc(sizeof(*queue) + answer->range.n_kvs * sizeof(queue->rows[0]));
    if (!queue) return ENOMEM;
    queue->revision = (uint64_t)answer->revision;
    int error = take_kvs(queue, &answer->range, q->folder, false);
    queue->n_contenders = queue->n_rows;
    if (!error) error = take_kvs(queue, &answer->range, q->folder, true);
    if (error) {
        etcdlock_queue_free(queue);
        return error;
    }
    q->queue = queue;
    return 0;
}

static void done(el_rpc *rpc, const el_rpc_end *end)
{
    query *q = EL_CONTAINER(rpc, query, rpc);
    q->failure = end->failure;
    if (end->answer && take_answer(q, end->answer)) el_fail(&q->failure, ENOMEM, "queue_get: out of memory");
    q->is_done = true;
    pthread_cond_signal(&q->changed);
}

static void ask(el_client *client, query *q, el_span folder_end)
{
    q->rpc = (el_rpc){
        .request = {.verb = EL_RANGE,
                    .range = {.key = q->folder, .range_end = folder_end, .sort = EL_SORT_CREATE_ASCENDING}},
        .pinned = EL_ANY_ENDPOINT,
        .deadline_ns = el_now(client) + client->command_timeout_ns,
        .done = done,
    };
    pthread_cond_init(&q->changed, NULL);
    el_rpc_start(client, &q->rpc);
    while (!q->is_done)
        pthread_cond_wait(&q->changed, &client->lock);
    pthread_cond_destroy(&q->changed);
}

int etcdlock_queue_get(etcdlock_queue **out, etcdlock_client *client, const char *name)
{
    query q = {.is_done = false};
    if (out) *out = NULL;
    if (!out || !client) return el_publish_new(EINVAL, "queue_get: %s is NULL", out ? "client" : "out");
    if (el_name_check(name, &q.failure)) return el_publish(&q.failure);
    if (el_client_enter(client))
        return el_publish_new(ETCDLOCK_EFORKED, "queue_get: the client belongs to the parent process");
    size_t size = strlen(client->key_prefix) + strlen(name) + 1;
    char *keys = el_alloc(2 * size + 2);
    if (!keys) {
        el_fail(&q.failure, ENOMEM, "queue_get: out of memory");
    } else if (client->state != EL_CLIENT_OPEN) {
        el_fail(&q.failure, ECANCELED, "queue_get: the client is closed");
    } else {
        char *end = keys + size + 1;
        memcpy(keys, client->key_prefix, strlen(client->key_prefix));
        memcpy(keys + strlen(client->key_prefix), name, strlen(name));
        memcpy(end, keys, size);
        keys[size - 1] = '/';
        end[size - 1] = '/' + 1;
        q.folder = (el_span){keys, size};
        client->references++; /* it may be closed meanwhile */
        ask(client, &q, (el_span){end, size});
        client->references--;
    }
    el_free(keys);
    el_client_leave(client);
    *out = q.queue;
    return el_publish(&q.failure);
}

size_t etcdlock_queue_size(const etcdlock_queue *queue)
{
    return queue ? queue->n_rows : 0;
}

size_t etcdlock_queue_contenders(const etcdlock_queue *queue)
{
    return queue ? queue->n_contenders : 0;
}

const etcdlock_entry *etcdlock_queue_at(const etcdlock_queue *queue, size_t i)
{
    return queue && i < queue->n_rows ? &queue->rows[i].entry : NULL;
}

uint64_t etcdlock_queue_revision(const etcdlock_queue *queue)
{
    return queue ? queue->revision : 0;
}
