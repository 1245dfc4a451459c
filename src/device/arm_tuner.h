/* arm_tuner.h - a tuner that forces whatever arm is set, for benchmarks
 *
 * With it, arms change inside one running communicator.  NCCL's tuner interface
 * hands no pointer of the application to a tuner, so the arm is set for the
 * whole process.
 *
 * A job may have a tuner (plugin/lower.h), which is asked first as our plugins
 * ask it: AUTO is what NCCL chooses with it, arms are forced on its table, and
 * arm nccl is NCCL alone, with the constants that its init has set. */
#pragma once

#include "device/device.h"
#include "nccl_tuner_abi.h"

/* Before the first communicator of an NCCL that knows tuners up to 'version':
 * the tuner of jobs is that of STEPTUNE_CHAIN, which becomes 'displaced', the
 * value of NCCL_TUNER_PLUGIN, if it is not set.  STP_ERR_NOMEM. */
enum stp_status stp_arm_tuner_begin(const char *displaced, int version,
                                    struct stp_error *err);

/* Names that tuner in a device's info, if there is one.  After the first
 * communicator. */
void stp_arm_tuner_describe(struct stp_device_info *info);

/* Leaves NCCL's choice alone unless a forced arm is set; a pair that NCCL has
 * ruled out, too.  Begins as a v5, whose NCCL asks for no chunk. */
extern const ncclTuner_v6_t stp_arm_tuner;

/* Sets the arm for the getCollInfo calls that begin after it returns, in any
 * thread.  AUTO to begin with. */
void stp_arm_tuner_set(const struct stp_arm *arm);
