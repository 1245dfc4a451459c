/*
 * engine_mock.h - a recorded machine as an engine, in virtual time
 *
 * There is no data: nothing is computed, and addresses mean nothing.  All ranks
 * are alike, so one engine, which is rank 0, stands for them all.
 *
 * Products take what mock_compute.h says, all else its bytes through memory;
 * NCCL is mock NCCL, a collective takes the time that was recorded for what it
 * chose, and compute and a collective side by side slow each other down as in
 * device_mock.h.  The same calls and seed give the same times.
 */
#ifndef STP_ENGINE_MOCK_H
#define STP_ENGINE_MOCK_H

#include "device/engine.h"

struct stp_engine_mock_options {
    const char *machine_path; /* a folder as mock_machine_load() takes it */
    unsigned n_ranks;   /* 0: the machine's; another number has no recorded
                           times, see mock_machine_resize() */
    const char *plugin; /* as NCCL_TUNER_PLUGIN; NULL for none */
    uint64_t seed;      /* of the draws from the recorded spread */
    bool measures;      /* for device/ranks.c: NCCL with a tuner that forces
                           arms, and rounds */
};

/* Opens it, tuned by NCCL's own choice at first, or says in *err what is wrong
 * with the machine or the plugin.  A plugin that mock NCCL cannot load is an
 * error here. */
enum stp_status
stp_engine_mock_open(const struct stp_engine_mock_options *options,
                     struct stp_engine *engine_ret, struct stp_error *err);

#endif /* STP_ENGINE_MOCK_H */
