/* sweep.h - the measuring loop: every collective, size and arm, in rounds
 *
 * Within a round every arm runs once at one size, so that each has an AUTO of
 * its own round to be compared with: clocks and power drift by more than most
 * gains.
 *
 * One turn of an arm: 'warmup' collectives, all ranks meet, 'iters' collectives
 * back to back.  Their mean is by the host's clock, as nccl-tests has it;
 * median and percentiles are of single collectives, by an event behind each.
 * Where such events would be more than a hundredth of a collective, they get a
 * run of their own after three without, which the mean is of; and the
 * percentiles are moved by what the events cost, the difference of the medians.
 */
#pragma once

#include "bench/measurement.h"
#include "bench/rounds.h"
#include "bench/sizes.h"
#include "device/arm.h"
#include "device/device.h"

/* Where a collective's output goes; bits. */
enum {
    STP_OUT_OF_PLACE = 1,
    STP_IN_PLACE = 2,
};

struct stp_sweep_plan {
    const int *colls; /* ncclFunc_t */
    size_t n_colls;
    const struct stp_sizes *sizes; /* one list a collective */
    const struct stp_arms *arms;   /* AUTO is the first */
    unsigned rounds;               /* >= 1 */
    struct stp_rounds_terms terms; /* all 0: every arm has all rounds */
    unsigned warmup;               /* collectives before the timed ones */
    unsigned iters;       /* timed collectives an arm and round, >= 1 */
    int type;             /* enum stp_type */
    int op;               /* enum stp_op */
    unsigned root;        /* rank */
    unsigned auto_places; /* of AUTO, STP_OUT_OF_PLACE and so on; not 0 */
    unsigned arm_places;  /* of the other arms; of those in auto_places */
    unsigned graph;       /* launches of a CUDA graph of the iterations, for a
                             device opened with graphs; else 0 */
    double turn_us; /* 'iters' are as many as fit into this time, but at least 4
                       that take no more than 0.4 s, or one; 0: no limit */
    unsigned check; /* so many iterations of every arm at every size, every
                       element of them, in the first round; and if any, more
                       whose bits are compared with AUTO's: sums of its type
                       and of floats of 16, 32 and 64 bits, as tuners are not
                       told of types, of data that show the order of a sum */
    uint64_t bits_max; /* ... of messages of up to so many bytes */
    bool spread;       /* a round of each size before the next one of any: what
                          disturbs the machine for seconds is in few of a size */
    bool rotate;       /* begin each round with another arm: machines drift */
    bool wake;         /* run some tenths of a second first, on a live GPU: its
                          clocks are low when it had nothing to do, and the first
                          rounds would be slower than the later ones */
    uint64_t seed;     /* of the data that is checked */
};

/* Called after every size with what is done and what there is; NULL for
 * nobody.  Returning false stops the sweep. */
typedef bool (*stp_sweep_progress)(void *user, size_t done, size_t total);

/*
 * Measures '*plan' and appends to '*data', a row an arm, place and round.  A
 * forced arm that did not run as itself, because NCCL rules it out for that
 * collective or size, is left out.
 *
 * On failure, or if the progress function stopped it (STP_ERR_STOPPED), *data
 * holds all sizes that were complete; with 'spread' the rounds of all sizes.
 */
enum stp_status stp_sweep_run(const struct stp_device *device,
                              const struct stp_sweep_plan *plan,
                              stp_sweep_progress progress, void *user,
                              struct stp_dataset *data, struct stp_error *err);

/* Sets where the data are from. */
void stp_name_data(const struct stp_device_info *info,
                   struct stp_dataset *data);
