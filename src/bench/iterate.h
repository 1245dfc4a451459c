/* iterate.h - the measuring loop of training iterations
 *
 * Within a round every arm runs once, so that each is paired with the AUTO of
 * its own round.  One turn of an arm: 'warmup' iterations, all ranks meet,
 * 'iters' iterations with an event behind each, and then the collectives alone.
 * A round also times the compute alone.
 *
 * Before the rounds of a setting the product is chosen, by measuring, so that a
 * layer's compute takes about 'ratio' times what its collectives take as NCCL
 * chooses, each alone. */
#pragma once

#include "bench/measurement.h"
#include "bench/rounds.h"
#include "bench/sizes.h"
#include "bench/sweep.h"
#include "bench/traced_step.h"
#include "bench/workload.h"

/* Settings are all modes with all sizes and all products: the one given, those
 * that the device knows with each size, or one for each ratio. */
struct stp_iterate_plan {
    struct stp_traced_step *step; /* the one setting, of which GEMMs that are
                                     given by their time are then chosen; NULL:
                                     settings are those of the members below */
    const int *modes;             /* enum stp_mode, neither ALONE nor TRACE */
    size_t n_modes;
    const struct stp_sizes *sizes; /* bytes of a collective; rounded up to what
                                      the ranks can share evenly */
    const double *ratios;          /* > 0 */
    size_t n_ratios;
    const struct stp_gemm *gemm;   /* of a layer, of 'type'; NULL: several */
    bool known;                    /* those of stp_device_overlaps() */
    int compute;                   /* enum stp_compute */
    int coll;                      /* ncclFunc_t, of sequential and overlap */
    const struct stp_arms *arms;   /* AUTO is the first */
    unsigned layers[STP_N_MODES];  /* of each mode, >= 1 */
    unsigned rounds;               /* >= 1 */
    struct stp_rounds_terms terms; /* all 0: every arm has all rounds */
    unsigned warmup;               /* iterations before the timed ones, at most
                                      a quarter of 'turn_us' but one */
    unsigned iters;                /* timed iterations an arm and round, >= 1 */
    double turn_us; /* 'iters' are as many as fit into this time, but at least
                       STP_ITERATE_MIN; 0: no limit */
    unsigned graph; /* launches of a CUDA graph of the iterations, for a device
                       opened with graphs; else 0 */
    bool captures;  /* each arm has two turns in a round, the second captured
                       in a CUDA graph, on a device that captures */
    int type;       /* enum stp_type, of products and collectives */
    int op;         /* enum stp_op */
    bool in_place;  /* collectives, but for those of fsdp: there the parts that
                       ranks hold are other buffers */
    bool alone;     /* also time each arm's collectives alone */
    bool rotate;    /* begin each round with another arm: machines drift */
};

enum { STP_ITERATE_MIN = 3 };

/* Measured iterations: rows of times, 'iters' samples a row. */
struct stp_iterations {
    struct stp_dataset data; /* a row an arm and round, by settings */
    double *sample_us; /* of all rows, one after the other, as they came */
    size_t n_samples;
};

/*
 * Measures '*plan' and appends to '*out'.  A forced arm that NCCL rules out for
 * all collectives of a workload is left out, and so is a setting with the
 * product of one before it: collectives can be so short that no product is
 * short enough.  In fsdp a row's collective is the all-gather; its arm is that
 * of the reduce-scatters, too, and what ran is that of the first of them that
 * ran otherwise than NCCL chooses by itself.  So it is of a job's step, whose
 * row has the collective of the most bytes.
 *
 * 'progress' is called after every turn, of which there are as many as settings
 * times rounds times arms, or twice as many where all are captured, too: a
 * round is complete where 'done' is a multiple of them, and until then *out
 * holds a part of it.  NULL for nobody.  On failure, or if it stopped this
 * (STP_ERR_STOPPED), *out holds all rounds that were complete.
 */
enum stp_status stp_iterate_run(const struct stp_device *device,
                                const struct stp_iterate_plan *plan,
                                stp_sweep_progress progress, void *user,
                                struct stp_iterations *out,
                                struct stp_error *err);

/* How many settings the plan has on this device. */
size_t stp_iterate_settings(const struct stp_device *device,
                            const struct stp_iterate_plan *plan);

void stp_iterations_free(struct stp_iterations *iterations);
