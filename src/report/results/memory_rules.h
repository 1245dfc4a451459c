/* memory_rules.h - what to register or to stage, from measurements */
#pragma once

#include "report/memory_file.h"

/* Measurements of one situation: a memory policy tells collectives that overlap
 * with compute from others, a stage policy those in CUDA graphs. */
struct stp_memory_situation {
    bool overlaps; /* comparisons are of iterations */
    bool graph;
    const struct stp_comparisons *comparisons;
    struct stp_derive_terms terms; /* with the kind of the policy */
};

/* Where measurements of both situations come from; NULL: there are none. */
struct stp_memory_data {
    const struct stp_dataset *alone, *iterations;
    const struct stp_dataset *again[2]; /* trials of each situation */
};

/* Both situations of a kind of policy, and what they point to. */
struct stp_memory_situations {
    struct stp_memory_situation all[2];
    struct stp_comparisons compared[2], trials[2], beside[2];
    bool are_measured; /* some arm is of the kind */
};

/* Compares for both situations, by 'terms' with the kind of the policy; the
 * terms' trials and beside are of the data.  Otherwise as
 * stp_compare_registered(). Must not be moved; free with
 * stp_memory_situations_free(), after a failure, too. */
enum stp_status stp_memory_situations_compare(
    const struct stp_memory_data *data, const struct stp_derive_terms *terms,
    struct stp_memory_situations *situations_ret, struct stp_error *err);
void stp_memory_situations_free(struct stp_memory_situations *situations);

/* A memory policy that was derived, and what its rules rest on. */
struct stp_memory_rules {
    struct stp_memory_table table;
    struct stp_memory_rule *rules;
    struct stp_memory_evidence *evidence;
    struct stp_memory_drop *drops;
};

/* Derives the rules of both situations, those of the first one first; of graphs
 * that stage also those, of overlap 0, that hold where nothing runs beside
 * collectives.  'gpu' is the model that they are of, and outlives them; "" if
 * it is not known.  Free with stp_memory_rules_free(). */
enum stp_status
stp_memory_rules_derive(const struct stp_memory_situations *situations,
                        const char *gpu, struct stp_memory_rules *rules_ret,
                        struct stp_error *err);

/* The rules of a policy as it is, which outlives them, each with what
 * was measured at sizes that it decides: of points out of place, if there are
 * any.  Likewise. */
struct stp_memory_rules
stp_memory_rules_measure(const struct stp_policy *policy,
                         const struct stp_memory_situations *situations,
                         const char *gpu);

void stp_memory_rules_free(struct stp_memory_rules *rules);

struct stp_table;

/* A row for each rule; a row for the i-th size that a rule rests on. */
void stp_put_memory_rules(const struct stp_memory_table *memory,
                          struct stp_table *table);
void stp_put_memory_size(const struct stp_memory_table *memory, size_t rule,
                         size_t i, struct stp_table *table);

/* Prints a row for each size that a rule rests on. */
void stp_print_memory_sizes(const struct stp_memory_table *table, FILE *fp);

/* Prints the rules as a table, or says that there are none; or as JSON. */
void stp_print_memory_rules(const struct stp_memory_table *table, bool is_json,
                            FILE *fp);

/* Prints where a rule, staging or registering is fastest, and what all three
 * gain there: the 'most' ranges of sizes that gain most, and how many more the
 * report has; nothing if there are none.  'tuner' is that which AUTO asks. */
void stp_print_choices(const char *tuner,
                       const struct stp_memory_situations *stages, size_t most,
                       FILE *fp);
