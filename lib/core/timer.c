#include "core/timer.h"

#include <stddef.h>

static bool comes_first(const el_timer *a, const el_timer *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static el_timer *meld(el_timer *a, el_timer *b)
{
    if (!a) return b;
    if (!b) return a;
    if (comes_first(b, a)) {
        el_timer *swap = a;
        a = b;
        b = swap;
    }
    b->previous = a;
    b->sibling = a->child;
    if (a->child) a->child->previous = b;
    a->child = b;
    return a;
}

/* Two passes without recursion: pairs from left to right, then the pairs from right to left. */
static el_timer *meld_children(el_timer *first)
{
    el_timer *pairs = NULL;
    while (first) {
        el_timer *second = first->sibling;
        el_timer *rest = second ? second->sibling : NULL;
        first->sibling = first->previous = NULL;
        if (second) second->sibling = second->previous = NULL;
        el_timer *pair = meld(first, second);
        pair->sibling = pairs;
        pairs = pair;
        first = rest;
    }
    el_timer *root = NULL;
    while (pairs) {
        el_timer *rest = pairs->sibling;
        pairs->sibling = NULL;
        root = meld(root, pairs);
        pairs = rest;
    }
    return root;
}

void el_timers_clear(el_timers *timers, el_timer *timer)
{
    if (!el_timer_is_set(timer)) return;
    el_timer *orphans = meld_children(timer->child);
    if (timer == timers->root) {
        timers->root = orphans;
    } else {
        if (timer->previous->child == timer) {
            timer->previous->child = timer->sibling;
        } else {
            timer->previous->sibling = timer->sibling;
        }
        if (timer->sibling) timer->sibling->previous = timer->previous;
        timers->root = meld(timers->root, orphans);
    }
    timer->child = timer->sibling = timer->previous = NULL;
    timer->order = 0;
}

void el_timers_set(el_timers *timers, el_timer *timer, int64_t due_ns)
{
    el_timers_clear(timers, timer);
    timer->due_ns = due_ns;
    timer->order = ++timers->last_order;
    timers->root = meld(timers->root, timer);
}

int64_t el_timers_next_ns(const el_timers *timers)
{
    return timers->root ? timers->root->due_ns : INT64_MAX;
}

el_timer *el_timers_take_due(el_timers *timers, int64_t now_ns)
{
    el_timer *first = timers->root;
    if (!first || first->due_ns > now_ns) return NULL;
    el_timers_clear(timers, first);
    return first;
}
