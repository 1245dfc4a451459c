/*
 * memory_rules.h - what to register, from measurements
 */
#ifndef STP_MEMORY_RULES_H
#define STP_MEMORY_RULES_H

#include "report/memory_file.h"

/* Measurements of one situation. */
struct stp_memory_situation {
    bool overlaps; /* with compute: comparisons are of iterations */
    const struct stp_comparisons *comparisons;
    struct stp_derive_terms terms; /* with registers set */
};

/* A memory policy that was derived, and what its rules rest on. */
struct stp_memory_rules {
    struct stp_memory_table table;
    struct stp_memory_rule *rules;
    struct stp_memory_evidence *evidence;
    struct stp_memory_drop *drops;
};

/* Whether some arm of these comparisons is of registered buffers. */
bool stp_memory_was_measured(const struct stp_comparisons *comparisons);

/* Derives the rules of all situations, those of the first one first.  'gpu' is
 * the model that they are of, and outlives them; "" if it is not known.  Free
 * with stp_memory_rules_free(). */
enum stp_status
stp_memory_rules_derive(const struct stp_memory_situation *situations, size_t n,
                        const char *gpu, struct stp_memory_rules *rules_ret,
                        struct stp_error *err);

/* The rules of a memory policy as it is, which outlives them, each with what
 * was measured at sizes that it decides: of points out of place, if there are
 * any.  Likewise. */
enum stp_status stp_memory_rules_measure(
    const struct stp_policy *policy,
    const struct stp_memory_situation *situations, size_t n, const char *gpu,
    struct stp_memory_rules *rules_ret, struct stp_error *err);

void stp_memory_rules_free(struct stp_memory_rules *rules);

struct stp_table;

/* A row for each rule; a row for the i-th size that a rule rests on. */
void stp_put_memory_rules(const struct stp_memory_table *memory,
                          struct stp_table *table);
void stp_put_memory_size(const struct stp_memory_rule *rule, size_t i,
                         struct stp_table *table);

/* Prints a row for each size that a rule rests on. */
enum stp_status stp_print_memory_sizes(const struct stp_memory_table *table,
                                       FILE *fp, struct stp_error *err);

/* Prints the rules as a table, or says that there are none. */
enum stp_status stp_print_memory_rules(const struct stp_memory_table *table,
                                       FILE *fp, struct stp_error *err);

enum stp_status
stp_print_memory_rules_json(const struct stp_memory_table *table, FILE *fp,
                            struct stp_error *err);

#endif /* STP_MEMORY_RULES_H */
