/* settings.h - environment variables of the plugins
 *
 * steptune-plugins(7), src/cli/man/steptune-plugins.7, lists them with
 * defaults.
 *
 * An empty value counts as unset.  Read once, when a communicator is made. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agree/agreement.h"
#include "core/policy/policy.h"
#include "core/status.h"
#include "plugin/gpu.h"

enum { STP_PATH_SIZE = 4096 };

/* How ranks that must decide alike are compared. */
enum stp_agree {
    STP_AGREE_HOST,   /* within each host */
    STP_AGREE_ASSUME, /* ranks that cannot be compared hold the same */
    STP_AGREE_STORE,  /* hosts are compared, too, in a store */
};

struct stp_plugin_settings {
    char policy_path[STP_PATH_SIZE];
    bool policy_is_named;   /* else it is the default, which may be missing */
    char gpu[STP_GPU_SIZE]; /* "" if unknown, or if the GPUs differ */
    char ledger[STP_PATH_SIZE]; /* "" for none */
    enum stp_agree agree;
    bool agree_is_required; /* ranks that are not compared are inactive */
    struct stp_agreement_store store; /* for STP_AGREE_STORE */
    uint64_t host_id;                 /* hash of $NCCL_HOSTID; 0: unset */
};

/* Reads the environment, and the driver's /proc files for the GPU.  On failure
 * (an unknown value, a path that is too long) the members for the policy are
 * undefined and *err names variable and value. */
enum stp_status stp_settings_read(struct stp_plugin_settings *settings_ret,
                                  struct stp_error *err);

/* The memory or the stage policy: $STEPTUNE_MEMORY_CONFIG_FILE or
 * $STEPTUNE_STAGE_FILE, else the one beside $NCCL_TUNER_CONFIG_FILE or its
 * default.  STP_ERR_LIMIT, and 'path' undefined, if that is too long. */
enum stp_status stp_settings_setups(enum stp_policy_kind kind,
                                    char path[STP_PATH_SIZE],
                                    struct stp_error *err);

/* The GPU's model: $STEPTUNE_GPU, else as the driver reports it. */
void stp_settings_gpu(char gpu[STP_GPU_SIZE]);

/* The number that the launcher (torchrun, Open MPI, PMI, Slurm) gives this rank
 * among 'n_ranks', for messages; -1 if it tells none, or of another number of
 * ranks. */
int stp_launcher_rank(size_t n_ranks);

/* The variable's value; NULL if it is unset or empty. */
const char *stp_setting(const char *name);
