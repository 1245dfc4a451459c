/*
 * train_arms.h - the arms and the tuner that take turns with NCCL's own choice
 * in `steptune train`
 */
#ifndef STP_CLI_TRAIN_ARMS_H
#define STP_CLI_TRAIN_ARMS_H

#include "cli/cli.h"
#include "device/arm.h"
#include "train/train_matrix.h"

enum { STP_TRAIN_PAIR = 40, STP_TRAIN_TUNER = 96 };

/* Options of it. */
struct stp_train_turns {
    const char *arms;   /* list, or NULL */
    const char *policy; /* or NULL */
    const char *plugin; /* or NULL: ours, if there is a policy */
};

/* The tuner plugin; its plugin is NULL if there is none. */
struct stp_train_tuner {
    const char *plugin;         /* path, or a name that NCCL finds */
    char path[STP_CLI_PATH];    /* of ours */
    char name[STP_TRAIN_TUNER]; /* see struct stp_train_run */
    uint64_t hash;              /* of the files of policy and plugin */
};

/* Whether anything takes turns with NCCL's own choice. */
bool stp_train_takes_turns(const struct stp_train_turns *turns);

/* Checks the arms before anything runs; complains and returns the exit status.
 */
int stp_train_check_arms(const struct stp_train_turns *turns,
                         const struct stp_train_matrix *matrix);

/* Finds the tuner, and has the environment hand it the policy.  In every
 * process, before an engine is opened; 'recorded' is the machine that is, or
 * NULL.  Complains and returns the exit status. */
int stp_train_find_tuner(const struct stp_train_turns *turns,
                         const char *recorded,
                         struct stp_train_tuner *tuner_ret);

/* NCCL's own choice, the arms of the list and the plugin; of a device, unless
 * 'info' is NULL, as stp_parse_arms(). */
enum stp_status stp_train_list_arms(const struct stp_train_turns *turns,
                                    const struct stp_device_info *info,
                                    struct stp_arms *arms_ret,
                                    struct stp_error *err);

/* A hash of all that takes turns, as struct stp_train_run has it. */
void stp_train_name_pair(const struct stp_train_turns *turns,
                         const struct stp_train_tuner *tuner,
                         const struct stp_arms *arms,
                         char pair[STP_TRAIN_PAIR]);

#endif /* STP_CLI_TRAIN_ARMS_H */
