/*
 * trial.h - a policy file through the real plugin, against NCCL's own choice
 */
#ifndef STP_TRIAL_H
#define STP_TRIAL_H

#include "analyse/compare.h"
#include "cli/cli.h"

/*
 * Opens the device with our static plugin reading the policy 'path', by the
 * same environment variables as in a job, and checks the policy first.  Prints
 * why not and returns the exit status, or returns STP_EXIT_OK.
 */
int stp_trial_open(const char *command, const char *path,
                   const struct stp_machine_options *machine,
                   struct stp_device *device_ret);

/* How many rules of the policy 'path' can apply on the device, and how many
 * there are. */
enum stp_status stp_trial_rules(const struct stp_device *device,
                                const char *path, size_t *n_apply_ret,
                                size_t *n_rules_ret, struct stp_error *err);

/*
 * Measures AUTO and the plugin, in rounds, at the sizes of '*plan' (whose arms
 * are replaced) and compares them.  The rows are appended to *data.
 */
enum stp_status stp_trial_run(const struct stp_device *device,
                              const struct stp_sweep_plan *plan,
                              struct stp_dataset *data,
                              struct stp_comparisons *comparisons_ret,
                              struct stp_error *err);

/*
 * Adds to the sizes of each collective in '*plan' those that verify what lies
 * between them: stp_verify_sizes() with the range ends of the policy at 'path'.
 */
enum stp_status stp_trial_add_unseen(const struct stp_device *device,
                                     const char *path,
                                     struct stp_cli_plan *plan,
                                     struct stp_error *err);

#endif /* STP_TRIAL_H */
