/* A disk under a fence file: what has reached it, what is still on its way, and what a power cut leaves of
 * that. Writes go to the real file as well, which is what the system's cache would show to everybody. */
#ifndef TEST_FENCE_DISK_MODEL_H
#define TEST_FENCE_DISK_MODEL_H

#include <stdint.h>

/* From now on the writes and syncs of libetcdlock-fence go through the model; what the file of that name has
 * now is on the disk. */
void disk_model_start(const char *name, uint64_t seed);
/* The system's own calls again. */
void disk_model_stop(void);

/* After so many bytes more, the process is as good as dead: its writes are cut off there and all later ones,
 * and syncs, fail. Negative: it lives. */
void disk_model_die_after(long bytes);
/* The nth sync from now fails (1: the next one; 0: none does): some of what was on its way is lost, though
 * the cache goes on to show it and does not take it for unwritten any more. */
void disk_model_fail_sync(unsigned nth);

/* Makes the file what a power cut leaves: all that was synced; of the rest, of each sector nothing or all or,
 * for one, a beginning. Nobody may have the file open. */
void disk_model_cut_power(void);

/* A number below `below`, from the seed. */
unsigned disk_model_draw(unsigned below);

unsigned disk_model_syncs(void);

#endif
