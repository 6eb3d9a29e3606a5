/* What each figure should reach. The goals are for one member on tmpfs and two cores; elsewhere the figures
 * are for looking at. */
#ifndef BENCH_GOAL_H
#define BENCH_GOAL_H

typedef enum goal_verdict {
    GOAL_NONE, /* there is no goal for it */
    GOAL_MET,
    GOAL_MISSED,
} goal_verdict;

enum { GOAL_ROOM = 32 };

/* ratio: how many times better ours is. text says what was wanted, "" if nothing was. */
goal_verdict goal_judge(char text[GOAL_ROOM], const char *name, const char *measure, const char *peer,
                        double ours, double peer_value, double ratio);

#endif
