/*
 * decide.h - what NCCL makes of a cost table once the tuner has had it
 */
#ifndef MOCK_DECIDE_H
#define MOCK_DECIDE_H

#include "model/cost_model.h"
#include "plugins/loader.h"

struct mock_decider {
    const struct mock_nccl *nccl;
    const struct mock_model *model;
    bool speaks;        /* rank 0 logs decisions, the others do not */
    bool only_protocol; /* nothing else of the choice will be used */
};

/*
 * Fills in the outcome's algorithm and protocol from 'cost_after', as the
 * version does; in 2.21 they hold what the tuner wrote, UNDEF for nothing.
 * *time_ret is the time that NCCL expects, us.  Warns as NCCL does if nothing
 * is left, and fails as well where NCCL would go on into a crash.
 */
ncclResult_t mock_decide(const struct mock_decider *decider,
                         const struct mock_question *question,
                         const struct mock_call *call,
                         struct mock_outcome *outcome, float *time_ret);

/* The line on a collective that has its channels, from 'first' on. */
void mock_report_schedule(const struct mock_decider *decider,
                          const struct mock_call *call,
                          const struct mock_outcome *outcome, int first);

#endif /* MOCK_DECIDE_H */
