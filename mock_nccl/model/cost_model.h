/*
 * cost_model.h - NCCL's own prediction of how long a collective takes
 */
#ifndef MOCK_COST_MODEL_H
#define MOCK_COST_MODEL_H

#include <stdbool.h>

#include "mock_nccl.h"
#include "model/graphs.h"
#include "model/model.h"
#include "model/user_choice.h"
#include "versions/versions.h"

/* What NCCL 2.28 starts from, and a v5 tuner's init may edit. */
extern const ncclTunerConstants_v5_t mock_default_constants;

/* What a version starts from. */
void mock_model_constants(const struct mock_model_rules *rules,
                          ncclTunerConstants_v5_t *constants_ret);

void mock_model_build(struct mock_model *model,
                      const struct mock_machine_info *info,
                      const struct mock_graphs *graphs,
                      const struct mock_model_rules *rules,
                      const ncclTunerConstants_v5_t *constants,
                      const struct mock_user_choice *choice);

/* What a table is asked for. */
struct mock_question {
    int coll;
    size_t n_bytes;
    int n_pipe_ops;
    bool no_nvls;
    bool no_pat;
    bool fp8;
    bool no_collnet;
    bool plain_only; /* neither NVLS nor CollNet */
};

/* What 2.21 tells a tuner: whether NVLS and CollNet can do it. */
bool mock_model_nvls(const struct mock_model *model,
                     const struct mock_question *question);
bool mock_model_collnet(const struct mock_model *model,
                        const struct mock_question *question);

/* Like mock_model_table(), but what rings would cost that the user has
 * forbidden; all else is ruled out. */
void mock_model_backup(const struct mock_model *model,
                       const struct mock_question *question, mock_table table);

/* NCCL's table: microseconds, below 0 where NCCL has ruled an entry out. */
void mock_model_table(const struct mock_model *model,
                      const struct mock_question *question, mock_table table);

#endif /* MOCK_COST_MODEL_H */
