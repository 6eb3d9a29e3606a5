/* A doubly linked list whose links live inside its members: nothing is allocated, removal needs no list. */
#ifndef EL_LIST_H
#define EL_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A list's head, or a member's link. A link that is in no list points to itself or is all zero. */
typedef struct el_list {
    struct el_list *next;
    struct el_list *previous;
} el_list;

/* The struct of type `type` whose field `field` is *link. */
#define EL_CONTAINER(link, type, field) ((type *)(void *)((uintptr_t)(link)-offsetof(type, field)))

static inline void el_list_init(el_list *list)
{
    list->next = list->previous = list;
}

static inline bool el_list_is_empty(const el_list *list)
{
    return !list->next || list->next == list;
}

static inline void el_list_append(el_list *list, el_list *link)
{
    link->previous = list->previous;
    link->next = list;
    list->previous->next = link;
    list->previous = link;
}

/* A link that is in no list stays so. */
static inline void el_list_remove(el_list *link)
{
    if (link->next) {
        link->next->previous = link->previous;
        link->previous->next = link->next;
    }
    el_list_init(link);
}

/* The first link, taken out; NULL if there is none. */
static inline el_list *el_list_take(el_list *list)
{
    if (el_list_is_empty(list)) return NULL;
    el_list *link = list->next;
    el_list_remove(link);
    return link;
}

/* Moves all members of `from`, which is empty afterwards, to the end of `to`. */
static inline void el_list_splice(el_list *to, el_list *from)
{
    if (el_list_is_empty(from)) return;
    from->next->previous = to->previous;
    to->previous->next = from->next;
    from->previous->next = to;
    to->previous = from->previous;
    el_list_init(from);
}

#endif
