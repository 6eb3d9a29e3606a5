/* lib/core/marker.c: what a holder writes into the marker of a lock, and what others make of it. */
#include "core/marker.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "support/runner.h"

#define SPAN(text) ((el_span){text, sizeof(text) - 1})

static el_queue queue;
static el_place place, other;
static el_marker *marker;
static el_txn_request txn;

static void set_up(void)
{
    queue.folder = SPAN("pre/NAME/");
    place =
        (el_place){.queue = &queue, .key = SPAN("pre/NAME/aa"), .value = SPAN("{me}"), .create_revision = 41};
    other = (el_place){
        .queue = &queue, .key = SPAN("pre/NAME/bb"), .value = SPAN("{you}"), .create_revision = 57};
    marker = el_marker_new(&place, true, 0);
}

static void tear_down(void)
{
    el_marker_free(marker);
    ck_assert_int_eq(el_alloc_alive(), 0);
}

static el_span text_of(const el_op *op)
{
    ck_assert_int_eq(op->kind, EL_OP_PUT);
    ck_assert_int_eq(op->put.lease, 0);
    return op->put.value;
}

static void expect_text(el_span text, const char *expected)
{
    ck_assert_msg(text.size == strlen(expected) && memcmp(text.data, expected, text.size) == 0, "%.*s",
                  (int)text.size, text.data);
}

/* The claim compares our entry and the marker as it was seen, lies outside of the folder, and names us. */
START_TEST(claim)
{
    marker->seen_revision = 33;
    ck_assert(el_marker_claim(marker, &place, &txn));
    ck_assert_uint_eq(txn.n_compares, 2);
    ck_assert_int_eq(txn.compares[0].target, EL_TARGET_CREATE_REVISION);
    ck_assert_int_eq(txn.compares[0].number, 41);
    ck_assert_mem_eq(txn.compares[0].key.data, "pre/NAME/aa", 11);
    ck_assert_int_eq(txn.compares[1].target, EL_TARGET_MOD_REVISION);
    ck_assert_int_eq(txn.compares[1].number, 33);
    ck_assert_uint_eq(txn.compares[1].key.size, strlen("pre/NAME.robust"));
    ck_assert_mem_eq(txn.compares[1].key.data, "pre/NAME.robust", 15);
    expect_text(text_of(&txn.success[0]), "held 41\n{me}\n");
    ck_assert_uint_eq(txn.n_failure, 2);
}
END_TEST

/* We know ourselves by token and value, and nobody else by either alone. */
START_TEST(whose)
{
    ck_assert(el_marker_read(&place, SPAN("held 41\n{me}\n")).is_mine);
    ck_assert(el_marker_read(&place, SPAN("held 41\n{me}\ndead 7\n{x}\n")).is_mine);
    ck_assert(!el_marker_read(&place, SPAN("held 42\n{me}\n")).is_mine);
    ck_assert(!el_marker_read(&place, SPAN("held 41\n{we}\n")).is_mine);
    ck_assert(!el_marker_read(&place, SPAN("held 41\n{me}")).is_mine);
    ck_assert(!el_marker_read(&place, SPAN("dead 41\n{me}\n")).is_mine);
}
END_TEST

/* Who died is the holder, or the one whose death that one had not repaired; left behind it is no new death.
 */
START_TEST(who_died)
{
    el_marker_view view = el_marker_read(&other, SPAN("held 41\n{me}\n"));
    ck_assert(view.is_death);
    expect_text(view.dead, "41\n{me}\n");
    view = el_marker_read(&other, SPAN("held 41\n{me}\ndead 7\n{x}\n"));
    ck_assert(view.is_death);
    expect_text(view.dead, "7\n{x}\n");
    view = el_marker_read(&other, SPAN("dead 7\n{x}\n"));
    ck_assert(!view.is_death);
    expect_text(view.dead, "7\n{x}\n");
}
END_TEST

/* What cannot be read is the death of somebody unknown. */
START_TEST(unreadable)
{
    static const char huge[70000] = "held 41\n{me}\n";
    const el_span texts[] = {SPAN(""),           SPAN("held"),     SPAN("held 41"), SPAN("held 41\n{me}"),
                             SPAN("\0held 1\n"), SPAN("dead 7\n"), SPAN("\n\n\n"),  {NULL, 0}};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        el_marker_view view = el_marker_read(&place, texts[i]);
        ck_assert_msg(view.is_death && !view.is_mine, "text %zu", i);
        expect_text(view.dead, "0\n\n");
    }
    ck_assert(!el_marker_read(&place, (el_span){huge, sizeof(huge)}).is_mine);
}
END_TEST

/* Leaving deletes it; unrepaired it goes on to tell of the dead one, and of nobody else; what is not ours is
 * left alone. */
START_TEST(leave)
{
    el_op op;
    ck_assert(el_marker_remember(marker, SPAN("7\n{x}\n")));
    ck_assert(el_marker_claim(marker, &place, &txn));
    expect_text(text_of(&txn.success[0]), "held 41\n{me}\ndead 7\n{x}\n");
    ck_assert(!el_marker_leave(marker, &op));
    marker->is_ours = true;
    ck_assert(el_marker_leave(marker, &op));
    ck_assert_int_eq(op.kind, EL_OP_DELETE);
    marker->is_inconsistent = true;
    ck_assert(el_marker_leave(marker, &op));
    expect_text(text_of(&op), "dead 7\n{x}\n");
    marker->leaves_it = true;
    ck_assert(!el_marker_leave(marker, &op));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("marker");
    TCase *cases = tcase_create("marker");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, claim);
    tcase_add_test(cases, whose);
    tcase_add_test(cases, who_died);
    tcase_add_test(cases, unreadable);
    tcase_add_test(cases, leave);
    suite_add_tcase(suite, cases);
    return runner_run(suite);
}
