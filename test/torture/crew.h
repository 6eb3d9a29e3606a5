/* The client processes of a torture run, each in a slot: killed, stopped and replaced there; some reach etcd
 * through proxies of their own. */
#ifndef TORTURE_CREW_H
#define TORTURE_CREW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "support/proxy.h"
#include "torture/tale.h"

/* The slots from this one on have proxies. */
enum { FIRST_WITH_PROXIES = CLIENTS / 2 };

typedef struct crew_slot {
    pid_t pid; /* 0: none now */
    int ttl_s;
    bool is_stopped;
    bool has_ended_well; /* after crew_end */
    proxy proxies[MEMBERS];
} crew_slot;

typedef struct crew {
    crew_slot slots[CLIENTS];
    const char *folder;
    const char *program;
    const char *endpoints; /* of all members */
    int threads;
    uint64_t seed;
    int started;
    int crashed;     /* ended though nobody told them to */
    char crash[200]; /* the last of these */
} crew;

/* Starts the proxies and all clients. members: "host:port" of each. */
void crew_start(crew *f, char *const members[MEMBERS]);
void crew_start_client(crew *f, int slot);
/* SIGKILL, and waits for its end. */
void crew_kill_client(crew *f, int slot);
void crew_stop_client(crew *f, int slot);
void crew_continue_client(crew *f, int slot);
/* Notices those who have ended by themselves. */
void crew_look(crew *f);
/* Asks all to finish and waits; returns how many had not ended after the time: these are killed. */
int crew_end(crew *f, int64_t patience_ms);
void crew_stop_proxies(crew *f);
/* Resident kilobytes of the client in a slot now; 0: none there. */
int64_t crew_rss_kb(const crew *f, int slot);

#endif
