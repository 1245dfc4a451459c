/*
 * sweep.h - the measuring loop: every collective, size and arm, in rounds
 *
 * Within a round every arm runs once at one size, AUTO first, so that each has
 * an AUTO of its own round to be compared with: clocks and power drift by more
 * than most gains.
 */
#ifndef STP_SWEEP_H
#define STP_SWEEP_H

#include "bench/arm.h"
#include "bench/device.h"
#include "bench/measurement.h"
#include "bench/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

struct stp_sweep_plan {
    const int *colls; /* ncclFunc_t */
    size_t n_colls;
    const struct stp_sizes *sizes; /* one list a collective */
    const struct stp_arms *arms;   /* AUTO is the first */
    unsigned rounds;               /* >= 1 */
    unsigned warmup;               /* collectives before the timed ones */
    unsigned iters;        /* timed collectives an arm and round, >= 1 */
    unsigned element_size; /* bytes */
};

/* Called after every size with what is done and what there is; NULL for
 * nobody.  Returning false stops the sweep. */
typedef bool (*stp_sweep_progress)(void *user, size_t done, size_t total);

/*
 * Measures '*plan' and appends to '*data', a row an arm and round.  A forced
 * arm that did not run as itself, because NCCL rules it out for that collective
 * or size, is left out.
 *
 * On failure, or if the progress function stopped it (STP_ERR_LIMIT), *data
 * holds all sizes that were complete.
 */
enum stp_status stp_sweep_run(const struct stp_device *device,
                              const struct stp_sweep_plan *plan,
                              stp_sweep_progress progress, void *user,
                              struct stp_dataset *data, struct stp_error *err);

#ifdef __cplusplus
}
#endif
#endif /* STP_SWEEP_H */
