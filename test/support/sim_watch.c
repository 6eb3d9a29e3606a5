#include <stdlib.h>

#include "support/sim_client.h"

#define TICK_NS (100 * SIM_MS) /* etcd's interval of catching up the unsynced watchers */

struct sim_watch {
    sim_stream *stream;
    int64_t id;
    el_span key;
    int64_t next_revision; /* of the first event it has not been sent */
    bool deletes_only;     /* PUTs are left out */
    bool unsynced;         /* gets its events from the next tick only */
    sim_watch *next, *previous;
};

static sim_member *member_of(const sim_stream *stream)
{
    return &stream->sim->members[stream->endpoint];
}

static sim_watch *find(const sim_stream *stream, int64_t id)
{
    sim_watch *w = member_of(stream)->watches;
    while (w && (w->stream != stream || w->id != id))
        w = w->next;
    return w;
}

static void forget(sim_watch *w)
{
    sim_member *m = member_of(w->stream);
    if (w->previous)
        w->previous->next = w->next;
    else
        m->watches = w->next;
    if (w->next) w->next->previous = w->previous;
    m->sim->watches_open--;
    sim_span_free(w->key);
    free(w);
}

static void tell(sim_stream *stream, el_watch_message message)
{
    sim_arena arena = {0};
    if (!message.reason) message.reason = "";
    sim_stream_tell(stream, &message, &arena);
}

void sim_watch_schedule_tick(sim_member *m)
{
    if (m->tick.slot || m->dead || m->paused) return;
    for (const sim_watch *w = m->watches; w; w = w->next) {
        if (!w->unsynced) continue;
        int64_t phase_ns = TICK_NS / SIM_MEMBERS_MAX * m->id;
        int64_t now_ns = sim_now(m->sim);
        sim_schedule(m->sim, &m->tick, now_ns + TICK_NS - (now_ns + phase_ns) % TICK_NS);
        return;
    }
}

static const char *refusal(const sim_stream *stream, int64_t id)
{
    if (stream->sim->watch_refusal) return stream->sim->watch_refusal;
    const char *reason = sim_auth_watch_refusal(stream->sim, stream->token);
    if (reason) return reason;
    if (find(stream, id)) return "mvcc: duplicate watch ID provided on the WatchStream";
    return NULL;
}

void sim_watch_add(sim_stream *stream, int64_t id, el_span key, int64_t start_revision, bool deletes_only)
{
    sim_member *m = member_of(stream);
    sim *s = m->sim;
    int64_t revision = sim_member_revision(m);
    const char *reason = refusal(stream, id);
    if (reason) {
        /* etcd itself says -1 here; a transport puts in the id that was asked for. */
        tell(stream,
             (el_watch_message){
                 .watch_id = id, .revision = revision, .created = true, .canceled = true, .reason = reason});
        return;
    }
    sim_watch *w = sim_alloc(sizeof *w);
    w->stream = stream;
    w->id = id;
    w->key = sim_span_dup(key);
    w->deletes_only = deletes_only;
    w->next_revision = start_revision ? start_revision : revision + 1;
    w->unsynced = start_revision && start_revision <= revision;
    /* A write that comes between etcd's look at the revision and the start of the watch has this effect. */
    if (!start_revision && sim_now(s) - m->busy_ns < SIM_MS) w->unsynced = sim_chance(s) < s->faults.unsynced;
    w->next = m->watches;
    if (w->next) w->next->previous = w;
    m->watches = w;
    s->watches_open++;
    tell(stream, (el_watch_message){.watch_id = id, .revision = revision, .created = true});
    sim_watch_schedule_tick(m);
}

void sim_watch_remove(sim_stream *stream, int64_t id)
{
    sim_watch *w = find(stream, id);
    if (!w) return;
    forget(w);
    tell(stream, (el_watch_message){
                     .watch_id = id, .revision = sim_member_revision(member_of(stream)), .canceled = true});
}

void sim_watches_drop(sim_stream *stream)
{
    sim_watch *next;
    for (sim_watch *w = member_of(stream)->watches; w; w = next) {
        next = w->next;
        if (w->stream == stream) forget(w);
    }
}

static bool is_for(const sim_watch *w, const sim_change *change)
{
    if (sim_span_compare(change->key->key, w->key) != 0) return false;
    return !w->deletes_only || change->key->versions[change->version].deleted;
}

static size_t count_events(const sim *s, const sim_watch *w, int64_t last_revision)
{
    size_t first, end, ignored, n = 0;
    sim_store_changes(&s->store, w->next_revision, &first, &ignored);
    sim_store_changes(&s->store, last_revision, &ignored, &end);
    for (size_t i = first; i < end; i++)
        n += is_for(w, &s->store.changes[i]);
    return n;
}

/* Sends what happened to the key from the watch's next revision up to last_revision, in one message. */
static void send_events(sim_watch *w, int64_t last_revision)
{
    const sim *s = w->stream->sim;
    if (w->next_revision > last_revision) return;
    size_t n = count_events(s, w, last_revision);
    size_t first, end, ignored;
    sim_store_changes(&s->store, w->next_revision, &first, &ignored);
    sim_store_changes(&s->store, last_revision, &ignored, &end);
    w->next_revision = last_revision + 1;
    if (n == 0) return;
    sim_arena arena = {0};
    el_watch_event *events = sim_arena_take(&arena, n * sizeof *events);
    el_watch_message message = {
        .watch_id = w->id, .revision = last_revision, .reason = "", .events = events, .n_events = n};
    for (size_t i = first; i < end; i++) {
        const sim_change *change = &s->store.changes[i];
        if (!is_for(w, change)) continue;
        const sim_version *version = &change->key->versions[change->version];
        events->deleted = version->deleted;
        events->kv = (el_key_value){.key = change->key->key,
                                    .value = version->deleted ? (el_span){"", 0} : version->value,
                                    .create_revision = version->create_revision,
                                    .mod_revision = version->mod_revision,
                                    .version = version->version,
                                    .lease = version->lease};
        events++;
    }
    sim_stream_tell(w->stream, &message, &arena);
}

void sim_watches_notify(sim_member *m, int64_t revision)
{
    for (sim_watch *w = m->watches; w; w = w->next)
        if (!w->unsynced) send_events(w, revision);
}

void sim_watch_tick_event(void *member)
{
    sim_member *m = member;
    const sim *s = m->sim;
    sim_watch *next;
    if (m->dead || m->paused) return;
    for (sim_watch *w = m->watches; w; w = next) {
        next = w->next;
        if (!w->unsynced) continue;
        if (w->next_revision < s->store.compact_revision) {
            tell(w->stream, (el_watch_message){.watch_id = w->id,
                                               .canceled = true,
                                               .compact_revision = s->store.compact_revision});
            forget(w);
            continue;
        }
        send_events(w, sim_member_revision(m));
        w->unsynced = false;
    }
}

size_t sim_watches_open(sim *s)
{
    sim_lock(s);
    size_t n = s->watches_open;
    sim_unlock(s);
    return n;
}
