/*
 * decide.h - NCCL's decision from a cost table after the tuner's edits
 */
#ifndef MOCK_DECIDE_H
#define MOCK_DECIDE_H

#include "model/cost_model.h"
#include "plugins/loader.h"

struct mock_decider {
    const struct mock_nccl *nccl;
    const struct mock_model *model;
    bool logs; /* decisions are logged: by rank 0 only, except in 2.31 */
    bool only_protocol; /* only the protocol of the choice is used */
};

/*
 * Sets the outcome's algorithm and protocol from 'cost_after' by the version's
 * rules; in 2.21 they hold the tuner's answer, UNDEF for none. *time_ret is the
 * time that NCCL expects, us. Warns as NCCL does if no entry is left, and also
 * fails where NCCL would crash later.
 */
ncclResult_t mock_decide(const struct mock_decider *decider,
                         const struct mock_question *question,
                         const struct mock_call *call,
                         struct mock_outcome *outcome, float *time_ret);

/* Logs the line on a collective that has its channels, from 'first' on. */
void mock_report_schedule(const struct mock_decider *decider,
                          const struct mock_call *call,
                          const struct mock_outcome *outcome, int first);

#endif /* MOCK_DECIDE_H */
