/*
 * trial.h - a policy file through the real plugin, against NCCL's own choice
 */
#ifndef STP_TRIAL_H
#define STP_TRIAL_H

#include <stdio.h>

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

/* Sets what tells the plugin in a job of this policy, and what the GPU is:
 * that of a recorded machine.  Before any other thread runs. */
enum stp_status stp_trial_environment(const char *path, const char *gpu,
                                      struct stp_error *err);

/* What became of the policy 'path': how many of its rules apply to that
 * machine, every verdict, their sum and how steady the machine was. */
enum stp_status stp_trial_print(const char *path,
                                const struct stp_device_info *info,
                                const struct stp_comparisons *comparisons,
                                FILE *fp, struct stp_error *err);

/* Like stp_trial_print(), to the file 'path'.verified.txt, whole or not at
 * all. */
enum stp_status stp_trial_prove(const char *path,
                                const struct stp_device_info *info,
                                const struct stp_comparisons *comparisons,
                                struct stp_error *err);

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
