/* tune_report.h - the text report that `tune` writes next to its policy */
#pragma once

#include <stdio.h>

#include "analyse/compare.h"
#include "analyse/derive.h"
#include "analyse/steadiness.h"
#include "device/device.h"
#include "report/results/memory_rules.h"

/* The policy for collectives that overlap with compute. */
struct stp_tune_overlap {
    const char *policy_path;
    const char *policy_hash;
    const char *why_not;            /* there are no iterations; "": there are */
    const struct stp_dataset *data; /* of the iterations */
    const struct stp_steadiness *steadiness;
    const struct stp_derived *derived;
    const struct stp_comparisons *verdicts; /* of iterations; empty without a
                                               rule to verify */
    size_t n_dropped;
};

/* An arm that would become a rule if its gain were its mean. */
struct stp_tune_unsure {
    int coll;
    uint64_t n_bytes;
    unsigned n_ranks;
    bool overlaps;
    struct stp_arm arm;
    struct stp_gain gain;
};

struct stp_tune_report {
    const struct stp_device_info *info;
    const char *run;
    const char *policy_path;
    const char *policy_hash;
    double min_gain;
    unsigned iters;                         /* an arm and round */
    const struct stp_comparisons *sweep;    /* every arm */
    const struct stp_derived *derived;      /* the rules derived from it */
    const struct stp_comparisons *verdicts; /* the policy against AUTO */
    const struct stp_comparisons *steps;    /* likewise, in iterations in which
                                               compute waits; may be empty */
    size_t n_dropped; /* rules that verification removed */
    const struct stp_tune_overlap *overlap; /* NULL: not asked for */
    const struct stp_memory_table *memory;  /* what to register; NULL: that was
                                               not measured */
    const struct stp_memory_table *stage;   /* what to stage; likewise */
    const struct stp_memory_situations *choices; /* what it rests on */
    const struct stp_tune_unsure *unsure; /* by gain, the largest first */
    size_t n_unsure;
    size_t n_again;     /* rounds that were disturbed, and ran again */
    size_t n_disturbed; /* that were disturbed each time, and stayed */
    const struct stp_dataset *same_bits; /* by which bits stay those of AUTO;
                                            NULL: they may not */
};

/* How far a policy is from the best arm at each size that was swept: the
 * slowdown, 1 at best. */
struct stp_regret {
    double mean; /* geometric */
    double worst;
};
struct stp_regret stp_policy_regret(const struct stp_comparisons *sweep,
                                    const struct stp_derived *derived);

/* Writes the report to the file 'path', whole or not at all. */
enum stp_status stp_tune_report_save(const struct stp_tune_report *report,
                                     const char *path, struct stp_error *err);

/* Prints what both policies change and gain, in short or with a row a size. */
enum stp_status stp_print_tuning(const struct stp_tune_report *report,
                                 bool has_table, FILE *fp,
                                 struct stp_error *err);

/* Both policies and their verdicts as one object. */
void stp_print_tuning_json(const struct stp_tune_report *report, FILE *fp);
