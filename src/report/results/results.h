/*
 * results.h - sweeps, verdicts, rules, explanations and replays, as text tables
 * and as JSON
 */
#ifndef STP_RESULTS_H
#define STP_RESULTS_H

#include <stdbool.h>
#include <stdio.h>

#include "analyse/compare.h"
#include "analyse/derive.h"
#include "analyse/explain/explain.h"
#include "analyse/steadiness.h"
#include "device/device.h"

/* analyse/replay/trace.h, analyse/replay/replay.h */
struct stp_trace;
struct stp_replay;
struct stp_table; /* report/table.h */

/* Adds a workload to a row of JSON, without the GEMM if each size has its own.
 */
void stp_put_workload(const struct stp_workload *work, bool has_gemm,
                      struct stp_table *table);

/* The following return STP_ERR_NOMEM, with *err filled, or STP_OK. */

/* A row a size and arm: AUTO and every other with its gain; type, operation and
 * place where they are not always bf16, sum and one place. */
enum stp_status stp_print_sweep(const struct stp_comparisons *comparisons,
                                FILE *fp, struct stp_error *err);
/* Every measurement; measurements_json.h reads it back. */
enum stp_status stp_print_sweep_json(const struct stp_dataset *data, FILE *fp,
                                     struct stp_error *err);

/* One line: rounds, spread, drift, and the gains that stand out of noise;
 * nothing without points. */
enum stp_status stp_print_steadiness(const struct stp_comparisons *comparisons,
                                     FILE *fp, struct stp_error *err);

/* A row a size: collective, size, AUTO us, tuned us, gain with interval,
 * choice, verdict; then their counts in a sentence. */
enum stp_status stp_print_verdicts(const struct stp_comparisons *comparisons,
                                   FILE *fp, struct stp_error *err);
enum stp_status
stp_print_verdicts_json(const struct stp_device_info *info,
                        const struct stp_comparisons *comparisons, FILE *fp,
                        struct stp_error *err);

/* How many sizes have each verdict, and their gains. */
struct stp_verdict_count {
    size_t n_same, n_faster, n_unsure, n_slower;
    double mean_gain; /* geometric, over all sizes; 1 where NCCL's choice is
                         kept */
    const struct stp_point *best; /* the largest gain at a measured size, or
                                     NULL */
    bool is_best_of_all;          /* no other size gained more */
};
struct stp_verdict_count
stp_count_verdicts(const struct stp_comparisons *comparisons);

/* A row a rule. */
enum stp_status stp_print_rules(const struct stp_derived *derived, FILE *fp,
                                struct stp_error *err);
/* With the objective of 'data', which has one (analyse/objective.h), its
 * workloads and its steadiness; NULL: left out. */
enum stp_status stp_print_rules_json(const struct stp_derived *derived,
                                     const struct stp_dataset *data,
                                     const struct stp_steadiness *steadiness,
                                     FILE *fp, struct stp_error *err);

/* A row a range.  'policy' is the file's name for the last column, or NULL. */
enum stp_status stp_print_explanation(const struct stp_explanation *explanation,
                                      const char *policy, FILE *fp,
                                      struct stp_error *err);
enum stp_status
stp_print_explanation_json(const struct stp_explanation *explanation,
                           const char *policy, FILE *fp, struct stp_error *err);

/* A row for each collective and size of the trace, with AUTO's and the plugin's
 * choice. */
enum stp_status stp_print_replay(const struct stp_trace *trace,
                                 const struct stp_replay *replay, FILE *fp,
                                 struct stp_error *err);
/* An object for each row of the trace. */
enum stp_status stp_print_replay_json(const struct stp_trace *trace,
                                      const struct stp_replay *replay, FILE *fp,
                                      struct stp_error *err);

#endif /* STP_RESULTS_H */
