/* engine_mock.h - a recorded machine as an engine, in virtual time
 *
 * There is no data: nothing is computed, and addresses mean nothing.  All ranks
 * are alike, so one engine, which is rank 0, stands for them all.
 *
 * NCCL is mock NCCL; a collective takes the time that was recorded for the arm
 * that NCCL chose, drawn from the recorded spread.  Round k of n is one of the
 * recorded rounds, a different one for each k up to
 * stp_device_info.max_rounds.
 *
 * With stalls that share of the rounds is disturbed, as on real machines: it
 * takes 1.5 to 3 times as long, all arms in half of these rounds, each by its
 * own factor, and one arm alone in the others.  Round k may then be measured
 * again: its times are those that it had, and only its stalls are new.
 *
 * GEMMs take the times of mock_compute.h, all other kernels that of their bytes
 * through memory.  Compute overlapped with a collective slows both down as
 * recorded in overlap.csv; elsewhere as on another machine
 * (mock_machine_overlap()).  The same calls and seed give the same times. */
#pragma once

#include "device/engine.h"

/* Opens the machine of a folder as mock_machine_load() takes it, or says in
 * *err what is wrong with it or the plugin; a plugin that mock NCCL cannot load
 * is an error here.  'n_ranks' of 0: the machine's; another number has no
 * recorded times, see mock_machine_resize().  'seed' is of the draws from the
 * recorded spread.  Engines for measuring have a tuner that forces arms, and
 * rounds. */
enum stp_status stp_mock_open(const char *machine_path, unsigned n_ranks,
                              uint64_t seed,
                              const struct stp_device_options *options,
                              struct stp_engines *engines_ret,
                              struct stp_error *err);
