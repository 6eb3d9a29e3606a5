/* lib/core/queue.c: where the keys of a lock lie, and which places a session has in its queue. */
#include "core/queue.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#include "core/alloc.h"
#include "support/runner.h"

static char prefix[] = "pre/";
static el_client client;
static el_session session;
static el_queue *queue;
static long alive;

static void set_up(void)
{
    alive = el_alloc_alive();
    memset(&client, 0, sizeof(client));
    memset(&session, 0, sizeof(session));
    client.key_prefix = prefix;
    session.client = &client;
    session.references = 1;
    queue = el_queue_get(&session, "NAME");
    ck_assert_ptr_nonnull(queue);
}

static void tear_down(void)
{
    el_queue_unref(queue);
    ck_assert_uint_eq(session.references, 1);
    ck_assert_uint_eq(session.queues.n_members, 0);
    el_map_clear(&session.queues);
    ck_assert_int_eq(el_alloc_alive(), alive);
}

static unsigned take(void)
{
    unsigned slot = 12345678;
    ck_assert_int_eq(el_queue_take_slot(queue, &slot), 0);
    return slot;
}

static void expect_bytes(el_span span, const char *text)
{
    ck_assert_uint_eq(span.size, strlen(text));
    ck_assert_int_eq(memcmp(span.data, text, span.size), 0);
}

/* The bounds of the folder enclose all entries and nothing else; those of the writers leave out readers. */
START_TEST(bounds)
{
    expect_bytes(queue->folder, "pre/NAME/");
    expect_bytes(queue->folder_end, "pre/NAME0");
    expect_bytes(queue->writers_end, "pre/NAME/g");
    client.key_prefix = prefix + sizeof(prefix) - 1;
    el_queue *plain = el_queue_get(&session, "a/b");
    expect_bytes(plain->folder, "a/b/");
    expect_bytes(plain->folder_end, "a/b0");
    expect_bytes(plain->writers_end, "a/b/g");
    el_queue_unref(plain);
}
END_TEST

/* A name has one queue per session, which lives until the last reference and holds the session. */
START_TEST(one_per_name)
{
    ck_assert_uint_eq(session.references, 2);
    ck_assert_ptr_eq(el_queue_get(&session, "NAME"), queue);
    ck_assert_uint_eq(session.references, 2);
    el_queue *other = el_queue_get(&session, "NAM");
    ck_assert_ptr_ne(other, queue);
    ck_assert_uint_eq(session.references, 3);
    el_queue_unref(other);
    ck_assert_uint_eq(session.references, 2);
    el_queue_ref(queue);
    el_queue_unref(queue);
    el_queue_unref(queue);
    ck_assert_uint_eq(session.references, 2);
    el_queue_unref(NULL);
    ck_assert_uint_eq(session.queues.n_members, 1);
}
END_TEST

/* The lowest free number comes first, and one given back is the next one if it is the lowest. */
START_TEST(lowest_first)
{
    for (unsigned i = 0; i < 300; i++)
        ck_assert_uint_eq(take(), i);
    el_queue_return_slot(queue, 200);
    el_queue_return_slot(queue, 64);
    el_queue_return_slot(queue, 63);
    el_queue_return_slot(queue, 299);
    ck_assert_uint_eq(take(), 63);
    ck_assert_uint_eq(take(), 64);
    el_queue_return_slot(queue, 0);
    ck_assert_uint_eq(take(), 0);
    ck_assert_uint_eq(take(), 200);
    ck_assert_uint_eq(take(), 299);
    ck_assert_uint_eq(take(), 300);
}
END_TEST

/* One place at a time uses one name for ever. */
START_TEST(reuse)
{
    for (int i = 0; i < 1000; i++) {
        ck_assert_uint_eq(take(), 0);
        el_queue_return_slot(queue, 0);
    }
}
END_TEST

/* Any mix of taking and giving back agrees with an array of flags. */
START_TEST(agrees_with_model)
{
    enum { SLOTS = 1000 };
    static bool in_use[SLOTS];
    uint64_t seed = 1;
    for (int step = 0; step < 30000; step++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unsigned drawn = (unsigned)(seed >> 33) % SLOTS;
        if (in_use[drawn]) {
            el_queue_return_slot(queue, drawn);
            in_use[drawn] = false;
        } else {
            unsigned lowest = 0;
            while (in_use[lowest])
                lowest++;
            ck_assert_uint_eq(take(), lowest);
            in_use[lowest] = true;
        }
    }
}
END_TEST

/* All numbers below the limit are given out, then EAGAIN until one comes back. */
START_TEST(limit)
{
    unsigned slot = 77;
    for (unsigned i = 0; i < EL_SLOTS_MAX; i++) {
        if (take() != i) ck_abort_msg("not the lowest");
    }
    ck_assert_int_eq(el_queue_take_slot(queue, &slot), EAGAIN);
    ck_assert_int_eq(el_queue_take_slot(queue, &slot), EAGAIN);
    ck_assert_uint_eq(slot, 77);
    el_queue_return_slot(queue, 40000);
    ck_assert_uint_eq(take(), 40000);
    ck_assert_int_eq(el_queue_take_slot(queue, &slot), EAGAIN);
    el_queue_return_slot(queue, EL_SLOTS_MAX - 1);
    ck_assert_uint_eq(take(), EL_SLOTS_MAX - 1);
}
END_TEST

/* Whichever allocation of a new queue fails, there is none, and the session is not held. */
START_TEST(no_memory_for_queue)
{
    el_queue_unref(queue);
    el_map_clear(&session.queues);
    queue = NULL;
    for (long n = 0; !queue; n++) {
        el_alloc_fail_after(n);
        queue = el_queue_get(&session, "OTHER");
        el_alloc_fail_after(-1);
        ck_assert_int_le(n, 2);
        if (queue) break;
        ck_assert_uint_eq(session.references, 1);
        ck_assert_uint_eq(session.queues.n_members, 0);
        ck_assert_int_eq(el_alloc_alive(), alive);
    }
    ck_assert_uint_eq(session.references, 2);
}
END_TEST

/* Without memory for more numbers those in use stay as they are, and there is a next time. */
START_TEST(no_memory_for_slots)
{
    unsigned slot = 77;
    unsigned n_taken = 0;
    for (long n = 0; n < 8; n++) {
        el_alloc_fail_after(n);
        int error = 0;
        for (;;) {
            error = el_queue_take_slot(queue, &slot);
            if (error) break;
            ck_assert_uint_eq(slot, n_taken);
            n_taken++;
        }
        ck_assert_int_eq(error, ENOMEM);
        ck_assert_uint_eq(n_taken, 64 * queue->n_words);
        if (n_taken > 0) {
            el_queue_return_slot(queue, n_taken / 2);
            ck_assert_uint_eq(take(), n_taken / 2);
        }
        el_alloc_fail_after(-1);
        if (n_taken > EL_SLOTS_MAX / 8) break;
    }
    ck_assert_uint_eq(take(), n_taken);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue");
    TCase *tests = tcase_create("queue");
    tcase_set_timeout(tests, 60); /* for valgrind */
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, bounds);
    tcase_add_test(tests, one_per_name);
    tcase_add_test(tests, lowest_first);
    tcase_add_test(tests, reuse);
    tcase_add_test(tests, agrees_with_model);
    tcase_add_test(tests, limit);
    tcase_add_test(tests, no_memory_for_queue);
    tcase_add_test(tests, no_memory_for_slots);
    suite_add_tcase(suite, tests);
    return runner_run(suite);
}
