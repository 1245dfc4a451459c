/* call.c - checks a call, and converts its outcome */
#include "base/error.h"
#include "base/names.h"
#include "comm/comm.h"

ncclResult_t mock_comm_check(const struct mock_call *call,
                             struct mock_call *filled_ret,
                             struct mock_outcome *outcome)
{
    size_t element =
        call->element_size != 0 ? call->element_size : (call->fp8 ? 1 : 2);

    *filled_ret = *call;
    filled_ret->element_size = element;
    if (call->n_pipe_ops == 0)
        filled_ret->n_pipe_ops = 1;
    *outcome = (struct mock_outcome){.algo = NCCL_ALGO_UNDEF,
                                     .proto = NCCL_PROTO_UNDEF};
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            outcome->cost[a][p] = outcome->cost_after[a][p] =
                NCCL_ALGO_PROTO_IGNORE;
    if ((unsigned)call->coll >= NCCL_NUM_TUNED_FUNCS)
        return mock_fail(ncclInvalidArgument, "no collective %d",
                         (int)call->coll);
    if (element != 1 && element != 2 && element != 4 && element != 8)
        return mock_fail(ncclInvalidArgument, "no type of %zu bytes", element);
    if (call->fp8 && element != 1)
        return mock_fail(ncclInvalidArgument, "no fp8 type of %zu bytes",
                         element);
    if (filled_ret->n_pipe_ops < 1)
        return mock_fail(ncclInvalidArgument, "%d operations in a group",
                         call->n_pipe_ops);
    return ncclSuccess;
}

ncclResult_t mock_comm_check_lane(const struct mock_model *model, int algo,
                                  const struct mock_lane *lane)
{
    int n = lane->max_channels;

    if (lane->alone && (n < 1 || n > lane->limit))
        return mock_fail(ncclInternalError,
                         "%d channels for %s, which NCCL takes as they are, "
                         "but the communicator has %d",
                         n, mock_word(&mock_algos, algo), lane->limit);
    if (n == 0 || (n < 0 && !model->rules->accepts_negative))
        return mock_fail(ncclInternalError,
                         "%d channels leave no bytes for each, and NCCL would "
                         "divide by 0",
                         n);
    return ncclSuccess;
}
