/*
 * device_mock.h - a recorded machine as a device, in virtual time
 *
 * NCCL is mock NCCL; a collective takes the time that was recorded for what it
 * chose, drawn from the recorded spread.  Round k of n is one of the recorded
 * rounds, a different one for each k up to stp_device_info.max_rounds.
 *
 * Compute takes what mock_compute.h says, and beside a collective both take
 * longer by what was recorded in overlap.csv; elsewhere by what it was on
 * another machine (mock_machine_overlap()).
 */
#ifndef STP_DEVICE_MOCK_H
#define STP_DEVICE_MOCK_H

#include <stdint.h>

#include "device/device.h"

struct stp_device_mock_options {
    const char *machine_path; /* a folder as mock_machine_load() takes it */
    const char *plugin;       /* as NCCL_TUNER_PLUGIN; NULL for none */
    uint64_t seed;            /* of the draws from the recorded spread */
    const char *graphs_file;  /* where to write the machine's search graphs, as
                                 NCCL would; or NULL */
};

/* Opens it into *device_ret, or says in *err what is wrong with the machine or
 * the plugin.  A plugin that mock NCCL cannot load is an error here. */
enum stp_status
stp_device_mock_open(const struct stp_device_mock_options *options,
                     struct stp_device *device_ret, struct stp_error *err);

#endif /* STP_DEVICE_MOCK_H */
