/* memory_file.h - a memory or stage policy as a file, with its evidence */
#pragma once

#include "core/policy/policy.h"
#include "report/policy_file.h"

/* A gain over plain buffers that was measured at one size. */
struct stp_memory_evidence {
    uint64_t n_bytes;
    double auto_us; /* of plain buffers and NCCL's own choice, > 0 */
    double us;
    struct stp_gain gain;    /* over that */
    char best[STP_ARM_NAME]; /* the fastest arm of plain buffers that a
                                policy could name; "": AUTO */
    struct stp_gain gain_over_best;
    enum stp_source source;
    bool single_pass;
    bool overlaps; /* with compute: times are of iterations */
};

struct stp_memory_rule {
    struct stp_rule rule;                       /* 'line' does not matter */
    const struct stp_memory_evidence *evidence; /* by size */
    size_t n_evidence;
};

/* A setup that was faster at one size, but not when it was measured again. */
struct stp_memory_drop {
    int coll;
    unsigned n_ranks;
    bool overlaps;
    uint64_t n_bytes;
    struct stp_setup setup;
    double gain;   /* over plain buffers and NCCL's own choice, at first */
    double again;  /* the same, measured again; NaN: slower in a workload */
    double policy; /* what the policy gained then */
};

/* Rules in the order in which they are to be looked up. */
struct stp_memory_table {
    enum stp_policy_kind kind; /* of memory or of stages */
    const struct stp_memory_rule *rules;
    size_t n_rules;
    const struct stp_memory_drop *drops;
    size_t n_drops;
};

/* Writes a line for each drop, with its reason, after 'begin'. */
void stp_memory_drops_write(const struct stp_memory_table *table,
                            const char *begin, FILE *fp);

/* Writes the rules to the file 'path', whole or not at all, or if that is NULL
 * to standard output: above each the times it rests on, and above all what made
 * it, the run of the measurements if they have one, the policy hash, the source
 * of the times, what was dropped and, without rules, that there are none.
 * Columns min_ctas, overlap and gpu are there if a rule needs them, and
 * graph in a stage policy. */
enum stp_status stp_memory_file_save(const struct stp_memory_table *table,
                                     const struct stp_policy_origin *origin,
                                     const char *path, struct stp_error *err);
