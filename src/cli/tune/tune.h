/*
 * tune.h - the parts of `steptune tune`
 *
 * A pass is one number of ranks.  Each is swept and iterated; then both
 * policies are derived of all passes, and verified in each.
 */
#ifndef STP_CLI_TUNE_H
#define STP_CLI_TUNE_H

#include "analyse/derive.h"
#include "analyse/steadiness.h"
#include "bench/iterate.h"
#include "cli/cli.h"
#include "cli/iterate/iterate.h"

struct stp_tune_options {
    struct stp_machine_options machine;
    struct stp_measure_options measure;
    struct stp_derive_options derive;
    const char *output;
    unsigned ranks[STP_MAX_PASSES]; /* of each pass, ascending */
    size_t n_passes;                /* 0: one, of all ranks */
    double resolution;              /* factor between sizes; > 1 */
    bool no_iterate;
    bool fresh; /* not where an interrupted run left off */
};

extern const struct argp stp_tune_argp;

enum stp_tune_stage {
    STP_TUNE_SWEEP,
    STP_TUNE_REFINE,
    STP_TUNE_ITERATE,
    STP_TUNE_VERIFY,
    STP_TUNE_N_STAGES,
};

/* A policy, what it rests on and what came of it. */
struct stp_tune_policy {
    char path[STP_CLI_PATH];
    char trial_path[STP_CLI_PATH]; /* until it is verified */
    char verify_path[STP_CLI_PATH];
    bool exists; /* it was derived */
    struct stp_dataset data;
    struct stp_comparisons comparisons; /* of 'data'; iterations: pooled */
    struct stp_steadiness steadiness;
    struct stp_derived derived;
    size_t n_dropped; /* rules that lost when verified */
    struct stp_dataset tried;
    struct stp_comparisons verdicts; /* of 'tried' */
};

/* One run of tune. */
struct stp_tune {
    const struct stp_tune_options *o;
    const char *command;
    struct stp_device_info info;    /* of the last pass: the most ranks */
    struct stp_cli_plan plan;       /* of the pass, of which sizes are made */
    struct stp_tune_policy alone;   /* data: all that was swept */
    struct stp_tune_policy overlap; /* data: what iterations say of pairs */
    struct stp_iterations iterated;
    struct stp_error err;
    char report_path[STP_CLI_PATH];
    char page_path[STP_CLI_PATH];
    char sweep_path[STP_CLI_PATH];
    char iterations_path[STP_CLI_PATH];
    char state_path[STP_CLI_PATH]; /* there while a run is not finished */
    char why_not[STP_ERROR_TEXT]; /* there are no iterations; "" if there are */
    int64_t saved_ms;             /* measurements, last */
    char *plan_text;              /* of the state; made by stp_tune_resume() */
    bool is_begun;                /* a run's state is there */
    int64_t stage_ms[STP_TUNE_N_STAGES]; /* spent */
};

/* ---- tune.c ---- */

/* How many passes there are. */
size_t stp_tune_passes(const struct stp_tune *t);

/* Opens the device of a pass, with a plugin or NULL.  Status as stp_open(). */
enum stp_status stp_tune_open(struct stp_tune *t, size_t pass,
                              const char *plugin,
                              struct stp_device *device_ret);

/* Says where the stage is, on a terminal.  STP_ERR_STOPPED after Ctrl-C. */
enum stp_status stp_tune_progress(struct stp_tune *t, enum stp_tune_stage stage,
                                  size_t done, size_t total);

/* Adds the time since '*since_ms' to a stage, and sets it to now. */
void stp_tune_clock(struct stp_tune *t, enum stp_tune_stage stage,
                    int64_t *since_ms);

/* ---- tune_sweep.c ---- */

/* Measures collectives alone: a grid, then where decisions change, then more
 * rounds of what decides.  Keeps what there is after every size. */
enum stp_status stp_tune_sweep(struct stp_tune *t,
                               const struct stp_device *device);

/* Derives and writes the policy of all that was swept. */
enum stp_status stp_tune_derive_alone(struct stp_tune *t);

/* ---- tune_iterate.c ---- */

/* A mode of iterations and its bytes; ratios are the same of all. */
struct stp_tune_setting {
    int mode;
    uint64_t n_bytes;
};

enum { STP_TUNE_RATIOS = 3, STP_TUNE_MAX_SETTINGS = 64 };
extern const double stp_tune_ratios[STP_TUNE_RATIOS];

/* The collectives of a mode that the sweep has on so many ranks, with the range
 * of their sizes; false if some are missing. */
bool stp_tune_has_mode(const struct stp_tune *t, int mode, unsigned n_ranks,
                       uint64_t *begin_ret, uint64_t *end_ret);

/* Measures iterations; none where the device cannot, of which it says why. */
enum stp_status stp_tune_iterate(struct stp_tune *t,
                                 const struct stp_device *device);

/* Runs one setting, of one ratio, with these arms, and appends to *out. */
enum stp_status stp_tune_run_setting(struct stp_tune *t,
                                     const struct stp_device *device,
                                     const struct stp_tune_setting *setting,
                                     double ratio, const struct stp_arms *arms,
                                     struct stp_iterations *out);

/* Derives and writes the policy for iterations, without rules if nothing says
 * that any is worth it. */
enum stp_status stp_tune_derive_overlap(struct stp_tune *t);

/* ---- tune_verify.c ---- */

/* Writes the policy under the name that it is verified by. */
enum stp_status stp_tune_save_policy(struct stp_tune *t,
                                     struct stp_tune_policy *policy);

/* Both policies against AUTO, through the real plugin, until no rule is left
 * that is slower anywhere. */
enum stp_status stp_tune_verify(struct stp_tune *t);

/* ---- tune_state.c ---- */

/*
 * Where an interrupted run with the same options left off, takes over what it
 * had measured, and says so; else says why not.  Status not STP_OK if its files
 * cannot be read.
 */
enum stp_status stp_tune_resume(struct stp_tune *t);

/* Saves what was swept, and iterated if that has begun, for a run that
 * continues this; not more often than a few times a second unless 'now'. */
enum stp_status stp_tune_keep(struct stp_tune *t, bool now);

/* The run is complete: the next begins anew. */
void stp_tune_finish(struct stp_tune *t);

/* ---- tune_report.c ---- */

/* Writes the report and proof, and prints the summary. */
enum stp_status stp_tune_report(struct stp_tune *t);

#endif /* STP_CLI_TUNE_H */
