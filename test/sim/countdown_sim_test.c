/* The n-th allocation and the n-th call fail, over every n of a story in which two clients lock one mutex and
 * write under it. */
#include <check.h>
#include <stdio.h>

#include "core/alloc.h"
#include "core/outcome.h"
#include "support/pair.h"
#include "support/runner.h"

typedef struct starved {
    long n;
    unsigned flags;
} starved;

static void fail_allocation(pair *p, void *context)
{
    const starved *s = context;
    p->flags = s->flags;
    el_alloc_fail_after(s->n);
}

static const unsigned kinds[] = {0, ETCDLOCK_ROBUST};

/* Whichever allocation is the first to fail, and all after it until the holder has left: nobody crashes,
 * hangs, leaks or leaves a key behind. */
START_TEST(any_allocation_may_fail)
{
    pair p;
    ck_assert_ptr_null(pair_tell(&p, NULL, NULL));
    el_alloc_fail_after(1000000);
    ck_assert_ptr_null(pair_tell(&p, NULL, NULL));
    long most = 0;
    for (long n = 0; n < 2000; n++) {
        starved s = {.n = n, .flags = kinds[_i]};
        const char *wrong = pair_tell(&p, fail_allocation, &s);
        ck_assert_msg(!wrong, "allocation %ld fails: %s", n, wrong);
        if (p.sides[0].error == 0 && p.sides[1].error == 0) most++;
    }
    ck_assert_int_gt(most, 1000); /* in the end n was beyond the story */
}
END_TEST

typedef struct spoiled_call {
    int side;
    long n;
    el_code code;
    bool was_served;
    unsigned flags;
} spoiled_call;

static void spoil(pair *p, void *context)
{
    const spoiled_call *c = context;
    p->flags = c->flags;
    sim_fail_call_after(p->sides[c->side].transport, c->n, c->code, c->was_served);
}

/* Whichever call fails, with any code, carried out or not: the story ends well or with an error, nobody
 * hangs, both never hold at once, and nothing is left behind. */
START_TEST(any_call_may_fail)
{
    static const el_code codes[] = {
        EL_CANCELLED,   EL_UNKNOWN,           EL_INVALID_ARGUMENT,   EL_DEADLINE_EXCEEDED,
        EL_NOT_FOUND,   EL_PERMISSION_DENIED, EL_RESOURCE_EXHAUSTED, EL_FAILED_PRECONDITION,
        EL_ABORTED,     EL_OUT_OF_RANGE,      EL_UNIMPLEMENTED,      EL_INTERNAL,
        EL_UNAVAILABLE, EL_DATA_LOSS,         EL_UNAUTHENTICATED};
    pair p;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        el_status status = {.code = codes[i], .message = ""};
        bool may_be_served =
            el_outcome_of(&status).outcome == EL_OUTCOME_MAYBE; /* the others come before the deed */
        for (int variant = 0; variant < 4; variant++) {
            if (variant % 2 && !may_be_served) continue;
            for (long n = 0; n < 20; n++) {
                spoiled_call c = {.side = variant / 2,
                                  .n = n,
                                  .code = codes[i],
                                  .was_served = variant % 2,
                                  .flags = kinds[_i]};
                const char *wrong = pair_tell(&p, spoil, &c);
                ck_assert_msg(!wrong, "call %ld of client %d ends with code %d, %s: %s", n, c.side,
                              (int)c.code, c.was_served ? "carried out" : "not carried out", wrong);
            }
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("countdown_sim");
    TCase *all = tcase_create("countdown");
    tcase_set_timeout(all, 0);
    tcase_add_loop_test(all, any_allocation_may_fail, 0, 2);
    tcase_add_loop_test(all, any_call_may_fail, 0, 2);
    suite_add_tcase(suite, all);
    return runner_run(suite);
}
