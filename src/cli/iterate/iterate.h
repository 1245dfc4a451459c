/*
 * iterate.h - the options of `steptune iterate`, some of which verify has too
 */
#ifndef STP_CLI_ITERATE_H
#define STP_CLI_ITERATE_H

#include "analyse/iterations.h"
#include "bench/iterate.h"
#include "cli/cli.h"
#include "report/charts/gnuplot.h"

enum { STP_MAX_SETTING_SIZES = 64, STP_MAX_SETTING_RATIOS = 32 };

/* What iterations do; 0 of what is not given. */
struct stp_workload_options {
    int modes[STP_N_MODES];
    size_t n_modes;
    uint64_t bytes[STP_MAX_SETTING_SIZES];
    size_t n_bytes;
    double ratios[STP_MAX_SETTING_RATIOS];
    size_t n_ratios;
    struct stp_gemm gemm; /* m is 0: by ratio; its type is the plan's */
    int compute;          /* enum stp_compute */
    unsigned layers;
    bool out_of_place;
};

/* --mode, --bytes, --ratio, --gemm, --compute, --layers, --place */
extern const struct argp stp_workload_argp;

struct stp_iterate_options {
    struct stp_machine_options machine;
    struct stp_run_options run;
    struct stp_workload_options work;
    const char *arms; /* NULL: not given */
    const char *channels;
    const char *policy; /* of the plugin arm */
    const char *plugin; /* NULL: ours, if there is a policy */
    const char *output; /* folder */
    bool force;
    bool find_regimes;
    double min_gain; /* of regimes */
    int type;        /* enum stp_type; -1: not given */
    unsigned iters;  /* 0: not given */
    unsigned warmup;
    unsigned rounds; /* 0: not given */
    enum stp_plot_format format;
    bool no_plots;
};

extern const struct argp stp_iterate_argp;

/* A plan and what it points to. */
struct stp_iterate_cli_plan {
    struct stp_iterate_plan plan;
    struct stp_sizes sizes;
    struct stp_arms arms;
    struct stp_gemm gemm;
};

/*
 * Makes a plan for the device out of options, but for its arms: modes, sizes,
 * ratios and layers as asked, else 'scan's of many or those of one.  Types and
 * counts that are 0 or -1 get defaults for the device.
 */
enum stp_status stp_plan_iterations(const struct stp_device_info *info,
                                    const struct stp_workload_options *work,
                                    bool scan,
                                    struct stp_iterate_cli_plan *plan,
                                    struct stp_error *err);

/* The largest collective that the options ask for. */
uint64_t stp_workload_max_bytes(const struct stp_workload_options *work,
                                bool scan);

#endif /* STP_CLI_ITERATE_H */
