/* results.h - sweeps, verdicts, rules, explanations and more, as text tables
 * and as JSON */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "analyse/check/check.h"
#include "analyse/compare.h"
#include "analyse/contract/contract.h"
#include "analyse/derive.h"
#include "analyse/explain/explain.h"
#include "analyse/explain/overlay.h"
#include "analyse/explain/why.h"
#include "analyse/steadiness.h"
#include "device/device.h"

/* analyse/replay/trace.h, analyse/replay/replay.h */
struct stp_trace;
struct stp_replay;
struct stp_table; /* report/table.h */
struct cJSON;

/* Adds a workload to a row of JSON, without a GEMM if each size has its own. */
void stp_put_workload(const struct stp_workload *work, bool has_gemm,
                      struct stp_table *table);

/* A row a size and arm: AUTO and every other with its gain; type, operation and
 * place where they are not always bf16, sum and one place. */
void stp_print_sweep(const struct stp_comparisons *comparisons, FILE *fp);
/* A row a size: AUTO, and of the other arms the one with the largest gain; how
 * steady they were; then how many are faster than AUTO beyond doubt. */
void stp_print_sweep_best(const char *tuner,
                          const struct stp_comparisons *comparisons, FILE *fp);
/* Every measurement, for other programs. */
void stp_print_sweep_json(const struct stp_dataset *data, FILE *fp);

/* One line: rounds, spread, drift, and the gains that stand out of noise;
 * nothing without points. */
void stp_print_steadiness(const struct stp_comparisons *comparisons, FILE *fp);

/* A row a size: collective, size, ranks unless all are the machine's, AUTO us,
 * tuned us, gain with interval, choice, verdict; then the counts of all
 * verdicts in a sentence. */
enum stp_verdicts_shown {
    STP_VERDICTS_ALL,
    STP_VERDICTS_SLOWER, /* rows of these alone */
};
void stp_print_verdicts(const struct stp_device_info *info,
                        const struct stp_comparisons *comparisons,
                        enum stp_verdicts_shown shown, FILE *fp);

/* The same in short: a row for each rule of the policy in the file 'path' that
 * changes what runs, with the rule's own ends, a row for each size at which it
 * is slower, and the counts.  'heading' says what the rows are of; NULL: of
 * collectives alone. */
enum stp_status stp_print_gains(const struct stp_device_info *info,
                                const struct stp_comparisons *comparisons,
                                const char *path, const char *heading, FILE *fp,
                                struct stp_error *err);

/* Adds a row: AUTO at a point, with that tuner or "", and the policy's arm
 * (NULL: nothing is known of it) with its gain and verdict. */
void stp_put_verdict(const struct stp_point *point,
                     const struct stp_comparison *arm, const char *tuner,
                     bool has_ranks, struct stp_table *table);

/* Adds an arm at a size: its name, time, gain and what NCCL ran. */
void stp_put_arm(const struct stp_comparison *arm, uint64_t n_bytes,
                 struct stp_table *table);

/* Adds how steady AUTO was. */
void stp_put_steadiness(const struct stp_steadiness *steadiness,
                        struct cJSON *object);

/* Adds what a point is of: "allreduce", or "overlap x 8, ratio 1". */
void stp_put_subject(const struct stp_point *point, struct stp_table *table);

/* Whether points have other ranks than the machine, so that rows want them. */
bool stp_have_ranks(const struct stp_device_info *info,
                    const struct stp_comparisons *comparisons);

void stp_print_verdicts_json(const struct stp_device_info *info,
                             const char *policy_hash,
                             const struct stp_comparisons *comparisons,
                             FILE *fp);

/* How many sizes have each verdict, and their gains. */
struct stp_verdict_count {
    size_t n_same, n_faster, n_unsure, n_slower, n_equal;
    size_t n_by_model; /* of faster, slower and equal, by the model alone */
    double mean_gain;  /* geometric, over all sizes; 1 where NCCL's choice is
                          kept */
    const struct stp_point *best; /* of all sizes the largest gain, or NULL */
    size_t n_workloads;           /* points that are of iterations */
    size_t n_sizes;               /* numbers of bytes among them */
};
struct stp_verdict_count
stp_count_verdicts(const struct stp_comparisons *comparisons);

/* Prints the count in a sentence; and a bound of the loss at any of all sizes,
 * in another, if there are intervals and none is slower.  'tuner' is that which
 * AUTO asks, "" if none; then also what NCCL alone gains over AUTO. */
void stp_print_verdict_count(const char *tuner,
                             const struct stp_comparisons *comparisons,
                             FILE *fp);

/* Where a policy that has rules changed nothing, says so. */
void stp_print_unfollowed(const struct stp_comparisons *comparisons, FILE *fp);

/* A row a rule. */
void stp_print_rules(const struct stp_derived *derived, FILE *fp);
/* With the objective of 'data', which has one (analyse/objective.h), its
 * workloads and its steadiness; NULL: left out. */
void stp_print_rules_json(const struct stp_derived *derived,
                          const struct stp_dataset *data,
                          const struct stp_steadiness *steadiness, FILE *fp);

/* ---- text, or JSON if 'is_json' ---- */

/* NCCL's choices in several cases: of versions, or else under variables. */
struct stp_choice_cases {
    struct stp_choice_case cases[STP_MAX_CASES];
    char labels[STP_MAX_CASES][256]; /* versions, or headings */
    size_t n;
    bool are_versions;
    const char *key; /* of other cases, in JSON */
    bool has_all;    /* also where all choose alike */
    struct stp_overlay overlay;
};

/* Prints a row for each run of versions that choose alike, or with a column a
 * case, and why cases fail; or adds it to a result in JSON (NULL: text). */
void stp_put_choices(const struct stp_choice_cases *choices,
                     struct stp_table *json, FILE *fp);

/* A line of the versions at the overlay's one size: "2.24 to 2.27: ring/simple;
 * from 2.28: ring/ll128". */
void stp_print_versions(const struct stp_choice_cases *choices, FILE *fp);

/* A row a range: in JSON and with 'has_table' each, else those that the plugin
 * decides, and how many there are.  'policy' is the file's name for the last
 * column, or NULL; NCCL 'alone' has no plugin, and the ranges are its own.
 * Printed, or added to a result in JSON or CSV, which has no lines of the
 * policy (NULL: text). */
void stp_put_explanation(const struct stp_explanation *explanation,
                         const char *policy, bool has_table, bool alone,
                         struct stp_table *whole, FILE *fp);

/* The buffers of a message by a memory or stage policy. */
struct stp_why_buffers {
    char path[4096];  /* of the policy */
    const char *when; /* alone, overlapped, launched, captured ... */
    int memory;       /* enum stp_memory */
    int min_ctas;     /* 0: NCCL's own */
    unsigned line;    /* of the rule; 0: none applies */
};

/* The reasons for the choice at one message size. */
struct stp_why_report {
    const struct stp_why *why;
    const char *machine;                     /* its name */
    const char *plugin;                      /* NULL: NCCL alone */
    const struct stp_choice_cases *versions; /* at this size; NULL: not asked */
    const char *policy;                      /* its path, or NULL without one */
    const char *rule; /* the text of the line that decided, or NULL */
    struct stp_why_buffers buffers[6];
    size_t n_buffers;
};
/* A sentence on a variable that is set here. */
void stp_print_override(const struct stp_override *o, FILE *fp);

void stp_print_why(const struct stp_why_report *report, bool is_json, FILE *fp);

/* Tells of its cut_line. */
#define STP_TRACE_CUT "cut in line %u: what is whole before is played"

/* A line: the format of a trace, and how much is in it; another that names the
 * rows that are not played, if there are any. */
void stp_print_trace(const struct stp_trace *trace, FILE *fp);

/* Lines: the step that is played, and the ranks of each communicator in it, as
 * the trace has them and here. */
struct stp_trace_step;
void stp_print_trace_step(const struct stp_trace *trace,
                          const struct stp_trace_step *step, unsigned n_ranks,
                          FILE *fp);

/* A line that counts and names the calls whose ranks have parts that are not a
 * multiple of 16 bytes and that LL does not move, if there are any. */
void stp_print_unaligned(const struct stp_trace *trace,
                         const struct stp_replay *replay, FILE *fp);

/* A row for each collective and size of the trace, with AUTO's and the plugin's
 * choice; in JSON for each row of the trace. */
void stp_print_replay(const struct stp_trace *trace,
                      const struct stp_replay *replay, bool is_json, FILE *fp);

/* A line a check: verdict, name and reason; then the count of each verdict. */
void stp_print_contract(const struct stp_contract *contract, bool is_json,
                        FILE *fp);

/* A line a finding, as compilers print them, and how many there are.  If
 * 'fixed', a finding is printed with the change that its fix made. */
void stp_print_findings(const struct stp_findings *findings, const char *path,
                        bool fixed, bool is_json, FILE *fp);

/* How many findings are left: all, or those that have no fix if 'fixed' says
 * that these were done. */
struct stp_check_count {
    size_t n_warnings, n_notes, n_fixed;
};
struct stp_check_count stp_count_findings(const struct stp_findings *findings,
                                          bool fixed);

/* Times of NCCL's own choice against what one should expect: each size against
 * the next smaller and the next larger one, and against the same size of other
 * measurements or of a machine. */
struct stp_normal {
    const struct stp_dataset *data;
    const struct stp_dataset *other; /* NULL: none */
    const char *other_name;          /* a file, or a machine */
};

/* Whether all times are of collectives with NCCL's own choice, so that nothing
 * can be compared with it. */
bool stp_is_auto_alone(const struct stp_dataset *data);

/* Prints a sentence and the sizes out of line, or all sizes as JSON. */
void stp_print_normal(const struct stp_normal *normal, bool is_json, FILE *fp);
