/*
 * cost_model.h - NCCL's prediction of a collective's duration
 */
#ifndef MOCK_COST_MODEL_H
#define MOCK_COST_MODEL_H

#include <stdbool.h>

#include "mock_nccl.h"
#include "model/graphs.h"
#include "model/model.h"
#include "model/user_choice.h"
#include "versions/versions.h"

/* The default constants of NCCL 2.28, which the init of a v5 tuner can edit. */
extern const ncclTunerConstants_v7_t mock_default_constants;

void mock_model_build(struct mock_model *model,
                      const struct mock_machine_info *info,
                      const struct mock_graphs *graphs,
                      const struct mock_model_rules *rules,
                      const ncclTunerConstants_v7_t *constants,
                      const struct mock_user_choice *choice);

/* A collective for which NCCL computes a cost table. */
struct mock_question {
    int coll;
    size_t n_bytes;
    int n_pipe_ops;
    bool no_nvls;
    bool no_pat;
    bool fp8;
    bool no_collnet;
    bool plain_only; /* rule out NVLS and CollNet */
};

/* Whether NVLS and CollNet support the collective, which 2.21 passes to a
 * tuner. */
bool mock_model_nvls(const struct mock_model *model,
                     const struct mock_question *question);
bool mock_model_collnet(const struct mock_model *model,
                        const struct mock_question *question);

/* Like mock_model_table(), but for rings that the user has forbidden; all other
 * entries are ruled out. */
void mock_model_backup(const struct mock_model *model,
                       const struct mock_question *question, mock_table table);

/* NCCL's cost table: microseconds, below 0 for entries that NCCL has ruled out.
 */
void mock_model_table(const struct mock_model *model,
                      const struct mock_question *question, mock_table table);

#endif /* MOCK_COST_MODEL_H */
