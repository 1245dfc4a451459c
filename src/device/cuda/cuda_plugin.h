/* cuda_plugin.h - the half of the CUDA module that NCCL loads
 *
 * The module names itself as NCCL's tuner and profiler: NCCL opens the same
 * file again and gets the same data.  The tuner forces arms inside a running
 * communicator, or forwards to the tuner under test; the profiler says which
 * arm ran, and tells that tuner's own profiler, if its library has one, of what
 * it decided.  NCCL hands neither a pointer of the application, so their state
 * is the process's, and there can be one CUDA device in it. */
#pragma once

#include "device/device.h"

/* Has NCCL, of the version that it has as a number, load us, and us the tuner
 * 'plugin' (a path, or NULL) behind the plugin arm.  Before NCCL's first
 * communicator.  '*replaced_ret' is the earlier value of NCCL_TUNER_PLUGIN, or
 * "", whose tuner AUTO asks, unless it is ours. */
enum stp_status stp_cuda_plugin_begin(const char *plugin, int nccl,
                                      char replaced_ret[128],
                                      struct stp_error *err);

/* Whether NCCL has loaded the tuner.  After the first communicator. */
bool stp_cuda_plugin_has_tuner(void);

/* Has the tuner under test end in all communicators of this process, and begin
 * anew.  None may be running.  Its profiler goes on. */
enum stp_status stp_cuda_plugin_reload(struct stp_error *err);

/* The arm of getCollInfo calls that begin after it returns. */
void stp_cuda_plugin_select(const struct stp_arm *arm);

/* The question and the run of NCCL between the two calls, of rank 'rank'; the
 * last, if there were several.  run_ret's algo, proto are -1 and n_channels 0
 * where no profiler said so. */
void stp_cuda_plugin_listen(int rank);
void stp_cuda_plugin_heard(struct stp_device_run *run_ret,
                           struct stp_question *question_ret);
