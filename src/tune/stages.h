/* stages.h - the stages of a run of tune, each on its own input and output */
#pragma once

#include "tune/settings.h"
#include "tune/tune.h"

/* The collectives of data-parallel training, where none are asked for. */
enum { STP_N_TRAINED_COLLS = 3 };
extern const int stp_trained_colls[STP_N_TRAINED_COLLS]; /* ncclFunc_t */

/* The device on which policies are tried: making communicators takes longer
 * than most tries, so it stays open for the next one. */
struct stp_tune_trial {
    struct stp_device device; /* open but for its 'ranks' being NULL */
    unsigned n_ranks;         /* that were asked for */
};

/* The plan, the host and the files of a run. */
struct stp_tune_job {
    const struct stp_tune_plan *plan;
    const struct stp_tune_host *host;
    const struct stp_tune_files *files;
    struct stp_tune_trial *trial;
};

/* ---- state.c: files of a run that can be resumed ---- */

struct stp_tune_state {
    const struct stp_tune_job *job;
    struct stp_dataset *swept;
    struct stp_iterations *iterated;
    const char *machine; /* in words */
    char *plan_text;     /* lines that a run that resumes this one must share */
    int64_t saved_ms;
    bool is_begun; /* the files are there */
};

/* Begins a state of the two sets of measurements, which must outlive it, on a
 * machine: loads those of an interrupted run with the same plan and says so,
 * else says why not.  Status not STP_OK if its files cannot be read. */
enum stp_status stp_tune_state_begin(const struct stp_tune_job *job,
                                     const struct stp_device_info *info,
                                     struct stp_tune_state *state,
                                     struct stp_error *err);

/* Names the run after its plan and its measurements. */
void stp_tune_state_name(const struct stp_tune_state *state,
                         char run_ret[STP_RUN_NAME]);

/* Removes the state's files once the files of the result are there. */
void stp_tune_state_end(const struct stp_tune_files *files);

/* Saves the measurements, at most a few times a second unless 'now'. */
enum stp_status stp_tune_state_save(struct stp_tune_state *state, bool now,
                                    struct stp_error *err);

/* ---- a pass: one number of ranks ---- */

struct stp_tune_pass {
    const struct stp_tune_job *job;
    const struct stp_device *device;
    struct stp_device_facts known;
    struct stp_tune_state *state;
    int64_t *stage_ms; /* of the result */
};

/* The terms of the plan for rules of a policy of this kind. */
struct stp_derive_terms stp_tune_terms(const struct stp_tune_plan *plan,
                                       enum stp_policy_kind kind);

/* Formats a sentence for the user. */
void stp_tune_tell(const struct stp_tune_job *job, const char *fmt, ...)
    STP_PRINTF(2, 3);

/* STP_ERR_STOPPED if the host wants to stop. */
enum stp_status stp_tune_progress(const struct stp_tune_job *job,
                                  enum stp_tune_stage stage, size_t done,
                                  size_t total, struct stp_error *err);

/* Adds the time since '*since_ms' to a stage, and sets it to now. */
void stp_tune_clock(int64_t *stage_ms, enum stp_tune_stage stage,
                    int64_t *since_ms);

/* Whether the rows have the setting, or the size alone.  One that was left out,
 * as its GEMM is that of another ratio, is tried again. */
bool stp_tune_has(const struct stp_dataset *data,
                  const struct stp_setting *setting, unsigned n_ranks);

/* sweep.c: measures collectives alone: a grid, then where decisions change,
 * with more rounds of arms that promise a gain.  Appends to *data. */
enum stp_status stp_tune_sweep(const struct stp_tune_pass *pass,
                               struct stp_dataset *data, unsigned *iters_ret,
                               struct stp_error *err);

/* ---- iterate.c: which arms shorten training iterations ---- */

/* The plan's terms for settings; a signal ends one between rounds. */
struct stp_setting_terms stp_tune_setting_terms(const struct stp_tune_job *job);

/* The sizes at which rules for collectives alone will be tried in iterations
 * that are captured in CUDA graphs. */
struct stp_range stp_tune_captured(const struct stp_tune_plan *plan,
                                   const struct stp_device_info *info);

/* Measures iterations with the best arms of the sweep: overlapped ones, and
 * sequential ones, by which stp_compare_registered() decides, on a device that
 * registers buffers and is live or has them recorded. 'why_not' says why there
 * are none, if the device cannot run them or sizes are missing. */
enum stp_status stp_tune_iterate(const struct stp_tune_pass *pass,
                                 const struct stp_dataset *swept,
                                 struct stp_iterations *out,
                                 char why_not[STP_ERROR_TEXT],
                                 struct stp_error *err);

/* ---- policies, through the plugin ---- */

/* Has the plugin read the policy at 'path', on job->trial's device, which then
 * has the ranks of a pass.  In verify.c. */
enum stp_status stp_tune_begin_trial(const struct stp_tune_job *job,
                                     size_t pass, const char *path,
                                     const char *gpu, struct stp_error *err);

/* ---- stage.c ---- */

/* On a live device that stages, times AUTO, the verified policy and staged
 * buffers in CUDA graphs, into result->captured. */
enum stp_status stp_tune_stage(const struct stp_tune_job *job,
                               struct stp_tune_result *result,
                               struct stp_error *err);

/* ---- verify.c ---- */

/* Writes the policy to 'path', and reads its hash. */
enum stp_status stp_tune_save_policy(struct stp_tune_policy *policy,
                                     const char *path, struct stp_error *err);

/* Tries both policies against AUTO, through the plugin, and trims rules until
 * none is left that is slower anywhere. */
enum stp_status stp_tune_verify(const struct stp_tune_job *job,
                                struct stp_tune_result *result,
                                struct stp_error *err);
