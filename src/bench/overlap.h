/*
 * overlap.h - the measuring loop of collectives beside compute
 *
 * An iteration is that of data-parallel training: as many times as there are
 * layers a matrix product, each followed by a collective on the other stream,
 * and one join at the end.  So the collective of one layer runs beside the
 * products of the next ones.  In a round every arm runs once, and the products
 * are chosen, by measuring, so that one takes about a given part of what NCCL's
 * own choice takes for one collective, each alone.
 */
#ifndef STP_OVERLAP_H
#define STP_OVERLAP_H

#include "bench/arm.h"
#include "bench/device.h"
#include "bench/measurement.h"
#include "bench/sizes.h"
#include "bench/sweep.h"

#ifdef __cplusplus
extern "C" {
#endif

struct stp_overlap_plan {
    int coll;                      /* ncclFunc_t */
    const struct stp_sizes *sizes; /* of a collective */
    const double *ratios; /* of a product's time to a collective's, > 0 */
    size_t n_ratios;
    const struct stp_arms *arms; /* AUTO is the first */
    unsigned layers;             /* >= 1 */
    unsigned rounds;             /* >= 1 */
    unsigned warmup;             /* iterations before the timed ones */
    unsigned iters;              /* timed iterations an arm and round, >= 1 */
    int type;    /* enum stp_type, of products and collectives */
    int op;      /* enum stp_op */
    bool rotate; /* begin each round with another arm */
};

/* One size with one product. */
struct stp_overlap_setting {
    struct stp_collective what;
    struct stp_gemm gemm;
    unsigned layers;
    double compute_us; /* of a product, nothing beside it */
    double comm_us;    /* of a collective as NCCL chooses, nothing beside it */
};

/* One arm in one round of a setting. */
struct stp_overlap_row {
    struct stp_overlap_setting setting;
    unsigned round; /* from 0 */
    struct stp_arm arm;
    unsigned iters;
    struct stp_summary us; /* of iterations, the slowest rank counting */
};

struct stp_overlap_data {
    struct stp_overlap_row *rows;
    size_t n_rows;
    size_t capacity;
};

/*
 * Measures '*plan' and appends to '*data', a row an arm and round.  A forced
 * arm that NCCL rules out is left out, and so is a setting with the product of
 * one before it: collectives can be so short that no product is short enough.
 * 'progress' is called after every setting, of which there are as many as sizes
 * times ratios; NULL for nobody.
 *
 * On failure, or if the progress function stopped it (STP_ERR_STOPPED), *data
 * holds all settings that were complete.
 */
enum stp_status stp_overlap_run(const struct stp_device *device,
                                const struct stp_overlap_plan *plan,
                                stp_sweep_progress progress, void *user,
                                struct stp_overlap_data *data,
                                struct stp_error *err);

void stp_overlap_free(struct stp_overlap_data *data);

#ifdef __cplusplus
}
#endif
#endif /* STP_OVERLAP_H */
