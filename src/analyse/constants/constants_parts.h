/*
 * constants_parts.h - the model, the sizes and the search of a fit
 *
 * What constants*.c share; nobody else includes it.
 */
#ifndef STP_CONSTANTS_PARTS_H
#define STP_CONSTANTS_PARTS_H

#include "analyse/constants/constants.h"

/* ---- the model ---- */

struct stp_const_model; /* NCCL's, of one machine */

/* What it is asked. */
struct stp_const_question {
    int coll;
    uint64_t n_bytes;
    int type; /* enum stp_type */
    int op;   /* enum stp_op */
};

/* STP_ERR_DEVICE or STP_ERR_NOMEM; *model_ret is untouched then. */
enum stp_status stp_const_model_open(const struct stp_constants_terms *terms,
                                     struct stp_const_model **model_ret,
                                     struct stp_error *err);
void stp_const_model_close(struct stp_const_model *model);

unsigned stp_const_model_ranks(const struct stp_const_model *model);
unsigned stp_const_model_nodes(const struct stp_const_model *model);

/* What NCCL starts from. */
void stp_const_model_defaults(const struct stp_const_model *model,
                              ncclTunerConstants_v5_t *constants_ret);

/* Builds it with these constants, for the questions that follow. */
enum stp_status stp_const_model_build(struct stp_const_model *model,
                                      const ncclTunerConstants_v5_t *constants,
                                      struct stp_error *err);

/* What NCCL would choose, and out of which costs; NULL: not asked. */
enum stp_status
stp_const_model_ask(struct stp_const_model *model,
                    const struct stp_const_question *question, int *algo_ret,
                    int *proto_ret,
                    float cost_ret[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS],
                    struct stp_error *err);

/* ---- the sizes ---- */

enum { STP_CONST_PAIRS = NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS };

/* Times at one size; a pair is algorithm * NCCL_NUM_PROTOCOLS + protocol. */
struct stp_const_size {
    struct stp_const_question question;
    size_t point;   /* of the comparisons; between sizes: of the smaller one */
    double weight;  /* 1, or less between sizes */
    int auto_pair;  /* what NCCL chose; -1: nobody knows */
    double auto_us; /* in logarithms, as the next ones */
    double us[STP_CONST_PAIRS];      /* NAN: not measured */
    bool is_slower[STP_CONST_PAIRS]; /* than NCCL's, beyond the interval */
    bool is_faster[STP_CONST_PAIRS]; /* likewise */
    double best, worst;              /* of us */
    bool is_inner; /* there is a smaller and a larger one of its kind */
};

struct stp_const_sizes {
    struct stp_const_size *sizes;
    size_t n;
};

/*
 * Those of the comparisons at which two pairs or more were measured, but those
 * of 'without' bytes (0: none), and those between them.  'auto_pair' of unknown
 * choices is asked of the model, as it is built.  STP_ERR_RANGE, STP_ERR_NOMEM.
 */
enum stp_status stp_const_sizes_make(const struct stp_comparisons *comparisons,
                                     const struct stp_constants_terms *terms,
                                     struct stp_const_model *model,
                                     uint64_t without,
                                     struct stp_const_sizes *sizes_ret,
                                     struct stp_error *err);

/* The logarithm of what a pair takes over the fastest; one that nobody measured
 * counts as twice the slowest. */
double stp_const_lost(const struct stp_const_size *size, int pair);

/* What the choice of a pair costs at a size: the same, and penalties. */
double stp_const_regret(const struct stp_const_size *size, int pair);

/* ---- the search ---- */

/* A number of starts, of which the first is NCCL's own constants. */
enum stp_status stp_const_search(struct stp_const_model *model,
                                 const struct stp_const_sizes *sizes,
                                 unsigned n_starts, uint64_t seed,
                                 ncclTunerConstants_v5_t *best_ret,
                                 struct stp_error *err);

#endif /* STP_CONSTANTS_PARTS_H */
