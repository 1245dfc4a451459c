/*
 * constants.h - NCCL's own cost model with other numbers
 *
 * NCCL 2.28 to 2.30 hand a tuner's init the constants of their model, and build
 * the model from what init leaves.  Ranks with different ones would choose
 * differently, and a tuner cannot compare with other ranks before NCCL has
 * built it: tuner_abi.c does so before the first decision.
 */
#ifndef STP_PLUGIN_CONSTANTS_H
#define STP_PLUGIN_CONSTANTS_H

#include "core/policy/constants.h"

/*
 * Sets in '*nccl' what the file at 'path' names, '*hash_ret' to the hash of
 * that and '*n_ret' to how many.  Else all are untouched: STP_ERR_RANGE if NCCL
 * hands none ('nccl' is NULL, before 2.28) or forgets them (all are 0, in
 * development builds of 2.31); or as stp_constants_load().
 */
enum stp_status stp_set_constants(const char *path,
                                  ncclTunerConstants_v5_t *nccl, size_t *n_ret,
                                  uint64_t *hash_ret, struct stp_error *err);

#endif /* STP_PLUGIN_CONSTANTS_H */
