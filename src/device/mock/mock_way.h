/*
 * mock_way.h - arms of registered buffers on a recorded machine
 */
#ifndef STP_MOCK_WAY_H
#define STP_MOCK_WAY_H

#include "device/arm.h"
#include "mock_nccl.h"

/* As struct stp_device_info has them: those with recorded times of some
 * collective. */
unsigned stp_mock_setups(const struct mock_machine *machine);

/* How collectives of the arm run: enum mock_way, or 0 for as NCCL chooses.
 * STP_ERR_RANGE if nothing was recorded of it. */
enum stp_status stp_mock_find_way(const struct mock_machine *machine,
                                  const struct stp_arm *arm, int *way_ret,
                                  struct stp_error *err);

#endif /* STP_MOCK_WAY_H */
