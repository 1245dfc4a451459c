/* plan.h - from options to plans for a device: which collectives
 * and which training iterations to time, and how often */
#pragma once

#include "bench/iterate.h"
#include "bench/sweep.h"
#include "core/dtype.h"
#include "device/device.h"

enum { STP_MAX_PASSES = 16 }; /* numbers of ranks, one after the other */

enum { STP_MAX_SETTING_SIZES = 64, STP_MAX_SETTING_RATIOS = 32, STP_SIDES = 3 };

/* ---- collectives ---- */

struct stp_measure_options {
    int colls[NCCL_NUM_TUNED_FUNCS];
    unsigned n_colls;                      /* 0: not given */
    uint64_t bytes[STP_MAX_SETTING_SIZES]; /* instead of the next four */
    unsigned n_bytes;                      /* 0: not given */
    uint64_t begin; /* with 'end', 'factor' and 'step'; 0: not given */
    uint64_t end;
    bool has_end; /* it is measured, also where the steps miss it */
    double factor;
    uint64_t step;   /* bytes from size to size */
    unsigned rounds; /* 0: not given */
    unsigned iters;  /* 0: not given */
    unsigned warmup;
    int types[STP_N_TYPES]; /* enum stp_type */
    unsigned n_types;       /* 0: not given, the device's own */
    int op;                 /* enum stp_op */
    unsigned root;
};

/* A plan and the arrays it points to. */
struct stp_measure_plan {
    struct stp_sweep_plan plan;
    struct stp_sizes sizes[NCCL_NUM_TUNED_FUNCS];
    int colls[NCCL_NUM_TUNED_FUNCS];
};

/* Facts that a device states before it is timed. */
struct stp_device_facts {
    struct stp_device_info info;
    struct stp_sizes sizes[NCCL_NUM_TUNED_FUNCS];  /* recorded; else none */
    bool modes[STP_N_MODES][NCCL_NUM_TUNED_FUNCS]; /* that it can run, measured
                                                      or recorded */
};

/* Asks the device once. */
void stp_get_device_facts(const struct stp_device *device,
                          struct stp_device_facts *known_ret);

/* Makes a plan for a device, of the first type: sizes as asked, else those that
 * it knows, else 8 bytes to 1 GiB by factors of 2.  STP_ERR_RANGE for a size of
 * a list that the device cannot run, and other options that it cannot. */
enum stp_status stp_plan_measurements(const struct stp_device_facts *known,
                                      const struct stp_measure_options *measure,
                                      const struct stp_arms *arms,
                                      struct stp_measure_plan *plan_ret,
                                      struct stp_error *err);

/* Whether any option of sizes was given. */
bool stp_measure_has_sizes(const struct stp_measure_options *measure);

/* The bytes that sizes of a collective must be multiples of on a device: one
 * element, or one of every rank where ranks get parts. */
uint64_t stp_size_grain(const struct stp_device_info *info, int coll, int type);

/* The largest message that the options ask for, or a default of 1 GiB. */
uint64_t stp_max_bytes(const struct stp_measure_options *measure);

/* ---- training iterations ---- */

/* An option that is not given is 0. */
struct stp_workload_options {
    int modes[STP_N_MODES];
    unsigned n_modes;
    uint64_t bytes[STP_MAX_SETTING_SIZES];
    unsigned n_bytes;
    double ratios[STP_MAX_SETTING_RATIOS];
    unsigned n_ratios;
    unsigned sides[STP_SIDES]; /* of the GEMM: m, n and k */
    unsigned n_sides;          /* 0: the GEMM is chosen by ratio */
    int compute;               /* enum stp_compute */
    unsigned layers;
    int out_of_place;
};

/* A plan and the arrays it points to. */
struct stp_workload_plan {
    struct stp_iterate_plan plan;
    struct stp_sizes sizes;
    struct stp_arms arms;
    struct stp_gemm gemm;
};

/* Makes a plan for the device, but for its arms: modes, sizes, ratios and
 * layers as asked, else 'scan's of many or those of one.  Types and counts that
 * are 0 or -1 in the plan get defaults for the device. */
enum stp_status stp_plan_iterations(const struct stp_device_info *info,
                                    const struct stp_workload_options *work,
                                    bool scan, struct stp_workload_plan *plan,
                                    struct stp_error *err);

/* The largest collective that the options ask for. */
uint64_t stp_workload_max_bytes(const struct stp_workload_options *work,
                                bool scan);
