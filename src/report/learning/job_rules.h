/* job_rules.h - the policy that a job's own learning comes to, from its journal
 *
 * The journal may be of several runs of the job: what they found out of an arm
 * adds up.  The rules are the arms that were in force when the last run ended;
 * communicators of one shape that ended with different arms for a kind of
 * message get the one with the greater gain. */
#pragma once

#include "report/learning/learning.h"

struct stp_job_rule {
    const struct stp_learning_key *key; /* the kind of message */
    struct stp_bandit_arm arm;
    size_t n_blocks;      /* of windows in which it took turns */
    struct stp_gain gain; /* of windows, over what ran before */
};

/* All rules for communicators of a shape, against NCCL's own choice. */
struct stp_job_total {
    uint64_t n_nodes;
    uint64_t n_ranks;
    size_t n_comms; /* that compared them, of all runs */
    size_t n_blocks;
    size_t n_broken;      /* that other calls were in */
    struct stp_gain gain; /* 0: they were not compared */
    double window_us;     /* of the last */
    bool is_left_out; /* its rules are no gain of steps, and not in the file */
};

struct stp_job_rules {
    struct stp_job_rule *rules; /* in the order of keys */
    size_t n;
    struct stp_job_total *totals; /* of each shape with a rule */
    size_t n_totals;
};

/* Makes the rules: 'all' is of all runs, 'last' of the last one, and 'all' must
 * live as long.  To be freed with stp_job_rules_free(). */
void stp_job_rules_make(const struct stp_learning *all,
                        const struct stp_learning *last,
                        struct stp_job_rules *rules_ret);
void stp_job_rules_free(struct stp_job_rules *rules);

/* Writes what all runs found out, for the next one (core/learn/evidence.h). */
void stp_job_evidence_write(const struct stp_learning *all, FILE *fp);

#define STP_MEASURED_ON "GPU: " /* begins a comment: --resume reads it */

struct stp_job_origin {
    const char *command; /* that was run, to be named in a comment */
    const char *gpu;     /* likewise, and in the rules; NULL: not known */
    bool is_portable;    /* rules are for any GPU */
    bool same_bits;      /* sums kept the bits of NCCL's own choice */
};

/* Writes the rules to the policy file 'path', whole or not at all: above each
 * its gain, and above all that of all together. */
enum stp_status stp_job_rules_save(const struct stp_job_rules *rules,
                                   const struct stp_job_origin *origin,
                                   const char *path, struct stp_error *err);

/* Writes a sentence a total, each with a newline and after 'prefix'. */
void stp_job_totals_write(const struct stp_job_rules *rules, const char *prefix,
                          FILE *fp);

/* Adds the arrays "rules" and "together" to 'root'. */
void stp_json_job_rules(struct cJSON *root, const struct stp_job_rules *rules);
