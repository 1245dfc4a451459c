/*
 * best_csv.h - NVIDIA's performance CSV, which its example tuner's
 * optimize_config.py takes, in, and the policy of the fastest arms out
 *
 *   collective     broadcast, reduce, allgather, reducescatter, allreduce
 *   size_bytes     as a tuner counts them
 *   algorithm      as in policies
 *   protocol       likewise
 *   channels       1 to 64, or -1 for NCCL's own count
 *   nodes ranks    of the communicator, from 1; -1: any
 *   pipeOps        from 1; -1: any; may be missing
 *   regBuff        0, 1 or -1 for any; may be missing
 *   latency_us     above 0: what decides, as it does there by default
 *   bandwidth_gbps cost_metric    numbers that decide nothing; may be missing
 *
 * The header names the columns, in any order.  An arm has one row a size.  Rows
 * of pairs that NCCL has no kernel for, which cannot have been measured as
 * that, are left out, and the policy says so.
 */
#ifndef STP_BEST_CSV_H
#define STP_BEST_CSV_H

#include <stdbool.h>
#include <stdio.h>

#include "analyse/best.h"

/* Whether the header is of such a CSV. */
bool stp_best_csv_is(const char *text, size_t len);

/* Appends the 'len' bytes at 'text' to *rows.  STP_ERR_SYNTAX with line and
 * column, or STP_ERR_NOMEM; what was read stays in *rows then. */
enum stp_status stp_best_csv_read(const char *text, size_t len,
                                  struct stp_best_rows *rows,
                                  struct stp_error *err);

/* Writes the rules, in NVIDIA's columns, above each the times it rests on, and
 * above all what they are worth.  'made_by' is the first comment line. */
void stp_best_policy_write(const struct stp_best *best,
                           const struct stp_best_rows *rows,
                           const char *made_by, FILE *fp);

/* Like stp_best_policy_write(), but to the file 'path', whole or not at all. */
enum stp_status stp_best_policy_save(const struct stp_best *best,
                                     const struct stp_best_rows *rows,
                                     const char *made_by, const char *path,
                                     struct stp_error *err);

/* Prints the rules with their evidence as JSON.  STP_ERR_NOMEM. */
enum stp_status stp_best_print_json(const struct stp_best *best, FILE *fp,
                                    struct stp_error *err);

#endif /* STP_BEST_CSV_H */
