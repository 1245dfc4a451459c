/* trial.h - a policy file through the real plugin, against NCCL's own choice */
#pragma once

#include <stdio.h>

#include "analyse/compare.h"
#include "tune/plan.h"

/* NCCL's own choice, and that of the plugin. */
extern const struct stp_arms stp_trial_arms;

/* Sets the environment of a job with this policy on such a GPU, which may be
 * that of a recorded machine.  Ranks compare within a host only, unless the
 * user says otherwise.  Before any other thread runs. */
enum stp_status stp_trial_environment(const char *path, const char *gpu,
                                      struct stp_error *err);

/* Refuses a policy 'path' of which no rule applies to that machine
 * (STP_ERR_RANGE), or that has none (STP_ERR_SYNTAX): it decides nothing. */
enum stp_status stp_trial_require_rules(const char *path,
                                        const struct stp_device_info *info,
                                        struct stp_error *err);

/* Refuses a policy whose rules decide none of the measured messages, though
 * some apply to the machine. */
enum stp_status stp_trial_require_decisions(
    const char *path, const struct stp_device_info *info,
    const struct stp_comparisons *comparisons, struct stp_error *err);

/* Refuses a policy under which a sum has other bits than under NCCL's own
 * choice, of those that were compared: STP_ERR_DEVICE. */
enum stp_status stp_trial_require_bits(const struct stp_dataset *tried,
                                       struct stp_error *err);

/* Prints how steady that machine was, how many rules of the policy 'path' apply
 * to it with the ranks that were measured, every verdict if 'has_table' or in
 * short, and their sum. */
enum stp_status stp_trial_print(const char *path,
                                const struct stp_device_info *info,
                                const struct stp_comparisons *comparisons,
                                bool has_table, FILE *fp,
                                struct stp_error *err);

/* Like stp_trial_print() with every verdict, to the file 'path'.verified.txt,
 * whole or not at all, with the policy hash and the run of what was measured.
 */
enum stp_status stp_trial_prove(const char *path,
                                const struct stp_device_info *info,
                                const struct stp_dataset *measured,
                                const struct stp_comparisons *comparisons,
                                struct stp_error *err);

/* Keeps AUTO and, for each message, the arm of registered buffers that the
 * memory policy names, as if it were the plugin's; a message without one keeps
 * plain buffers. The data have AUTO and those arms. STP_ERR_RANGE if the policy
 * names none of the messages. */
enum stp_status stp_trial_take_memory(const struct stp_policy *memory,
                                      const struct stp_device_info *info,
                                      struct stp_dataset *data,
                                      struct stp_error *err);

/* Adds the arms that the rules of a memory policy name. */
enum stp_status stp_trial_add_setups(const struct stp_policy *memory,
                                     struct stp_arms *arms,
                                     struct stp_error *err);

/* Adds sizes between the sizes of each collective in '*plan' that verify the
 * policy: stp_verify_sizes() with the range ends of the policy at 'path'. */
enum stp_status stp_trial_add_unseen(const struct stp_device_info *info,
                                     const char *path,
                                     struct stp_measure_plan *plan,
                                     struct stp_error *err);
