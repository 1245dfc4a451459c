/* tune.h - the whole job: measure, derive a policy, verify it
 *
 * A pass is one number of ranks.  Each is swept and iterated; then both
 * policies are derived of all passes, and verified in each.  Measurements are
 * saved as they come, so that an interrupted run is resumed.
 *
 * The files of a run hold its name, a hash of its plan and of all its
 * measurements, and files about a policy hold the policy's hash. They replace
 * an earlier run's files once all is measured; the other files of that run are
 * removed. */
#pragma once

#include "analyse/compare.h"
#include "analyse/derive.h"
#include "analyse/steadiness.h"
#include "report/policy_file.h"
#include "report/results/tune_report.h"
#include "tune/plan.h"

enum { STP_TUNE_PATH = 4096 };

struct stp_tune_plan {
    struct stp_measure_options measure; /* of one type */
    unsigned ranks[STP_MAX_PASSES];     /* of each pass, ascending */
    unsigned n_passes;                  /* 0: one, of all ranks */
    double resolution;                  /* factor between sizes; > 1 */
    double min_gain;                    /* of a rule */
    bool portable;  /* only the columns of NVIDIA's example tuner */
    bool same_bits; /* rules keep the bits of NCCL's own choice */
    bool no_iterate;
    bool fresh;         /* an interrupted run is not resumed */
    uint64_t seed;      /* of a recorded machine; a run is resumed with it */
    double stalls;      /* share of its rounds that are disturbed; likewise */
    const char *plugin; /* our static tuner */
};

/* Files that a run writes. */
struct stp_tune_files {
    char stem[STP_TUNE_PATH]; /* of the policy's name: all begin with it */
    char policy[STP_TUNE_PATH];
    char overlap_policy[STP_TUNE_PATH];
    char memory_policy[STP_TUNE_PATH];
    char stage_policy[STP_TUNE_PATH];
    char trial[STP_TUNE_PATH]; /* the policy until it is verified */
    char overlap_trial[STP_TUNE_PATH];
    char verify[STP_TUNE_PATH];
    char overlap_verify[STP_TUNE_PATH];
    char sweep[STP_TUNE_PATH];
    char graph[STP_TUNE_PATH]; /* as the sweep, in CUDA graphs */
    char iterations[STP_TUNE_PATH];
    char state[STP_TUNE_PATH]; /* there while a run is not finished, and so are
                                  its measurements so far */
    char state_sweep[STP_TUNE_PATH];
    char state_iterations[STP_TUNE_PATH];
    char report[STP_TUNE_PATH];
    char page[STP_TUNE_PATH];
};

/* Names them after the policy; false if a path is too long. */
bool stp_tune_name_files(const char *policy, struct stp_tune_files *files_ret);

enum stp_tune_stage {
    STP_TUNE_SWEEP,
    STP_TUNE_REFINE,
    STP_TUNE_ITERATE,
    STP_TUNE_VERIFY,
    STP_TUNE_N_STAGES,
};

/* The caller's part of a run. */
struct stp_tune_host {
    /* opens a device of so many ranks (0: all) with a plugin or NULL */
    enum stp_status (*open)(void *user, unsigned n_ranks, const char *plugin,
                            struct stp_device *device_ret,
                            struct stp_error *err);
    /* Tells how far a stage is; false stops the run, in all of several
     * processes or in none. */
    bool (*progress)(void *user, enum stp_tune_stage stage, size_t done,
                     size_t total);
    /* Whether to go on, within a step of a stage. */
    bool (*goes_on)(void *user);
    /* tells the user a sentence */
    void (*tell)(void *user, const char *text);
    void *user;
};

/* A policy, its measurements and its verdicts. */
struct stp_tune_policy {
    bool exists;                     /* it was derived */
    struct stp_policy_origin origin; /* but for its measurements */
    struct stp_dataset data;
    struct stp_comparisons comparisons; /* of 'data'; iterations: pooled */
    struct stp_steadiness steadiness;
    struct stp_derived derived;
    size_t n_dropped;                /* rules that held nowhere */
    struct stp_dataset tried;        /* names the policy's hash */
    struct stp_comparisons verdicts; /* of 'tried' */
    struct stp_dataset steps; /* of a policy for collectives alone: sequential
                                 iterations with it, at sizes that its rules
                                 rest on; of the run, as 'tried' */
    struct stp_comparisons step_verdicts; /* of 'steps' */
    char hash[STP_POLICY_HASH_NAME];
};

struct stp_tune_result {
    struct stp_device_info info;    /* of the last pass: the most ranks */
    unsigned iters;                 /* of the sweep, per arm and round */
    char run[STP_RUN_NAME];         /* "" until all is measured */
    struct stp_tune_policy alone;   /* data: of the sweep */
    struct stp_tune_policy overlap; /* data: of pairs, from iterations */
    struct stp_iterations iterated;
    struct stp_dataset registered; /* AUTO, the policy and registered buffers,
                                      in turn, to verify what to register */
    struct stp_dataset overlap_registered; /* likewise, in iterations */
    struct stp_dataset captured; /* AUTO, the policy and staged buffers in
                                    CUDA graphs */
    struct stp_memory_situations registers, stages;
    struct stp_memory_rules memory; /* what to register */
    struct stp_memory_rules stage;  /* what to stage */
    struct stp_tune_unsure *unsure; /* by gain, the largest first */
    size_t n_unsure;
    size_t unsure_capacity;
    char why_not[STP_ERROR_TEXT]; /* there are no iterations; "" if there are */
    bool is_begun; /* after a failure: a run that can be resumed is there */
    int64_t stage_ms[STP_TUNE_N_STAGES]; /* spent */
};

/*
 * Runs all of it.  Several processes of one run make the same calls with the
 * same numbers and so come to the same policy; each has files of its own, since
 * its plugin reads the policy there, and starts over (plan->fresh).
 *
 * '*result' begins as zeros, and is to be freed also after a
 * failure.  No policy is there that was not verified: after a failure those of
 * an earlier run are untouched.  STP_ERR_STOPPED if the host stopped it.
 */
enum stp_status stp_tune_run(const struct stp_tune_plan *plan,
                             const struct stp_tune_host *host,
                             const struct stp_tune_files *files,
                             struct stp_tune_result *result,
                             struct stp_error *err);

void stp_tune_result_free(struct stp_tune_result *result);

/* Fills a report, which points to the result and to '*overlap_ret'. */
void stp_tune_fill_report(const struct stp_tune_files *files,
                          const struct stp_tune_result *result,
                          struct stp_tune_report *report_ret,
                          struct stp_tune_overlap *overlap_ret);

/* Measures how steady the machine was in each workload of the data. 'pooled'
 * holds differences between workloads, which are no noise. */
enum stp_status stp_tune_measure_steadiness(
    const struct stp_dataset *data, const struct stp_comparisons *pooled,
    struct stp_steadiness *steadiness_ret, struct stp_error *err);

/* Warns in 'text' if the rounds are too few, or the machine too unsteady, to
 * tell gains of 'min_gain' from none; false if all is well.  'n_recorded' is
 * 0 if a machine can have more rounds. */
bool stp_tune_warn_of_noise(const struct stp_steadiness *steadiness,
                            double min_gain, unsigned n_recorded,
                            char text[STP_ERROR_TEXT]);
