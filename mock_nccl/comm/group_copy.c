/* group_copy.c - allgathers that the GPUs' copy engines run
 *
 * Follows taskAppend() of NCCL's src/enqueue.cc, and
 * ncclCeAllGatherUseMulticast() of 2.31.2's src/ce_coll.cc. */
#include "comm/comm.h"
#include "model/symmetric.h"
#include "plugins/loader.h"

enum {
    MIN_ELEMENTS = 8 << 20, /* of a rank, NCCL_SYM_CE_THRESHOLD */
    WITHOUT_MULTICAST = 4,  /* times that, where TMA moves data */
};

static bool group_copy_runs(const struct mock_comm *comm,
                            const struct mock_call *call)
{
    const struct mock_model *model = &comm->model;
    const enum mock_copies copies = comm->version->choice.copies;
    bool is_into_window =
        call->windows == MOCK_WINDOWS_BOTH ||
        (copies > MOCK_COPIES_BOTH && call->windows == MOCK_WINDOWS_RECV);
    size_t min = MIN_ELEMENTS;

    if (call->coll != ncclFuncAllGather || copies == MOCK_COPIES_NEVER ||
        !model->all_nvlink || !is_into_window)
        return false;
    if (model->rules->symmetric_tma && !mock_symmetric_has_multicast(model))
        min *= WITHOUT_MULTICAST;
    return comm->nccl->options.zero_ctas ||
           (copies > MOCK_COPIES_BOTH && model->compute_capability >= 100 &&
            mock_share_bytes(model, call->coll, call->n_bytes,
                             call->element_size) /
                    call->element_size >
                min);
}

void mock_apart_copies(struct mock_group *g)
{
    size_t n_left = 0;

    for (size_t i = 0; i < g->n; i++)
        if (group_copy_runs(g->comm, &g->tasks[i].call))
            g->copies[g->n_copies++] = g->tasks[i];
        else
            g->tasks[n_left++] = g->tasks[i];
    g->n = n_left;
}

void mock_run_copies(struct mock_group *g)
{
    const struct mock_model *model = &g->comm->model;

    for (size_t i = 0; i < g->n_copies; i++) {
        struct mock_outcome *outcome = &g->outcomes[g->copies[i].number];
        const struct mock_call *call = &g->copies[i].call;
        struct mock_copy copies[MOCK_MAX_COPIES];
        struct mock_call question = {
            .coll = call->coll,
            .n_bytes = mock_share_bytes(model, call->coll, call->n_bytes,
                                        call->element_size),
            .element_size = 1,
        };
        size_t n = mock_copy_list(model, question.n_bytes, g->captured, copies);

        outcome->asked =
            g->comm->version->choice.copies == MOCK_COPIES_ASKED && n > 1;
        /* NCCL does not look at the tuner's error, and copies by unicast */
        outcome->kernel =
            outcome->asked &&
                    mock_comm_preview(g->comm, &question) == ncclSuccess
                ? mock_copy_pick(copies, n)->name
                : copies[0].name;
    }
}

size_t mock_comm_copies(const struct mock_comm *comm,
                        const struct mock_call *call,
                        struct mock_copy copies_ret[MOCK_MAX_COPIES])
{
    const struct mock_model *model = &comm->model;
    size_t element = call->element_size != 0 ? call->element_size : 2;

    if (call->coll != ncclFuncAllGather || !model->all_nvlink ||
        !mock_comm_asks(comm, call) ||
        comm->version->choice.copies != MOCK_COPIES_ASKED)
        return 0;
    return mock_copy_list(
        model, mock_share_bytes(model, call->coll, call->n_bytes, element),
        false, copies_ret);
}
