/* arm_tuner.h - a tuner that forces whatever arm is set, for benchmarks
 *
 * With it, arms change inside one running communicator.  NCCL's tuner interface
 * hands no pointer of the application to a tuner, so the arm is set for the
 * whole process. */
#pragma once

#include "device/arm.h"
#include "nccl_tuner_abi.h"

/* Leaves NCCL's choice alone unless a forced arm is set; a pair that NCCL has
 * ruled out, too.  Begins as a v5, whose NCCL asks for no chunk. */
extern const ncclTuner_v6_t stp_arm_tuner;

/* Sets the arm for the getCollInfo calls that begin after it returns, in any
 * thread.  AUTO to begin with. */
void stp_arm_tuner_set(const struct stp_arm *arm);
