/*
 * nccl_text_arm.h - nccl-tests' text, one file a run of one arm
 *
 * nccl-tests do not name the arm.  The user does (--arm), or NCCL's log between
 * the rows (nccl_log.h), or the environment in the JSON (nccl_json.h):
 *
 *   NCCL_ALGO or NCCL_PROTO was set    that is forced
 *   one pair at every size             that pair
 *   several algorithms and protocols,
 *   and no tuner plugin                NCCL's own choice
 *
 * All else is refused: a file of one algorithm and several protocols may be of
 * either.  Our own text names its arms.
 */
#ifndef STP_NCCL_TEXT_ARM_H
#define STP_NCCL_TEXT_ARM_H

#include "bench/measurement.h"

/*
 * Appends the rows of the 'len' bytes at 'text' to *data, its passes as further
 * rounds of 'arm', or if that is NULL of the arm that is found.  Runs of
 * different arms were not interleaved: their source is STP_SOURCE_SINGLE_PASS.
 * 'coll' is as for stp_nccl_text_read().
 *
 * STP_ERR_SYNTAX with line and column; STP_ERR_RANGE if the arm cannot be told,
 * or is not what NCCL ran; or STP_ERR_NOMEM.  *data is as it was then.
 */
enum stp_status stp_nccl_text_add(const char *text, size_t len, int coll,
                                  const struct stp_arm *arm,
                                  struct stp_dataset *data,
                                  struct stp_error *err);

#endif /* STP_NCCL_TEXT_ARM_H */
