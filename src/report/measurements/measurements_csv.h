/* measurements_csv.h - measurements as a CSV file, and read from any kind of
 * file that has some
 *
 * '#' lines at the top name machine, gpu, nccl and backend as "# key: value",
 * of what `steptune tune` writes also the run, and of what a policy was
 * measured with the policy hash; then a header line; then a row an arm, place
 * and round.  The columns are those of measurements_row.c:
 *
 *   bytes          as a tuner counts them
 *   algorithm, protocol, channels   of the arm: auto where it forces none, 0
 *                  for NCCL's own count; an arm that is no pair stands in both
 *   iters          collectives timed in this row
 *   mean_us ...    of one collective, or of one iteration; slowest rank; empty
 *                  where nobody knows, as percentiles of one iteration
 *   ran_...        what NCCL ran; "-": not known
 *   type           nccl-tests' words are read, too
 *   graph          1 if it was captured into a CUDA graph; only where a row was
 *   wrong          elements that were; empty if nobody checked
 *   single_pass    1 if the arms ran one after the other and not in rounds
 *   mode ... k     of iterations, what of (bench/workload.h); a ratio is the
 *                  one that was asked for, 0 if the product was
 *   compute_us, alone_us   of one layer's compute, or its collectives, alone
 *
 * When read, columns may stand in any order; collective, bytes, round,
 * algorithm, protocol, nNodes, nRanks and median_us must be there.  A recorded
 * machine's overlap.csv is read, too: with layers and compute_us but without
 * mode, it is overlap, nNodes 1 and source recorded by default. */
#pragma once

#include <stdio.h>

#include "bench/measurement.h"

/* Readers name these files as the ones expected. */
#define STP_MEASURED                                                           \
    "measurements of Steptune, or text of nccl-tests (also CSV or JSON)"

/* Bytes of the largest file that is read. */
#define STP_MEASUREMENTS_MAX ((size_t)1 << 30)

/* Writes all rows to 'fp', times from 1 ns on with three decimals.  'made_by'
 * is the first comment line. */
void stp_measurements_write(const struct stp_dataset *data, const char *made_by,
                            FILE *fp);

/* Likewise to the file 'path', whole or not at all. */
enum stp_status stp_measurements_save(const struct stp_dataset *data,
                                      const char *made_by, const char *path,
                                      struct stp_error *err);

/* Whether both rows are of the same arm and collective on communicators of the
 * same size. */
bool stp_same_run(const struct stp_measurement *a,
                  const struct stp_measurement *b);

/* Appends the rows of 'more' to *data, and takes over machine, gpu, nccl and
 * backend, and run and policy hash if all have the same.  Rounds of different
 * data are different rounds, numbered through; if 'by_arm', those of each arm
 * by themselves, as if the first run of one were of the same round as the first
 * of another.  STP_ERR_SYNTAX if 'more' is from another GPU, NCCL or backend
 * than what *data already holds, of which times say nothing of each other, or
 * STP_ERR_NOMEM; *data is as it was then. */
enum stp_status stp_measurements_pool(struct stp_dataset *data,
                                      const struct stp_dataset *more,
                                      bool by_arm, struct stp_error *err);

/* Appends the rows of the 'len' bytes of CSV at 'text' to *data, as further
 * rounds, and takes over machine, gpu, nccl and backend; STP_ERR_SYNTAX with
 * line and column if it is no CSV of ours, or if it is from another GPU, NCCL
 * or backend than what *data already holds.  *data is as it was after a
 * failure. */
enum stp_status stp_measurements_read(const char *text, size_t len,
                                      struct stp_dataset *data,
                                      struct stp_error *err);

/* Reads the file 'path' into *data, which is empty: our CSV, or the text or
 * JSON of nccl-tests, told by its content.  'coll' and 'n_ranks'
 * are for text that does not say them (see stp_nccl_text_read()); -1 and 0
 * if unknown. *data is empty after a failure. */
enum stp_status stp_measurements_load_any(const char *path, int coll,
                                          unsigned n_ranks,
                                          struct stp_dataset *data,
                                          struct stp_error *err);
