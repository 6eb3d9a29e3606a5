/* The scene of a proof about a file behind the file guard: a late holder and the next one, with a file of
 * their own; number 0 with the guard, number 1 without. */
#ifndef TEST_FILE_SCENE_H
#define TEST_FILE_SCENE_H

#include "support/program.h"

enum { SCENES = 2, TEXT_ROOM = 256 };

typedef struct scene {
    const char *guard; /* "--no-guard" or NULL */
    const char *prefix;
    char path[TEXT_ROOM];
    program late;
    program next;
} scene;

void open_scene(scene *s, int number);
/* Removes the file and the guard's, which must be there. */
void close_scene(const scene *s);

#endif
