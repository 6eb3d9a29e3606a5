#include "fence/crash.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fence/crash_scene.h"

enum {
    KILLS_PER_STORE = 100,
    KILLS_PER_RESOURCE = 3,
    DISK_EVERY = 4,            /* every so many stores one is for the disk */
    LONGEST_LIFE_NS = 3000000, /* between two kills */
};

typedef struct driver {
    const crash_plan *plan;
    crash_report *report;
    crash_scene *scene;
    pid_t pids[CRASH_WRITERS];
    uint64_t numbers; /* given to writers so far */
    uint64_t seed;
} driver;

static unsigned draw(driver *d, unsigned below)
{
    d->seed = d->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(d->seed >> 33) % below;
}

static void start_writer(driver *d, unsigned place)
{
    uint64_t number = ++d->numbers;
    uint64_t seed = d->plan->seed ^ (number * 0x9e3779b97f4a7c15u);
    pid_t parent = getpid();
    d->pids[place] = fork();
    if (d->pids[place] < 0) crash_break(d->scene, "fork: error %d", errno);
    if (d->pids[place] != 0) return;
    /* The watch of a test runner kills the driver alone. */
    alarm(600);
    if (getppid() != parent) _exit(1);
    crash_write(d->scene, place, number, seed);
}

static void kill_writer(driver *d, unsigned place)
{
    if (d->pids[place] <= 0) return;
    int status;
    kill(d->pids[place], SIGKILL);
    while (waitpid(d->pids[place], &status, 0) < 0 && errno == EINTR) {
    }
    d->pids[place] = 0;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        crash_break(d->scene, "a writer ended by itself, with status 0x%x", (unsigned)status);
    d->report->kills++;
    d->report->in_call += atomic_exchange(&d->scene->writers[place].in_call, false);
}

static void set_scene(driver *d)
{
    crash_scene *scene = d->scene;
    memset(scene->resources, 0, sizeof(scene->resources));
    for (int i = 0; i < CRASH_RESOURCES; i++)
        snprintf(scene->resources[i].name, CRASH_NAME_ROOM, "r%d-%0*d", i, i * 29 + 1, 0);
    snprintf(scene->path, sizeof(scene->path), "%.300s/store-%u", d->plan->folder, d->report->stores);
    scene->durability =
        d->report->stores % DISK_EVERY == DISK_EVERY - 1 ? ETCDLOCK_FENCE_DISK : ETCDLOCK_FENCE_PROCESS;
    atomic_store(&scene->in_use, 1);
    d->report->stores++;
}

/* Removes what is in the folder; counts what is neither the store nor expected. */
static void sweep(driver *d)
{
    DIR *dir = opendir(d->plan->folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        char path[700];
        if (*entry->d_name == '.') continue;
        if (strstr(entry->d_name, ".new-")) d->report->left_over++;
        snprintf(path, sizeof(path), "%.300s/%s", d->plan->folder, entry->d_name);
        unlink(path);
    }
    if (dir) closedir(dir);
}

static void judge_resource(driver *d, etcdlock_fence *fence, crash_resource *r)
{
    uint64_t admitted = atomic_load(&r->admitted), tried = atomic_load(&r->tried), highest;
    int error = etcdlock_fence_highest(fence, r->name, &highest);
    if (error)
        crash_break(d->scene, "resource %.8s: error %d: %.300s", r->name, error,
                    etcdlock_fence_error_message());
    else if (highest < admitted || highest > tried)
        crash_break(d->scene, "resource %.8s: %llu is remembered, %llu was admitted and %llu tried", r->name,
                    (unsigned long long)highest, (unsigned long long)admitted, (unsigned long long)tried);
}

/* When all writers of a store are dead: what does it remember? */
static void judge_store(driver *d)
{
    crash_scene *scene = d->scene;
    etcdlock_fence *fence;
    struct stat status;
    int error = etcdlock_fence_open_file(&fence, scene->path, NULL);
    if (error) {
        crash_break(scene, "open at the end: error %d: %.300s", error, etcdlock_fence_error_message());
        return;
    }
    for (int i = 0; i < CRASH_RESOURCES; i++)
        judge_resource(d, fence, &scene->resources[i]);
    if (stat(scene->path, &status) == 0 && (uint64_t)status.st_size > d->report->largest)
        d->report->largest = (uint64_t)status.st_size;
    (void)etcdlock_fence_close(fence);
}

static void use_store(driver *d, unsigned kills)
{
    set_scene(d);
    for (unsigned i = 0; i < CRASH_WRITERS; i++)
        start_writer(d, i);
    for (unsigned n = 1; n + CRASH_WRITERS <= kills && !atomic_load(&d->scene->is_broken); n++) {
        struct timespec life = {0, (long)draw(d, LONGEST_LIFE_NS)};
        nanosleep(&life, NULL);
        unsigned in_use = 1 + n / KILLS_PER_RESOURCE;
        atomic_store(&d->scene->in_use, in_use < CRASH_RESOURCES ? in_use : CRASH_RESOURCES);
        unsigned place = draw(d, CRASH_WRITERS);
        kill_writer(d, place);
        start_writer(d, place);
    }
    for (unsigned i = 0; i < CRASH_WRITERS; i++)
        kill_writer(d, i);
    judge_store(d);
    sweep(d);
}

bool crash_run(const crash_plan *plan, crash_report *report)
{
    memset(report, 0, sizeof(*report));
    crash_scene *scene =
        mmap(NULL, sizeof(*scene), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (scene == MAP_FAILED) {
        snprintf(report->broken, sizeof(report->broken), "mmap: error %d", errno);
        return false;
    }
    driver d = {.plan = plan, .report = report, .scene = scene, .seed = plan->seed * 2654435761u + 1};
    while (report->kills < plan->kills && !atomic_load(&scene->is_broken)) {
        unsigned left = plan->kills - report->kills;
        use_store(&d, left < KILLS_PER_STORE ? left : KILLS_PER_STORE);
    }
    for (int i = 0; i < CRASH_WRITERS; i++) {
        report->admitted += atomic_load(&scene->writers[i].admitted);
        report->refused += atomic_load(&scene->writers[i].refused);
        report->kept += atomic_load(&scene->writers[i].kept);
    }
    memcpy(report->broken, scene->broken, sizeof(report->broken));
    bool kept = !atomic_load(&scene->is_broken);
    munmap(scene, sizeof(*scene));
    return kept;
}
