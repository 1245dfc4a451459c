/*
 * constants_model.h - NCCL's model of one machine with other constants, as mock
 * NCCL has it
 */
#ifndef STP_CONSTANTS_MODEL_H
#define STP_CONSTANTS_MODEL_H

#include "analyse/constants/constants.h"

struct stp_const_model;

/* A collective of which the model is asked. */
struct stp_const_question {
    int coll;
    uint64_t n_bytes;
    int type; /* enum stp_type */
    int op;   /* enum stp_op */
};

/* STP_ERR_DEVICE or STP_ERR_NOMEM; *model_ret is untouched then.  Later
 * failures go into *err, too. */
enum stp_status stp_const_model_open(const struct stp_constants_terms *terms,
                                     struct stp_const_model **model_ret,
                                     struct stp_error *err);
void stp_const_model_close(struct stp_const_model *model);

unsigned stp_const_model_ranks(const struct stp_const_model *model);
unsigned stp_const_model_nodes(const struct stp_const_model *model);

/* What NCCL starts from. */
void stp_const_model_defaults(const struct stp_const_model *model,
                              ncclTunerConstants_v7_t *constants_ret);

/* The first failure; from then on the model builds nothing and answers 0. */
enum stp_status stp_const_model_status(const struct stp_const_model *model);
/* Makes 'status', whose error is in the model's, its first failure. */
void stp_const_model_fail(struct stp_const_model *model,
                          enum stp_status status);

/* Builds it with these constants, for the questions that follow. */
void stp_const_model_build(struct stp_const_model *model,
                           const ncclTunerConstants_v7_t *constants);

/* Returns the pair that NCCL would choose, algorithm * NCCL_NUM_PROTOCOLS +
 * protocol, and out of which costs; NULL: not asked. */
int stp_const_model_ask(
    struct stp_const_model *model, const struct stp_const_question *question,
    float cost_ret[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS]);

#endif /* STP_CONSTANTS_MODEL_H */
