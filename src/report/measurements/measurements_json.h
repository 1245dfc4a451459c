/*
 * measurements_json.h - measurements out of the JSON that
 * stp_print_sweep_json() writes
 *
 * An object with machine, gpu, nccl, backend and an array "measurements", of
 * which each element has the columns of measurements_csv.h under the same
 * names, but "arm" for algorithm, protocol and channels ("auto",
 * "ring/ll128/16"), "ran" as an object of those three, and "n_wrong"; null is
 * for what nobody knows.  Those of a workload are there if there is one.
 * algbw_gbps and busbw_gbps follow from the others and are not read.
 */
#ifndef STP_MEASUREMENTS_JSON_H
#define STP_MEASUREMENTS_JSON_H

#include "bench/measurement.h"

/*
 * Reads the 'len' bytes at 'text' into *data, which is empty.  STP_ERR_SYNTAX
 * with line and column if it is not JSON, and with the row and its key if a
 * value means nothing; or STP_ERR_NOMEM.  *data is empty after a failure.
 */
enum stp_status stp_measurements_read_json(const char *text, size_t len,
                                           struct stp_dataset *data,
                                           struct stp_error *err);

#endif /* STP_MEASUREMENTS_JSON_H */
