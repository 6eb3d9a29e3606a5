#include "core/place.h"

#include "core/key.h"

static el_op range_of_folder(const el_place *place, el_sort_target sort, int64_t limit)
{
    el_op op = {.kind = EL_OP_RANGE};
    op.range.key = place->queue->folder;
    op.range.range_end = place->is_reader ? place->queue->writers_end : place->queue->folder_end;
    op.range.sort = sort;
    op.range.limit = limit;
    op.range.keys_only = true;
    return op;
}

static el_op put_mine(const el_place *place)
{
    el_op op = {.kind = EL_OP_PUT};
    op.put.key = place->key;
    op.put.value = place->value;
    op.put.lease = place->lease;
    return op;
}

el_txn_request el_place_enter(const el_place *place, el_parts *parts)
{
    parts->compare =
        (el_compare){.target = EL_TARGET_CREATE_REVISION, .relation = EL_EQUAL, .key = place->key};
    parts->success[0] = put_mine(place);
    parts->success[1] = range_of_folder(place, EL_SORT_CREATE_DESCENDING, 2);
    parts->failure[0] = el_range_of(place->key, false);
    parts->failure[1] = range_of_folder(place, EL_SORT_CREATE_DESCENDING, 2);
    el_txn_request txn = {&parts->compare, 1, parts->success, 2, parts->failure, 2};
    return txn;
}

el_txn_request el_place_try(const el_place *place, el_parts *parts)
{
    parts->compare = (el_compare){.target = EL_TARGET_CREATE_REVISION,
                                  .relation = EL_EQUAL,
                                  .key = place->queue->folder,
                                  .range_end = place->queue->folder_end};
    parts->success[0] = put_mine(place);
    parts->failure[0] = el_range_of(place->key, false);
    parts->failure[1] = range_of_folder(place, EL_SORT_CREATE_ASCENDING, 1);
    el_txn_request txn = {&parts->compare, 1, parts->success, 1, parts->failure, 2};
    return txn;
}

el_txn_request el_place_peek(const el_place *place, el_parts *parts)
{
    el_txn_request txn = el_place_try(place, parts);
    txn.n_success = 0;
    return txn;
}

el_txn_request el_place_look(const el_place *place, el_parts *parts, bool serializable, bool whole_folder)
{
    parts->success[0] = el_range_of(place->key, true);
    parts->success[1] = range_of_folder(place, EL_SORT_CREATE_DESCENDING, whole_folder ? 0 : 1);
    parts->success[1].range.max_create_revision = place->create_revision - 1;
    parts->success[0].range.serializable = parts->success[1].range.serializable = serializable;
    el_txn_request txn = {NULL, 0, parts->success, 2, NULL, 0};
    return txn;
}

el_txn_request el_place_leave(const el_place *place, el_parts *parts)
{
    parts->compare = (el_compare){.relation = EL_EQUAL, .key = place->key};
    if (place->create_revision) {
        parts->compare.target = EL_TARGET_CREATE_REVISION;
        parts->compare.number = place->create_revision;
    } else {
        parts->compare.target = EL_TARGET_VALUE;
        parts->compare.value = place->value;
    }
    parts->success[0] = (el_op){.kind = EL_OP_DELETE, .del = {.key = place->key}};
    el_txn_request txn = {&parts->compare, 1, parts->success, 1, NULL, 0};
    return txn;
}

/* ---- answers ------------------------------------------------------------------------------------------- */

/* Every entry has one. What is left of a malformed answer is "not known", so that whoever leaves after it
 * goes by the value. */
static void check_create_revision(el_view *view)
{
    if (view->mine_create_revision > 0) return;
    view->mine_create_revision = 0;
    view->is_malformed = true;
}

/* The entry was written at the revision of the answer. */
static void read_written(el_view *view)
{
    view->is_mine_there = view->is_mine_ours = true;
    view->mine_create_revision = view->revision;
    check_create_revision(view);
}

static void read_mine(const el_place *place, const el_range_answer *mine, el_view *view)
{
    if (mine->n_kvs == 0) return;
    view->is_mine_there = true;
    view->mine_create_revision = mine->kvs[0].create_revision;
    view->is_mine_ours = el_span_equal(mine->kvs[0].value, place->value);
    check_create_revision(view);
}

/* The nearest older one among keys sorted by falling create_revision. Keys that are no entries block nobody,
 * but where the answer was limited there may be entries behind them. */
static void read_older(const el_place *place, int64_t mine, const el_range_answer *range, el_view *view)
{
    for (size_t i = 0; i < range->n_kvs; i++) {
        const el_key_value *kv = &range->kvs[i];
        if (kv->create_revision >= mine) continue;
        el_entry_shape shape = el_key_shape(kv->key, place->queue->folder);
        if (shape == EL_SHAPE_STRAY || (place->is_reader && shape == EL_SHAPE_READER)) continue;
        if (view->has_older) {
            view->is_older_first = false;
            return;
        }
        view->has_older = true;
        view->is_older_first = !range->more;
        view->older_key = kv->key;
        view->older_create_revision = kv->create_revision;
    }
    view->is_unclear = range->more && !view->has_older;
}

el_view el_place_read_enter(const el_place *place, int64_t revision, const el_txn_answer *answer)
{
    el_view view = {.revision = revision};
    const el_range_answer *folder = el_range_at(answer, 1);
    const el_range_answer *mine = answer->succeeded ? NULL : el_range_at(answer, 0);
    if (!folder || (!answer->succeeded && (!mine || mine->n_kvs != 1))) {
        view.is_malformed = true;
        return view;
    }
    if (answer->succeeded) {
        read_written(&view);
    } else {
        read_mine(place, mine, &view);
    }
    read_older(place, view.mine_create_revision, folder, &view);
    return view;
}

el_view el_place_read_try(const el_place *place, int64_t revision, const el_txn_answer *answer)
{
    el_view view = {.revision = revision};
    if (answer->succeeded) {
        read_written(&view);
        return view;
    }
    const el_range_answer *mine = el_range_at(answer, 0);
    const el_range_answer *folder = el_range_at(answer, 1);
    if (!mine || !folder) {
        view.is_malformed = true;
        return view;
    }
    read_mine(place, mine, &view);
    int64_t bound = view.is_mine_there && view.is_mine_ours ? view.mine_create_revision : INT64_MAX;
    read_older(place, bound, folder, &view);
    return view;
}

el_view el_place_read_look(const el_place *place, int64_t revision, const el_txn_answer *answer)
{
    el_view view = {.revision = revision};
    const el_range_answer *mine = el_range_at(answer, 0);
    const el_range_answer *folder = el_range_at(answer, 1);
    if (!mine || !folder) {
        view.is_malformed = true;
        return view;
    }
    view.is_mine_there = mine->n_kvs > 0;
    if (view.is_mine_there) {
        view.mine_create_revision = mine->kvs[0].create_revision;
        check_create_revision(&view);
    }
    view.is_mine_ours = view.mine_create_revision == place->create_revision;
    read_older(place, place->create_revision, folder, &view);
    return view;
}
