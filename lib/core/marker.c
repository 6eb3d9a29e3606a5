#include "core/marker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/key.h"

/* What is larger was not written here. */
enum { TEXT_SIZE_MAX = 64 * 1024 };

static const char suffix[] = ".robust";
static const char held_word[] = "held ";
static const char dead_word[] = "dead ";
static const char unknown_owner[] = "0\n\n";

/* ---- its memory
 * --------------------------------------------------------------------------------------------- */

el_marker *el_marker_new(const el_place *place, bool is_robust, int64_t delay_ns)
{
    size_t name_size = place->queue->folder.size - 1; /* without the '/' */
    size_t size = name_size + sizeof(suffix) - 1;
    el_marker *marker = el_alloc(sizeof(*marker) + size + 1);
    if (!marker) return NULL;
    memcpy(marker->bytes, place->queue->folder.data, name_size);
    memcpy(marker->bytes + name_size, suffix, sizeof(suffix));
    marker->key = (el_span){marker->bytes, size};
    marker->is_robust = is_robust;
    marker->delay_ns = delay_ns;
    return marker;
}

void el_marker_free(el_marker *marker)
{
    if (!marker) return;
    el_free(marker->text);
    el_free(marker->dead);
    el_free(marker);
}

bool el_marker_remember(el_marker *marker, el_span dead)
{
    el_free(marker->dead);
    marker->dead = NULL;
    if (dead.size == 0) return true;
    marker->dead = el_alloc(dead.size + 1);
    if (!marker->dead) return false;
    memcpy(marker->dead, dead.data, dead.size);
    return true;
}

/* ---- writing
 * ----------------------------------------------------------------------------------------------------- */

char *el_marker_write(const el_place *place, const char *dead)
{
    size_t room = place->value.size + (dead ? strlen(dead) : 0) + 64;
    char *text = el_alloc(room);
    if (!text) return NULL;
    snprintf(text, room, "%s%" PRId64 "\n%.*s\n%s%s", held_word, place->create_revision,
             (int)place->value.size, place->value.data, dead ? dead_word : "", dead ? dead : "");
    return text;
}

static el_op put(const el_marker *marker)
{
    el_op op = {.kind = EL_OP_PUT};
    op.put.key = marker->key;
    op.put.value = (el_span){marker->text, strlen(marker->text)};
    return op;
}

bool el_marker_claim(el_marker *marker, const el_place *place, el_txn_request *txn)
{
    el_free(marker->text);
    marker->text = el_marker_write(place, marker->dead);
    if (!marker->text) return false;
    marker->compares[0] = (el_compare){.target = EL_TARGET_CREATE_REVISION,
                                       .relation = EL_EQUAL,
                                       .key = place->key,
                                       .number = place->create_revision};
    marker->compares[1] = (el_compare){.target = EL_TARGET_MOD_REVISION,
                                       .relation = EL_EQUAL,
                                       .key = marker->key,
                                       .number = marker->seen_revision};
    marker->success = put(marker);
    marker->failure[0] = el_range_of(place->key, true);
    marker->failure[1] = el_range_of(marker->key, false);
    *txn = (el_txn_request){marker->compares, 2, &marker->success, 1, marker->failure, 2};
    return true;
}

bool el_marker_leave(el_marker *marker, el_op *op)
{
    if (!marker->is_ours || marker->leaves_it) return false;
    if (!marker->is_inconsistent) {
        *op = (el_op){.kind = EL_OP_DELETE, .del = {.key = marker->key}};
        return true;
    }
    /* The part of the text that tells of the dead one is its end. */
    size_t size = strlen(marker->dead) + sizeof(dead_word) - 1;
    *op = put(marker);
    op->put.value.data += op->put.value.size - size;
    op->put.value.size = size;
    return true;
}

/* ---- reading
 * ----------------------------------------------------------------------------------------------------- */

/* The two lines that follow the word, if the text begins with it, and moves on behind them; empty: it does
 * not. */
static el_span take_section(el_span *text, const char *word)
{
    el_span none = {"", 0};
    size_t size = strlen(word);
    if (text->size < size || memcmp(text->data, word, size) != 0) return none;
    const char *section = text->data + size, *end = text->data + text->size;
    const char *first = memchr(section, '\n', (size_t)(end - section));
    const char *second = first ? memchr(first + 1, '\n', (size_t)(end - first - 1)) : NULL;
    if (!second) return none;
    *text = (el_span){second + 1, (size_t)(end - second - 1)};
    return (el_span){section, (size_t)(second + 1 - section)};
}

static bool is_of_place(const el_place *place, el_span section)
{
    char token[24];
    size_t size = (size_t)snprintf(token, sizeof(token), "%" PRId64 "\n", place->create_revision);
    return section.size == size + place->value.size + 1 && memcmp(section.data, token, size) == 0 &&
           memcmp(section.data + size, place->value.data, place->value.size) == 0;
}

el_marker_view el_marker_read(const el_place *place, el_span text)
{
    el_marker_view view = {.is_mine = false};
    el_span held = {"", 0}, dead = {"", 0};
    if (text.size > 0 && text.size <= TEXT_SIZE_MAX && !memchr(text.data, '\0', text.size)) {
        held = take_section(&text, held_word);
        dead = take_section(&text, dead_word);
    }
    view.is_mine = held.size > 0 && is_of_place(place, held);
    view.is_death = !view.is_mine && (held.size > 0 || dead.size == 0);
    view.dead = dead.size > 0 || view.is_mine ? dead : held;
    if (view.is_death && view.dead.size == 0) view.dead = (el_span){unknown_owner, sizeof(unknown_owner) - 1};
    return view;
}
