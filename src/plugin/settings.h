/*
 * settings.h - what the user sets for a plugin, in environment variables
 *
 *   variable                      default           meaning
 *   NCCL_TUNER_CONFIG_FILE        nccl_tuner.conf   the policy file
 *   NCCL_WORKLOAD_OVERLAP         0                 1: communication runs
 * beside compute; use the policy made for that STEPTUNE_OVERLAP_CONFIG_FILE
 * FILE.overlap      that policy STEPTUNE_GPU                  from the driver
 * GPU model that the gpu column is compared with
 *
 * An empty value counts as unset.  Read once, when a communicator is made.
 */
#ifndef STP_SETTINGS_H
#define STP_SETTINGS_H

#include "core/status.h"
#include "plugin/gpu.h"

enum { STP_PATH_SIZE = 4096 };

struct stp_plugin_settings {
    char policy_path[STP_PATH_SIZE];
    char gpu[STP_GPU_SIZE]; /* "" if unknown, or if the GPUs differ */
};

/*
 * Reads the environment, and the driver's /proc files for the GPU.  On failure
 * (a value that means nothing, a path that is too long) *settings_ret is
 * undefined and *err names variable and value.
 */
enum stp_status stp_settings_read(struct stp_plugin_settings *settings_ret,
                                  struct stp_error *err);

#endif /* STP_SETTINGS_H */
