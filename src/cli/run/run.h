/*
 * run.h - what the parts of `steptune run` share
 */
#ifndef STP_CLI_RUN_H
#define STP_CLI_RUN_H

#include <sys/stat.h>

#include "cli/cli.h"
#include "plugin/online/online_settings.h"
#include "report/learning/learning.h"

/* A job that learns. */
struct stp_online_run {
    const char *strategy;  /* NULL: as the environment says */
    const char *objective; /* likewise */
    struct stp_online_settings settings;
    char base[STP_PATH_SIZE]; /* the policy to begin with; "": none */
    off_t journal_from;       /* bytes that were there before the job */
    struct stat before;       /* the learned policy; st_ino 0: there was none */
};

/* Sets a variable of the job; complains without memory. */
int stp_run_set(const char *command, const char *name, const char *value);

/* Sets NCCL_TUNER_PLUGIN or NCCL_PROFILER_PLUGIN, and says so if that replaces
 * another one. */
int stp_run_set_plugin(const char *command, const char *name,
                       const char *plugin);

/* Sets what the learning plugin is told by: begins with the policy at 'policy'
 * ("": none), and keeps a journal in the folder 'folder' ("": none) unless the
 * user has one.  Complains, and returns the exit status. */
int stp_run_online_begin(const char *command, struct stp_online_run *run,
                         const char *policy, const char *folder);

/* What was learned, to be freed with stp_learning_free(), and how. */
enum stp_status stp_run_online_end(const struct stp_online_run *run,
                                   struct stp_learning *learning_ret,
                                   struct stp_learning_setting *setting_ret,
                                   struct stp_error *err);

#endif /* STP_CLI_RUN_H */
