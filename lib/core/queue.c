#include "core/queue.h"

#include <errno.h>
#include <string.h>

#include "core/alloc.h"

enum { BITS = 64 };

static el_queue *make(const char *prefix, const char *name)
{
    size_t size = strlen(prefix) + strlen(name) + 1;
    /* The folder is the beginning of the writers' end. */
    el_queue *queue = el_alloc(sizeof(*queue) + 2 * size + 1);
    if (!queue) return NULL;
    char *writers_end = queue->keys, *folder_end = writers_end + size + 1;
    memcpy(writers_end, prefix, strlen(prefix));
    memcpy(writers_end + strlen(prefix), name, strlen(name));
    writers_end[size - 1] = '/';
    writers_end[size] = 'g';
    memcpy(folder_end, writers_end, size);
    folder_end[size - 1] = '/' + 1;
    queue->folder = (el_span){writers_end, size};
    queue->folder_end = (el_span){folder_end, size};
    queue->writers_end = (el_span){writers_end, size + 1};
    return queue;
}

el_queue *el_queue_get(el_session *session, const char *name)
{
    el_queue *made = make(session->client->key_prefix, name);
    if (!made) return NULL;
    el_map_link *link = el_map_find(&session->queues, made->folder);
    if (link) {
        el_free(made);
        el_queue *queue = EL_CONTAINER(link, el_queue, link);
        queue->references++;
        return queue;
    }
    if (el_map_add(&session->queues, &made->link, made->folder)) {
        el_free(made);
        return NULL;
    }
    made->session = session;
    made->references = 1;
    el_session_ref(session);
    return made;
}

el_queue *el_queue_any(const el_session *session)
{
    const el_map *queues = &session->queues;
    for (size_t i = 0; i < queues->n_buckets; i++) {
        if (queues->buckets[i]) return EL_CONTAINER(queues->buckets[i], el_queue, link);
    }
    return NULL;
}

void el_queue_ref(el_queue *queue)
{
    queue->references++;
}

void el_queue_unref(el_queue *queue)
{
    if (!queue || --queue->references > 0) return;
    el_session *session = queue->session;
    el_map_remove(&session->queues, &queue->link);
    el_free(queue->slots);
    el_free(queue);
    el_session_unref(session);
}

static int grow(el_queue *queue)
{
    unsigned n_words = queue->n_words ? queue->n_words * 2 : 1;
    if (n_words * BITS > EL_SLOTS_MAX) return EAGAIN;
    uint64_t *slots = el_realloc(queue->slots, n_words * sizeof(*slots));
    if (!slots) return ENOMEM;
    memset(slots + queue->n_words, 0, (n_words - queue->n_words) * sizeof(*slots));
    queue->slots = slots;
    queue->n_words = n_words;
    return 0;
}

int el_queue_take_slot(el_queue *queue, unsigned *slot)
{
    unsigned word = queue->next_hint / BITS;
    while (word < queue->n_words && queue->slots[word] == UINT64_MAX)
        word++;
    if (word == queue->n_words) {
        int error = grow(queue);
        if (error) return error;
    }
    unsigned bit = (unsigned)__builtin_ctzll(~queue->slots[word]);
    queue->slots[word] |= 1ull << bit;
    *slot = word * BITS + bit;
    queue->next_hint = *slot + 1;
    return 0;
}

void el_queue_return_slot(el_queue *queue, unsigned slot)
{
    queue->slots[slot / BITS] &= ~(1ull << slot % BITS);
    if (slot < queue->next_hint) queue->next_hint = slot;
}
